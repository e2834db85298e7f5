/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_engines.c -- how many engines there are, which connections each of them serves, and that they share no lock */

#include "connected.h"

#include "softrdma/bounds.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/one_engine.h"
#include "softrdma/engine/reader.h"

#include <dirent.h>
#include <netinet/tcp.h>

/* --- processors, of which the kernel tells as many as a test wants --- */

#define NOT_TOLD (-1)

static int processors = 1;
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);

int
__wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	(void)pid;
	if (processors == NOT_TOLD) {
		errno = EINVAL;
		return -1;
	}
	CPU_ZERO_S(size, set);
	for (int i = 0; i < processors; i++)
		CPU_SET_S((unsigned)i, size, set);
	return 0;
}

/* --- which threads take which locks, while they are counted --- */

#define LOCKS_MAX 256

struct taken {
	const void *lock;
	pthread_t thread; /* the first one that took it */
	unsigned times;
	bool by_two;      /* another thread took it, too */
	bool of_the_test; /* it is not one of the device */
};

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_trylock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *lock);
int __real_pthread_rwlock_rdlock(pthread_rwlock_t *lock);
int __wrap_pthread_rwlock_rdlock(pthread_rwlock_t *lock);

static atomic_bool counting;
/* this thread is the test's; and the locks that it takes now are the test's, too */
static _Thread_local bool is_the_test, counts_own;
static struct taken taken[LOCKS_MAX];
static unsigned taken_count;
static pthread_mutex_t taken_lock = PTHREAD_MUTEX_INITIALIZER;

static struct taken *
find_taken(const void *lock)
{
	for (unsigned i = 0; i < taken_count; i++) {
		if (taken[i].lock == lock)
			return &taken[i];
	}
	return NULL;
}

static void
note(const void *lock)
{
	const pthread_t self = pthread_self();
	if (!counting || (is_the_test && !counts_own))
		return;
	__real_pthread_mutex_lock(&taken_lock);
	struct taken *entry = find_taken(lock);
	if (entry == NULL) {
		assert_true(taken_count < LOCKS_MAX);
		entry = &taken[taken_count++];
		*entry = (struct taken){ .lock = lock, .thread = self };
	}
	entry->times++;
	entry->of_the_test |= is_the_test;
	entry->by_two |= !pthread_equal(entry->thread, self);
	pthread_mutex_unlock(&taken_lock);
}

int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
	note(lock);
	return __real_pthread_mutex_lock(lock);
}

int
__wrap_pthread_mutex_trylock(pthread_mutex_t *lock)
{
	note(lock);
	return __real_pthread_mutex_trylock(lock);
}

int
__wrap_pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
	note(lock);
	return __real_pthread_rwlock_rdlock(lock);
}

static void
begin_to_count(void)
{
	__real_pthread_mutex_lock(&taken_lock); /* a thread may still be in note() */
	taken_count = 0;
	pthread_mutex_unlock(&taken_lock);
	is_the_test = true;
	counting = true;
	counts_own = true;
	(void)has_failed(1); /* failing.c takes its lock at each call */
	counts_own = false;
}

/* true if a thread of the device has taken the lock, or waits for it */
static bool
is_awaited(const void *lock)
{
	__real_pthread_mutex_lock(&taken_lock);
	const bool awaited = find_taken(lock) != NULL;
	pthread_mutex_unlock(&taken_lock);
	return awaited;
}

/* --- plain sockets as the peers of one listener --- */

struct peer {
	int fd;
	struct rdma_cm_id *id;
	struct softrdma_connection *conn;
	uint32_t seq; /* the sequence number of its next request */
};

static void
set_threads(unsigned count)
{
	char text[16];
	snprintf(text, sizeof(text), "%u", count);
	setenv("SOFTRDMA_THREADS", text, 1);
}

/* what the peer sends comes at once, and so in the order in which peers send it */
static int
send_request(struct listener *l)
{
	uint8_t buf[BUF_MAX];
	const int one = 1;
	int fd = raw_connect(&l->addr);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
	raw_send(fd, buf, raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, ""));
	return fd;
}

/* as far as READY, which the peer has not sent */
static void
peer_begin(struct peer *peer, struct listener *l)
{
	uint8_t buf[BUF_MAX];
	struct rdma_conn_param param = { .responder_resources = 4, .rnr_retry_count = 7 };
	peer->fd = send_request(l);
	peer->id = expect_event(l->channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(peer->id);
	peer->conn = softrdma_connection_of(softrdma_qp_of(peer->id->qp)->link);
	assert_int_equal(softrdma_rdma_accept(peer->id, &param), 0);
	raw_recv(peer->fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
	peer->seq = 100;
}

static void
send_ready(struct peer *peer)
{
	raw_frame(peer->fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_READY });
}

static void
peer_init(struct peer *peer, struct listener *l)
{
	peer_begin(peer, l);
	send_ready(peer);
	assert_ptr_equal(expect_event(l->channel, RDMA_CM_EVENT_ESTABLISHED, 0), peer->id);
}

static void
peer_fini(struct peer *peer)
{
	destroy(peer->id);
	close(peer->fd);
}

/* in one piece: one event */
static void
send_write_with(struct peer *peer, uint8_t flags)
{
	uint8_t buf[SOFTRDMA_FRAME_SIZE + 4];
	const struct softrdma_frame frame = { .opcode = SOFTRDMA_OP_WRITE,
		.flags = (uint8_t)(SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST | flags),
		.seq = peer->seq,
		.length = 4,
		.key = the_mr->rkey,
		.addr = (uintptr_t)the_mem };
	softrdma_frame_encode(&frame, buf);
	memcpy(buf + SOFTRDMA_FRAME_SIZE, "data", 4);
	raw_send(peer->fd, buf, sizeof(buf));
}

static void
send_write(struct peer *peer)
{
	send_write_with(peer, 0);
}

static void
expect_ack(struct peer *peer)
{
	uint8_t buf[SOFTRDMA_FRAME_SIZE];
	struct softrdma_frame frame;
	raw_recv(peer->fd, buf, sizeof(buf));
	assert_true(softrdma_frame_decode(buf, &frame));
	assert_int_equal(frame.opcode, SOFTRDMA_OP_ACK);
	assert_int_equal(frame.seq, peer->seq++);
}

static void
expect_alive(struct peer *peer)
{
	send_write(peer);
	expect_ack(peer);
}

static const struct softrdma_engine *
engine_of(const struct peer *peer)
{
	return softrdma_engine_of(&peer->conn->watched);
}

/* how many of the peers the engine serves */
static unsigned
count_of(const struct softrdma_engine *engine, const struct peer *peers, unsigned count)
{
	unsigned of_it = 0;
	for (unsigned i = 0; i < count; i++)
		of_it += peers[i].conn && engine_of(&peers[i]) == engine;
	return of_it;
}

/* --- how many there are --- */

static void
expect_threads(int count)
{
	assert_int_equal(softrdma_threads_start(), 0);
	assert_int_equal(count_threads(), 1 + count);
	softrdma_threads_stop();
	assert_int_equal(count_settle(count_threads, 1, PATIENCE_MS), 1);
}

static void
test_as_many_as_wanted(void **state)
{
	(void)state;
	for (unsigned count = 1; count <= SOFTRDMA_THREADS_MAX; count++) {
		set_threads(count);
		expect_threads((int)count);
	}
	assert_int_equal(log_worst, 0);
}

static void
test_wrong_numbers(void **state)
{
	(void)state;
	static const char *const wrong[] = { "0", "9", "-1", "four", "2 " };
	processors = 8;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		log_clear();
		setenv("SOFTRDMA_THREADS", wrong[i], 1);
		expect_threads(2);
		char line[80];
		snprintf(line, sizeof(line),
			"SOFTRDMA_THREADS is \"%s\", which is no number from 1 to 8: 2 is used", wrong[i]);
		assert_true(log_has(line));
	}
	processors = 1;
}

/* one for each four processors */
static void
test_as_the_machine_has_processors(void **state)
{
	(void)state;
	static const struct {
		int processors, threads;
	} table[] = { { NOT_TOLD, 1 }, { 1, 1 }, { 2, 1 }, { 7, 1 }, { 8, 2 }, { 31, 7 }, { 32, 8 },
		{ 256, 8 } };
	unsetenv("SOFTRDMA_THREADS");
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		processors = table[i].processors;
		expect_threads(table[i].threads);
	}
	processors = 1;
	assert_int_equal(log_worst, 0);
}

static unsigned
count_threads_named(const char *name)
{
	char wanted[64], path[300], line[64];
	unsigned count = 0;
	snprintf(wanted, sizeof(wanted), "%s\n", name);
	DIR *dir = opendir("/proc/self/task");
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		FILE *file = fopen(path, "re");
		count += file && fgets(line, sizeof(line), file) && strcmp(line, wanted) == 0;
		if (file)
			fclose(file);
	}
	closedir(dir);
	return count;
}

static void
test_names(void **state)
{
	(void)state;
	static const char *const names[] = { "softrdma", "softrdma-2", "softrdma-3", "softrdma-8" };
	set_threads(SOFTRDMA_THREADS_MAX);
	assert_int_equal(softrdma_threads_start(), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(count_threads_named(names[i]), 1);
	softrdma_threads_stop();
}

/* the device works with those that can be started, and logs that once */
static void
test_some_cannot_be_started(void **state)
{
	(void)state;
	static const struct {
		const char *call;
		unsigned skip; /* to fail at the third engine. Pending sockets have an epoll, too. */
	} calls[] = { { "pthread_create", 2 }, { "epoll_create1", 3 }, { "eventfd", 2 }, { "epoll_ctl", 3 } };
	const int fds = count_fds();
	set_threads(4);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct listener l;
		struct peer peers[4];
		log_clear();
		fail_call(FAIL_MINE, calls[i].call, calls[i].skip, 1, EAGAIN);
		assert_int_equal(softrdma_threads_start(), 0);
		assert_int_equal(fail_nothing(), 1);
		assert_int_equal(count_settle(count_threads, 1 + 2, PATIENCE_MS), 1 + 2);
		assert_string_equal(log_text,
			"only 2 of 4 progress threads can be started: Resource temporarily unavailable\n");
		listener_init(&l);
		for (int j = 0; j < 4; j++)
			peer_init(&peers[j], &l);
		assert_int_equal(count_of(softrdma_engine_first(), peers, 4), 2);
		for (int j = 0; j < 4; j++) {
			expect_alive(&peers[j]);
			peer_fini(&peers[j]);
		}
		listener_fini(&l);
		softrdma_threads_stop();
		assert_int_equal(count_fds(), fds);
	}
}

/* --- which connections they serve --- */

/* the thread that has taken the lock of the connection, and how many of these connections it has served */
static unsigned
count_served_with(const struct peer *peer, const struct peer *peers, unsigned count)
{
	const struct taken *entry = find_taken(&peer->conn->link.lock);
	unsigned served = 0;
	assert_non_null(entry);
	for (unsigned i = 0; i < count; i++) {
		const struct taken *other = find_taken(&peers[i].conn->link.lock);
		served += other && pthread_equal(other->thread, entry->thread);
	}
	return served;
}

/*
 * Connections are spread evenly; each is served by one thread; and while they serve, no two threads take the same lock.
 * The test looks at locks, because no thread serves a connection without its lock.
 */
static void
test_share_no_lock(void **state)
{
	(void)state;
	enum { THREADS = 4, PEERS = 8, ROUNDS = 50 };
	struct listener l;
	struct peer peers[PEERS];
	unsigned of_device = 0, times = 0;
	set_threads(THREADS);
	listener_init(&l);
	for (int i = 0; i < PEERS; i++)
		peer_init(&peers[i], &l);
	begin_to_count();
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < PEERS; i++)
			send_write(&peers[i]);
		for (int i = 0; i < PEERS; i++)
			expect_ack(&peers[i]);
	}
	counting = false;
	__real_pthread_mutex_lock(&taken_lock); /* the last thread may be in note() */
	for (int i = 0; i < PEERS; i++) {
		assert_int_equal(count_of(engine_of(&peers[i]), peers, PEERS), PEERS / THREADS);
		assert_int_equal(count_served_with(&peers[i], peers, PEERS), PEERS / THREADS);
	}
	for (unsigned i = 0; i < taken_count; i++) {
		if (taken[i].of_the_test)
			continue;
		of_device++;
		times += taken[i].times;
		assert_false(taken[i].by_two);
	}
	pthread_mutex_unlock(&taken_lock);
	print_message("%d writes: %u locks of the device were taken %u times, none of them by two threads\n",
		PEERS * ROUNDS, of_device, times);
	/* each engine has one, and so has each connection */
	assert_int_equal(of_device, THREADS + PEERS);
	for (int i = 0; i < PEERS; i++)
		peer_fini(&peers[i]);
	listener_fini(&l);
}

/* a new connection goes to the engine that has the fewest, also after others have ended */
static void
test_least_loaded(void **state)
{
	(void)state;
	enum { THREADS = 3, PEERS = 9 };
	struct listener l;
	struct peer peers[PEERS] = { 0 };
	set_threads(THREADS);
	listener_init(&l);
	for (int i = 0; i < PEERS; i++)
		peer_init(&peers[i], &l);
	const struct softrdma_engine *emptied = engine_of(&peers[1]), *other = engine_of(&peers[2]);
	assert_ptr_not_equal(emptied, other);
	for (int i = 0; i < PEERS; i++) {
		if (engine_of(&peers[i]) != emptied)
			continue;
		peer_fini(&peers[i]);
		peers[i] = (struct peer){ 0 };
	}
	for (int i = 0; i < PEERS; i++) {
		if (peers[i].conn)
			continue;
		/* one that cannot be watched is not counted */
		fail_call(FAIL_MINE, "epoll_ctl", 1, 1, ENOSPC);
		int fd = send_request(&l);
		struct rdma_cm_id *id = expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		give_qp(id);
		assert_int_equal(softrdma_rdma_accept(id, NULL), -1);
		assert_int_equal(fail_nothing(), 1);
		destroy(id);
		close(fd);
		peer_init(&peers[i], &l);
		assert_ptr_equal(engine_of(&peers[i]), emptied);
		expect_alive(&peers[i]);
	}
	assert_int_equal(count_of(other, peers, PEERS), PEERS / THREADS);
	for (int i = 0; i < PEERS; i++)
		peer_fini(&peers[i]);
	listener_fini(&l);
}

/* the deadlines of a connection are looked at by its own engine, which leaves the locks of other connections alone */
static void
test_deadlines(void **state)
{
	(void)state;
	struct listener l;
	struct peer peers[3];
	set_threads(3);
	listener_init(&l);
	for (int i = 0; i < 3; i++)
		peer_begin(&peers[i], &l);                 /* READY must come in time */
	struct softrdma_link *held = &peers[2].conn->link; /* the newest comes first in the list of all */
	pthread_mutex_lock(&held->lock);
	clock_forward_ms(SOFTRDMA_HANDSHAKE_TIMEOUT_MS + 1);
	for (int i = 0; i < 2; i++) {
		raw_expect_end(peers[i].fd);
		expect_event(l.channel, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET);
	}
	expect_no_event(l.channel);
	pthread_mutex_unlock(&held->lock);
	expect_event(l.channel, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET);
	for (int i = 0; i < 3; i++)
		peer_fini(&peers[i]);
	listener_fini(&l);
}

static bool
has_executed(const struct peer *peer)
{
	const struct softrdma_responder *resp = &peer->conn->link.responder;
	return locked(&peer->conn->link, resp->expected) == peer->seq + 1;
}

static void
expect_no_bytes(const struct peer *peer)
{
	char byte;
	assert_int_equal(recv(peer->fd, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

/* as if messages of the peer had had replies until now */
static void
have_replies(struct peer *peer)
{
	pthread_mutex_lock(&peer->conn->link.lock);
	peer->conn->link.responder.answers = SOFTRDMA_ACK_LATER_FROM;
	pthread_mutex_unlock(&peer->conn->link.lock);
}

/* the clock stands still */
static void
expect_ack_at_a_beat(struct peer *peer)
{
	send_write_with(peer, SOFTRDMA_FRAME_ACK_LATER);
	wait_until(has_executed(peer));
	expect_no_bytes(peer);
	clock_forward_ms(100);
	expect_ack(peer);
}

/* an acknowledgement waits for a reply until a beat; if none has come by then, later ones do not wait */
static void
test_late_acknowledgement(void **state)
{
	(void)state;
	struct listener l;
	struct peer peer;
	set_threads(1);
	listener_init(&l);
	peer_init(&peer, &l);
	for (int i = 0; i < 3; i++) {
		have_replies(&peer);
		clock_stop(); /* no beat comes */
		expect_ack_at_a_beat(&peer);
		clock_go_on();
		assert_int_equal(locked(&peer.conn->link, peer.conn->link.responder.answers), 0);
	}
	/* one acknowledgement for both; the beat then finds that something has left meanwhile */
	have_replies(&peer);
	clock_stop();
	send_write_with(&peer, SOFTRDMA_FRAME_ACK_LATER);
	wait_until(has_executed(&peer));
	peer.seq++;
	expect_alive(&peer);
	expect_ack_at_a_beat(&peer);
	clock_go_on();
	assert_int_equal(locked(&peer.conn->link, peer.conn->link.responder.answers),
		SOFTRDMA_ACK_LATER_FROM);
	peer_fini(&peer);
	listener_fini(&l);
}

static struct {
	struct softrdma_watched watched;
	atomic_int refs, beats;
	pthread_t thread; /* that called the last beat */
} object;

static void
hold_object(struct softrdma_watched *watched)
{
	assert_ptr_equal(watched, &object.watched);
	object.refs++;
}

static void
release_object(struct softrdma_watched *watched)
{
	assert_ptr_equal(watched, &object.watched);
	object.refs--;
}

static void
beat_of_object(struct softrdma_watched *watched, enum softrdma_beat beat, uint64_t now_ns)
{
	(void)now_ns;
	assert_ptr_equal(watched, &object.watched);
	assert_int_equal(beat, SOFTRDMA_BEAT_DEADLINES);
	object.thread = pthread_self();
	object.beats++;
}

static void
expect_beat_by(const struct softrdma_engine *engine)
{
	object.beats = 0;
	wait_until(object.beats > 1); /* one may have been under way */
	assert_int_equal(object.thread, engine->thread);
}

/* what needed a beat before it had an engine has it from its engine */
static void
test_beats_before_an_engine(void **state)
{
	(void)state;
	struct listener l;
	struct peer peer;
	set_threads(2);
	listener_init(&l);
	peer_init(&peer, &l);
	object.watched = (struct softrdma_watched){ .beat = beat_of_object,
		.get = hold_object,
		.put = release_object };
	softrdma_engine_needs_beat(&object.watched, SOFTRDMA_BEAT_DEADLINES, true);
	expect_beat_by(softrdma_engine_first());
	const struct softrdma_engine *second = softrdma_engine_join(&object.watched);
	assert_ptr_not_equal(second, softrdma_engine_first());
	expect_beat_by(second);
	softrdma_engine_needs_beat(&object.watched, SOFTRDMA_BEAT_DEADLINES, false);
	softrdma_engine_part(&object.watched);
	wait_until(object.refs == 0);
	peer_fini(&peer);
	listener_fini(&l);
}

static bool
polled_until_led(const struct peer *peer)
{
	struct ibv_wc wc;
	for (int i = 0; i < 100; i++)
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	return locked(&peer->conn->link, peer->conn->reader) == SOFTRDMA_READER_LEAD;
}

/* another thread may hold the lock of the connection for a while, and then the poller leaves it out */
static void
poll_until_led(const struct peer *peer)
{
	wait_until(polled_until_led(peer));
}

static bool
is_with_its_engine(struct softrdma_connection *conn)
{
	return locked(&conn->link, conn->reader) == SOFTRDMA_READER_ENGINE;
}

/* the engine of a connection takes its socket back from a poller that has stopped, whichever engine it is */
static void
test_pollers(void **state)
{
	(void)state;
	struct listener l;
	struct peer peers[2];
	set_threads(2);
	listener_init(&l);
	for (int i = 0; i < 2; i++)
		peer_init(&peers[i], &l);
	assert_ptr_not_equal(engine_of(&peers[0]), engine_of(&peers[1]));
	clock_stop(); /* no beat comes */
	poll_until_led(&peers[0]);
	poll_until_led(&peers[1]);
	clock_go_on();
	for (int i = 0; i < 2; i++) {
		wait_until(is_with_its_engine(peers[i].conn));
		expect_alive(&peers[i]);
		peer_fini(&peers[i]);
	}
	listener_fini(&l);
}

/*
 * A queue pair outlives its id, and so the engines. When the device starts again with fewer of them, the first one looks at
 * the deadline of the connection. The lead that it was in has ended with the engines.
 */
static void
test_connection_outlives_its_engine(void **state)
{
	(void)state;
	for (int led = 0; led < 2; led++) {
		struct listener l;
		struct peer peers[2];
		struct ibv_qp *qps[2];
		set_threads(2);
		listener_init(&l);
		for (int i = 0; i < 2; i++) {
			peer_init(&peers[i], &l);
			qps[i] = peers[i].id->qp;
		}
		struct softrdma_connection *conn = peers[1].conn;
		assert_ptr_not_equal(engine_of(&peers[1]), softrdma_engine_first());
		clock_stop();
		if (led)
			poll_until_led(&peers[1]);
		for (int i = 0; i < 2; i++)
			assert_int_equal(softrdma_rdma_destroy_id(peers[i].id), 0);
		listener_fini(&l);
		assert_int_equal(count_settle(count_threads, 1, PATIENCE_MS), 1);
		assert_ptr_equal(engine_of(&peers[1]), softrdma_engine_first());
		assert_true(conn->fd >= 0 && is_with_its_engine(conn));
		clock_go_on();

		set_threads(1);
		listener_init(&l);
		wait_until(is_with_its_engine(conn));
		assert_true(locked(&conn->link, conn->fd >= 0));
		clock_forward_ms(SOFTRDMA_PEER_TIMEOUT_MS + 1);
		wait_until(locked(&conn->link, conn->fd < 0));
		for (int i = 0; i < 2; i++) {
			assert_int_equal(softrdma_ibv_destroy_qp(qps[i]), 0);
			close(peers[i].fd);
		}
		listener_fini(&l);
	}
}

/* an object that has more to do when the engines end is not left in their lists */
static void
test_work_left_at_the_end(void **state)
{
	(void)state;
	struct listener l;
	struct peer peers[2];
	struct ibv_qp *qps[2];
	set_threads(2);
	listener_init(&l);
	for (int i = 0; i < 2; i++) {
		peer_init(&peers[i], &l);
		qps[i] = peers[i].id->qp;
	}
	fail_call(FAIL_ANY, "send", 0, FAIL_FOR_EVER, EINTR);
	for (int i = 0; i < 2; i++)
		assert_int_equal(softrdma_rdma_destroy_id(peers[i].id), 0); /* DISCONNECT does not leave */
	listener_fini(&l);
	for (int i = 0; i < 2; i++) {
		assert_false(softrdma_engine_has_queued(engine_of(&peers[i])));
		assert_false(peers[i].conn->watched.queued);
	}
	fail_nothing();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(softrdma_ibv_destroy_qp(qps[i]), 0);
		close(peers[i].fd);
	}
}

/* --- the order of what peers send --- */

/*
 * A client is connected, by a connection of another engine than the first, and connects again. Its first connection is
 * reported as established before its second request is, although another thread serves each of them.
 */
static void
test_established_before_the_next_request(void **state)
{
	(void)state;
	struct listener l;
	struct peer peers[2];
	set_threads(2);
	listener_init(&l);
	peer_init(&peers[0], &l);
	peer_begin(&peers[1], &l);
	assert_ptr_not_equal(engine_of(&peers[1]), softrdma_engine_first());
	pthread_mutex_lock(&peers[1].conn->link.lock); /* READY waits */
	send_ready(&peers[1]);
	int fd = send_request(&l);
	wait_until(!softrdma_engine_others_have_looked());
	expect_alive(&peers[0]); /* the first thread is not held up */
	expect_no_event(l.channel);
	pthread_mutex_unlock(&peers[1].conn->link.lock);
	assert_ptr_equal(expect_event(l.channel, RDMA_CM_EVENT_ESTABLISHED, 0), peers[1].id);
	struct rdma_cm_id *id = expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	destroy(id);
	close(fd);
	for (int i = 0; i < 2; i++)
		peer_fini(&peers[i]);
	listener_fini(&l);
}

/* the same if more connections have input than epoll reports at once */
static void
test_more_than_one_report(void **state)
{
	(void)state;
	enum { REPORT = 64, PEERS = 2 * (REPORT + 8) };
	static struct peer peers[PEERS];
	struct listener l;
	struct peer *held = NULL, *last = &peers[PEERS - 1];
	set_threads(2);
	listener_init(&l);
	for (int i = 0; i < PEERS - 1; i++)
		peer_init(&peers[i], &l);
	peer_begin(last, &l);
	const struct softrdma_engine *engine = engine_of(last);
	assert_ptr_not_equal(engine, softrdma_engine_first());
	/* the thread stops in the turn of one connection, while all others get input, and the last one READY */
	for (int i = 0; held == NULL; i++) {
		if (engine_of(&peers[i]) == engine)
			held = &peers[i];
	}
	/* without a deadline no beat takes the locks of its connections, once the thread has come round again */
	locked(&last->conn->link, (softrdma_connection_deadline(&last->conn->link, 0), 0));
	expect_alive(held);
	begin_to_count();
	pthread_mutex_lock(&held->conn->link.lock);
	send_write(held);
	wait_until(is_awaited(&held->conn->link.lock));
	counting = false;
	for (int i = 0; i < PEERS - 1; i++) {
		if (&peers[i] != held)
			send_write(&peers[i]);
	}
	pthread_mutex_lock(&last->conn->link.lock);
	send_ready(last);
	int fd = send_request(&l);
	wait_until(!softrdma_engine_others_have_looked());
	pthread_mutex_unlock(&held->conn->link.lock);
	for (int i = 0; i < PEERS - 1; i++)
		expect_ack(&peers[i]);
	assert_false(softrdma_engine_others_have_looked());
	expect_no_event(l.channel);
	pthread_mutex_unlock(&last->conn->link.lock);
	assert_ptr_equal(expect_event(l.channel, RDMA_CM_EVENT_ESTABLISHED, 0), last->id);
	struct rdma_cm_id *id = expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	destroy(id);
	close(fd);
	for (int i = 0; i < PEERS; i++)
		peer_fini(&peers[i]);
	listener_fini(&l);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_as_many_as_wanted),
		device_test(test_wrong_numbers),
		device_test(test_as_the_machine_has_processors),
		device_test(test_names),
		device_test(test_some_cannot_be_started),
		device_test(test_share_no_lock),
		device_test(test_least_loaded),
		device_test(test_deadlines),
		device_test(test_late_acknowledgement),
		device_test(test_beats_before_an_engine),
		device_test(test_pollers),
		device_test(test_connection_outlives_its_engine),
		device_test(test_work_left_at_the_end),
		device_test(test_established_before_the_next_request),
		device_test(test_more_than_one_report),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
