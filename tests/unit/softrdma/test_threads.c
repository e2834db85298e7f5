/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_threads.c -- sockets, the progress thread, pollers and deadlines
 *
 * One side is the device, the other one the device as well, or a plain socket that speaks the protocol.
 */

#include "connected.h"

#include "softrdma/base/env.h"
#include "softrdma/base/spin.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/links.h"
#include "softrdma/engine/pending_sockets.h"
#include "softrdma/engine/reader.h"
#include "softrdma/engine/threads.h"
#include "softrdma/engine/workers.h"

#include <dirent.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

/* while this is not 0 the clock stands at this time, but for a step at each look */
static _Atomic(uint64_t) standing_ns, step_ns;
uint64_t __real_softrdma_now_ns(void);
uint64_t __wrap_softrdma_now_ns(void);

uint64_t
__wrap_softrdma_now_ns(void)
{
	if (standing_ns)
		standing_ns += step_ns;
	const uint64_t ns = standing_ns;
	return ns ? ns : __real_softrdma_now_ns();
}

/* --- the progress thread --- */

static void
test_starts_and_stops(void **state)
{
	(void)state;
	int fds = count_fds();
	for (int i = 0; i < 30; i++) {
		assert_int_equal(softrdma_threads_start(), 0);
		assert_int_equal(softrdma_threads_start(), 0);
		assert_int_equal(count_threads(), 2);
		softrdma_threads_stop();
		assert_int_equal(count_threads(), 2); /* another object still needs it */
		softrdma_threads_stop();
		assert_int_equal(count_settle(count_threads, 1, PATIENCE_MS), 1);
		assert_int_equal(count_fds(), fds);
	}
}

static void
test_does_not_start(void **state)
{
	(void)state;
	static const char *const calls[] = { "epoll_create1", "eventfd", "epoll_ctl", "pthread_create" };
	int fds = count_fds();
	for (size_t i = 0; i < 2 * sizeof(calls) / sizeof(calls[0]); i++) {
		/* there are two epoll instances; the first one needs two descriptors */
		const char *call = calls[i / 2];
		fail_call(FAIL_MINE, call, strncmp(call, "epoll_", 6) == 0 ? i % 2 : 0, 1, EMFILE);
		assert_int_equal(softrdma_threads_start(), EMFILE);
		assert_int_equal(count_fds(), fds);
	}
	fail_nothing();
	assert_int_equal(softrdma_threads_start(), 0);
	softrdma_threads_stop();
}

/* signals belong to the application, and the programs that it starts inherit no descriptors */
static void
test_thread_and_descriptors(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	for (int fd = 3; fd < 256; fd++) {
		int flags = fcntl(fd, F_GETFD);
		char path[64], target[256];
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ssize_t len = readlink(path, target, sizeof(target) - 1);
		if (flags < 0 || len < 0)
			continue;
		target[len] = '\0';
		if (strncmp(target, "socket:", 7) == 0 || strncmp(target, "anon_inode:", 11) == 0)
			assert_true(flags & FD_CLOEXEC);
	}
	DIR *dir = opendir("/proc/self/task");
	unsigned seen = 0;
	for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
		char path[300], line[256];
		bool ours = false;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		FILE *file = fopen(path, "re");
		while (file && entry->d_name[0] != '.' && fgets(line, sizeof(line), file)) {
			if (strcmp(line, "Name:\tsoftrdma\n") == 0)
				ours = true;
			if (ours && strncmp(line, "SigBlk:", 7) == 0) {
				/*
				 * all signals except those that cannot be blocked and glibc's own two; an emulator
				 * keeps others for itself
				 */
				assert_true(
					in_emulator() || strtoull(line + 8, NULL, 16) == 0xfffffffe7ffbfeffu);
				seen++;
			}
		}
		if (file)
			fclose(file);
	}
	closedir(dir);
	assert_int_equal(seen, 1);
	pair_fini(&p);
}

static bool
write_works(struct ibv_qp *qp)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 64, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED },
			   *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)the_mem + 4096;
	wr.wr.rdma.rkey = the_mr->rkey;
	memset(the_mem, ++the_mem[0], 64);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	return next_wc().status == IBV_WC_SUCCESS && memcmp(the_mem, the_mem + 4096, 64) == 0;
}

/*
 * a child of fork() without exec() has no threads of the device; its changes to its copy affect no other
 * process
 */
static void
test_forked_child(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	pid_t pid = fork();
	if (pid == 0) {
		/* the child has its own copies of these descriptors */
		close(softrdma_connection_of(softrdma_qp_of(p.active->qp)->link)->fd);
		close(p.channel->fd);
		_exit(7);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	assert_true(write_works(p.active->qp));
	assert_true(write_works(p.passive->qp));
	expect_no_event(p.channel);
	pair_fini(&p);
}

static void
test_interrupted_wakes(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	uint8_t buf[BUF_MAX];
	size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	int fd = raw_connect(&l.addr);
	raw_send(fd, buf, len);
	struct rdma_cm_id *id = expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(id);
	fail_call(FAIL_MINE, "write", 0, 1, EINTR); /* a deadline is set, which wakes the thread */
	assert_int_equal(softrdma_rdma_accept(id, NULL), 0);
	assert_int_equal(fail_nothing(), 1);
	fail_call(FAIL_THEIRS, "read", 0, 1, EINTR);
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, 0); /* no change */
	struct softrdma_link *link = softrdma_qp_of(id->qp)->link;
	pthread_mutex_lock(&link->lock);
	softrdma_connection_deadline(link, 0);
	pthread_mutex_unlock(&link->lock);
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES,
		1); /* the first one wakes the thread */
	wait_until(has_failed(1));
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, -1);
	/* another error is not retried: a later call wakes the thread */
	fail_call(FAIL_MINE, "write", 0, 1, EIO);
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, 1);
	assert_int_equal(fail_nothing(), 1);
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, -1);
	fail_call(FAIL_THEIRS, "read", 0, 1, EIO);
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, 1);
	wait_until(has_failed(1));
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, -1);
	fail_nothing();
	destroy(id);
	close(fd);
	listener_fini(&l);
}

static unsigned released;

static void
count_release(struct softrdma_watched *watched)
{
	(void)watched;
	released++;
}

/* without a thread the object cannot be in use, so it is released at once */
static void
test_forgotten_without_thread(void **state)
{
	(void)state;
	struct softrdma_watched watched = { .put = count_release };
	released = 0;
	softrdma_pending_sockets_forget(0, &watched);
	assert_int_equal(released, 1);
	assert_int_equal(softrdma_pending_sockets_watch(0, &watched), EBADF);
}

/* --- a plain socket as the peer --- */

struct raw_peer {
	struct listener l;
	struct rdma_cm_id *id;
	struct softrdma_link *link;
	int fd;
	uint32_t seq; /* the sequence number of its next request */
};

/* from 127.0.0.<host> */
static void
raw_peer_init_from(struct raw_peer *p, unsigned host)
{
	uint8_t buf[BUF_MAX];
	listener_init(&p->l);
	p->fd = raw_connect_from(&p->l.addr, host);
	raw_send(p->fd, buf, raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, ""));
	p->id = expect_event(p->l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(p->id);
	p->link = softrdma_qp_of(p->id->qp)->link;
	struct rdma_conn_param param = { .responder_resources = 4,
		.initiator_depth = 4,
		.rnr_retry_count = 7 };
	assert_int_equal(softrdma_rdma_accept(p->id, &param), 0);
	raw_recv(p->fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
	raw_frame(p->fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_READY });
	expect_event(p->l.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	p->seq = 100;
}

static void
raw_peer_init(struct raw_peer *p)
{
	raw_peer_init_from(p, 1);
}

static void
raw_peer_fini(struct raw_peer *p)
{
	if (p->id)
		destroy(p->id);
	close(p->fd);
	listener_fini(&p->l);
}

/* waits for a frame without payload */
static void
raw_expect_frame(int fd, uint8_t opcode, uint16_t code, uint32_t seq)
{
	uint8_t buf[SOFTRDMA_FRAME_SIZE];
	struct softrdma_frame frame;
	raw_recv(fd, buf, sizeof(buf));
	assert_true(softrdma_frame_decode(buf, &frame));
	assert_int_equal(frame.opcode, opcode);
	assert_int_equal(frame.code, code);
	assert_int_equal(frame.seq, seq);
}

/* the peer's next request, a WRITE */
static struct softrdma_frame
next_write(struct raw_peer *p, const void *to, uint32_t key, uint32_t len)
{
	return (struct softrdma_frame){ .opcode = SOFTRDMA_OP_WRITE,
		.flags = SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST,
		.seq = p->seq++,
		.length = len,
		.key = key,
		.addr = (uintptr_t)to };
}

static void
raw_write(struct raw_peer *p, const void *to, uint32_t key, uint32_t len)
{
	const struct softrdma_frame frame = next_write(p, to, key, len);
	raw_frame(p->fd, &frame);
}

static void
raw_expect_alive(struct raw_peer *p)
{
	raw_write(p, the_mem, the_mr->rkey, 4);
	raw_send(p->fd, "abcd", 4);
	raw_expect_frame(p->fd, SOFTRDMA_OP_ACK, 0, p->seq - 1);
}

/* --- pending connections --- */

struct pending_socket {
	struct softrdma_watched watched;
	int fd;
	atomic_uint turns;
};

static void
pending_socket_gone(struct softrdma_watched *watched)
{
	((struct pending_socket *)watched)->turns = 0;
}

/* a peer that never reads must not pin as much of the kernel's memory as a socket may have */
static void
test_unsent_is_bounded(void **state)
{
	(void)state;
	struct raw_peer p;
	int unsent = 0;
	socklen_t len = sizeof(unsent);
	raw_peer_init(&p);
	const int fd = locked(p.link, softrdma_connection_of(p.link)->fd);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, &len), 0);
	assert_int_equal(unsent, SOFTRDMA_UNSENT_MAX);
	raw_peer_fini(&p);
}

/* a pending socket that is ready again after each turn, as in a flood */
static void
come_again(struct softrdma_watched *watched, uint32_t events)
{
	struct pending_socket *socket = (struct pending_socket *)watched;
	(void)events;
	socket->turns++;
	softrdma_pending_sockets_look_again(socket->fd, watched);
}

/* neither a flood of pending sockets nor a connection that always has work keeps the other from its turns */
static void
test_turns_of_both(void **state)
{
	(void)state;
	struct raw_peer p;
	struct pending_socket socket = { .watched = { .handle = come_again, .put = pending_socket_gone },
		.fd = eventfd(1, EFD_CLOEXEC) };
	raw_peer_init(&p);
	assert_int_equal(softrdma_pending_sockets_watch(socket.fd, &socket.watched), 0);
	unsigned turns = 0;
	for (int i = 0; i < 20; i++) {
		wait_until(socket.turns != turns);
		turns = socket.turns;
		raw_expect_alive(&p);
	}
	softrdma_pending_sockets_forget(socket.fd, &socket.watched);
	raw_expect_alive(&p); /* it is released when the thread has finished its current work */
	wait_until(socket.turns == 0);
	close(socket.fd);
	raw_peer_fini(&p);
}

static void
post_write(struct ibv_qp *qp, uint64_t wr_id, size_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = (uint32_t)len, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id,
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED },
			   *bad;
	/* to another place than its source, which may still be read when the write arrives */
	wr.wr.rdma.remote_addr = (uintptr_t)the_mem + 4096;
	wr.wr.rdma.rkey = the_mr->rkey;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

static void
expect_wc(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

/* --- receiving --- */

static void
test_protocol_broken(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	post_write(p.id->qp, 1, 8);
	char garbage[SOFTRDMA_FRAME_SIZE];
	memset(garbage, 'x', sizeof(garbage));
	raw_send(p.fd, garbage, sizeof(garbage));
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	wait_for_log("a peer sent what is no frame of the protocol");
	expect_wc(1, IBV_WC_RETRY_EXC_ERR);

	/* the event was pending when the socket was closed */
	softrdma_connection_of(p.link)->watched.turn(&softrdma_connection_of(p.link)->watched, EPOLLIN);
	raw_peer_fini(&p);
}

/*
 * One access violation ends the connection. The NAK is sent first, and the violation counts against its
 * source.
 */
static void
test_offender(void **state)
{
	(void)state;
	for (unsigned times = 1; times <= 2; times++) {
		struct raw_peer p;
		raw_peer_init(&p);
		/* in one turn, so that the NAK acknowledges the first one */
		pthread_mutex_lock(&p.link->lock);
		raw_write(&p, the_mem, the_mr->rkey, 4);
		raw_send(p.fd, "good", 4);
		raw_write(&p, the_mem, the_mr->rkey + 1, 4);
		raw_send(p.fd, "evil", 4);
		raw_write(&p, the_mem, the_mr->rkey, 4);
		raw_send(p.fd, "late", 4);
		pthread_mutex_unlock(&p.link->lock);
		raw_expect_frame(p.fd, SOFTRDMA_OP_NAK, 2, 101);
		raw_expect_frame(p.fd, SOFTRDMA_OP_DISCONNECT, 0, 0);
		raw_expect_end(p.fd);
		assert_memory_equal(the_mem, "good", 4);
		wait_for_log("127.0.0.1 has reached for memory that it may not have");
		wait_for_log(times == 1 ? "number 1 from there" : "number 2 from there");
		/*
		 * the application gets the usual event of the end: when the peer responds, or after the
		 * timeout
		 */
		expect_no_event(p.l.channel);
		if (times == 1)
			raw_frame(p.fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_DISCONNECT });
		else
			clock_forward_ms(SOFTRDMA_PEER_TIMEOUT_MS + 1);
		expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		raw_peer_fini(&p);
	}
}

/* a peer that ends the connection together with its wrong request is counted all the same */
static void
test_offender_that_leaves(void **state)
{
	(void)state;
	static const enum {
		STREAM_ENDS,
		DISCONNECT,
		GARBAGE,
		RESET
	} cases[] = { STREAM_ENDS, DISCONNECT, GARBAGE, RESET };
	struct sockaddr_in addr = loopback(0);
	const struct softrdma_source source = softrdma_source_of((struct sockaddr *)&addr);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct raw_peer p;
		/* the peer has reset the connection before it was attached, so the kernel has forgotten its address */
		if (cases[i] == RESET)
			fail_call(FAIL_MINE, "getpeername", 1, 1, ENOTCONN);
		raw_peer_init(&p);
		fail_nothing();
		const unsigned before = softrdma_source_violations(&source, softrdma_now_ns());
		/* so that all of it is received in one turn */
		pthread_mutex_lock(&p.link->lock);
		raw_write(&p, the_mem, the_mr->rkey + 1, 4);
		raw_send(p.fd, "evil", 4);
		if (cases[i] == DISCONNECT)
			raw_frame(p.fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_DISCONNECT });
		if (cases[i] == GARBAGE) {
			char garbage[SOFTRDMA_FRAME_SIZE];
			memset(garbage, 'x', sizeof(garbage));
			raw_send(p.fd, garbage, sizeof(garbage));
		}
		shutdown(p.fd, SHUT_WR);
		pthread_mutex_unlock(&p.link->lock);
		expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		wait_until(softrdma_source_violations(&source, softrdma_now_ns()) == before + 1);
		raw_peer_fini(&p);
	}
}

/* a connection whose peer's address is unknown is closed all the same */
static void
test_unknown_offender(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	locked(p.link, softrdma_connection_of(p.link)->peer.any.sa_family = AF_UNSPEC);
	raw_write(&p, the_mem, the_mr->rkey + 1, 0); /* of 0 bytes: this is not refused */
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
	raw_write(&p, the_mem, the_mr->rkey + 1, 4);
	raw_send(p.fd, "evil", 4);
	raw_expect_frame(p.fd, SOFTRDMA_OP_NAK, 2, 101);
	raw_expect_frame(p.fd, SOFTRDMA_OP_DISCONNECT, 0, 0);
	wait_for_log("an unknown address has reached for memory");
	raw_peer_fini(&p);
}

/* the peer's request gets no response, and the connection ends */
static void
raw_expect_shut_out(struct raw_peer *p)
{
	raw_expect_frame(p->fd, SOFTRDMA_OP_DISCONNECT, 0, 0);
	raw_expect_end(p->fd);
	expect_no_event(p->l.channel);
	raw_frame(p->fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_DISCONNECT });
	expect_event(p->l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
}

/*
 * A peer that has many connections before its first wrong key has as many guesses as the limit says. Its other connections
 * end when something comes on them, whatever it is.
 */
static void
test_wrong_keys_on_many_connections(void **state)
{
	(void)state;
	enum { LIMIT = 2, GUESSER = 20, HONEST = 21 };
	const struct softrdma_source source = source_of_host(GUESSER);
	struct raw_peer guessing[LIMIT], knowing, silent, late, honest;
	setenv("SOFTRDMA_MAX_WRONG_KEYS", "2", 1);
	for (int i = 0; i < LIMIT; i++)
		raw_peer_init_from(&guessing[i], GUESSER);
	raw_peer_init_from(&late, GUESSER);
	raw_peer_init_from(&knowing, GUESSER);
	raw_peer_init_from(&silent, GUESSER);
	raw_peer_init_from(&honest, HONEST);
	for (int i = 0; i < LIMIT; i++) {
		raw_expect_alive(&knowing); /* the limit is not reached */
		raw_write(&guessing[i], the_mem, the_mr->rkey + 1, 4);
		raw_send(guessing[i].fd, "evil", 4);
		raw_expect_frame(guessing[i].fd, SOFTRDMA_OP_NAK, SOFTRDMA_NAK_ACCESS, 100);
		raw_expect_frame(guessing[i].fd, SOFTRDMA_OP_DISCONNECT, 0, 0);
	}
	assert_int_equal(softrdma_source_violations(&source, softrdma_now_ns()), LIMIT);

	raw_write(&late, the_mem, the_mr->rkey + 1, 4);
	raw_send(late.fd, "evil", 4);
	raw_expect_shut_out(&late);
	wait_for_log("127.0.0.20:");
	wait_for_log("is no longer heard: too many wrong keys from there");
	assert_int_equal(softrdma_source_violations(&source, softrdma_now_ns()), LIMIT);
	memcpy(the_mem, "good", 4);
	raw_write(&knowing, the_mem, the_mr->rkey, 4);
	raw_send(knowing.fd, "evil", 4);
	raw_expect_shut_out(&knowing);
	assert_memory_equal(the_mem, "good", 4);

	/* others are served, and so is a connection that is silent until the wrong keys are forgotten */
	raw_expect_alive(&honest);
	clock_forward_ms(SOFTRDMA_OFFENDER_MEMORY_MS);
	raw_expect_alive(&silent);
	for (int i = 0; i < LIMIT; i++)
		raw_peer_fini(&guessing[i]);
	raw_peer_fini(&late);
	raw_peer_fini(&knowing);
	raw_peer_fini(&silent);
	raw_peer_fini(&honest);
	unsetenv("SOFTRDMA_MAX_WRONG_KEYS");
}

static void
test_receiving_fails(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	/* more interruptions than turns: other connections are served in between */
	fail_call(FAIL_THEIRS, "recv", 0, 2 * SOFTRDMA_RX_TURNS, EINTR);
	raw_write(&p, the_mem, the_mr->rkey, 4);
	raw_send(p.fd, "abcd", 4);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
	assert_int_equal(fail_nothing(), 2 * SOFTRDMA_RX_TURNS);
	assert_memory_equal(the_mem, "abcd", 4);

	fail_call(FAIL_THEIRS, "recv", 0, 1, ETIMEDOUT); /* the kernel has given up the peer */
	raw_frame(p.fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_READY });
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	fail_nothing();
	raw_peer_fini(&p);
}

/* registered memory may be unmapped: the message is refused, and the process does not crash */
static void
test_memory_gone_when_receiving(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	size_t size = SOFTRDMA_SEGMENT_MAX;
	uint8_t *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr =
		softrdma_ibv_reg_mr(the_pd, mem, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(mr);
	munmap(mem, size);
	raw_write(&p, mem, mr->rkey, (uint32_t)size);
	/*
	 * The header is received before there is any payload, which is then received directly into the
	 * memory.
	 */
	wait_until(locked(p.link, p.link->rx.state == SOFTRDMA_RX_PLACING));
	static uint8_t payload[SOFTRDMA_SEGMENT_MAX];
	for (size_t sent = 0; sent < size;) {
		ssize_t n = send(p.fd, payload + sent, size - sent, MSG_NOSIGNAL);
		assert_true(n > 0);
		sent += (size_t)n;
	}
	raw_expect_frame(p.fd, SOFTRDMA_OP_NAK, SOFTRDMA_NAK_OPERATION, 100);
	expect_state(p.id->qp, IBV_QPS_ERR);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	raw_peer_fini(&p);
}

/*
 * If a file was truncated, a read into its memory ends early, as if the rest had not arrived. The kernel reports
 * the fault only at the next read, for which no edge comes.
 */
static void
test_short_read_into_a_file(void **state)
{
	(void)state;
	enum { SIZE = 16384 };
	struct raw_peer p;
	raw_peer_init(&p);
	int file = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(file, SIZE), 0);
	uint8_t *mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	struct ibv_mr *mr =
		softrdma_ibv_reg_mr(the_pd, mem, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(mr);
	static uint8_t payload[SIZE];
	for (uint32_t cut = 0; cut < 2; cut++) {
		for (size_t i = 0; i < SIZE; i++)
			payload[i] = (uint8_t)(i * 7 + cut);
		struct softrdma_frame frame = { .opcode = SOFTRDMA_OP_WRITE,
			.flags = SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST,
			.seq = 100 + cut,
			.key = mr->rkey,
			.addr = (uintptr_t)mem,
			.length = SIZE };
		raw_frame(p.fd, &frame);
		wait_until(locked(p.link, p.link->rx.state == SOFTRDMA_RX_PLACING));
		if (cut)
			assert_int_equal(ftruncate(file, SIZE / 2), 0);
		/* everything has arrived before a part of it is received; the rest is received afterwards */
		pthread_mutex_lock(&p.link->lock);
		raw_send(p.fd, payload, SIZE);
		fail_call(FAIL_THEIRS, "recvmsg", 0, 1, FAIL_SHORT);
		pthread_mutex_unlock(&p.link->lock);
		assert_true(readable(p.fd, PATIENCE_MS));
		if (cut)
			raw_expect_frame(p.fd, SOFTRDMA_OP_NAK, SOFTRDMA_NAK_OPERATION, 101);
		else
			raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
		assert_int_equal(fail_nothing(), 1);
		assert_memory_equal(mem, payload, SIZE / 2);
	}
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	munmap(mem, SIZE);
	close(file);
	raw_peer_fini(&p);
}

/*
 * memory for the response to a request of this side is gone; elsewhere in the stream there is nothing to
 * refuse
 */
static void
test_memory_gone_when_reading(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	pthread_mutex_lock(&p.link->lock);
	softrdma_link_rx_fault(p.link);
	pthread_mutex_unlock(&p.link->lock);
	expect_state(p.id->qp, IBV_QPS_RTS);
	const uint32_t size = SOFTRDMA_SEGMENT_MAX;
	uint8_t *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, mem, size, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	struct ibv_sge sge = { .addr = (uintptr_t)mem, .length = size, .lkey = mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1 },
			   *bad;
	assert_int_equal(ibv_post_send(p.id->qp, &wr, &bad), 0);
	munmap(mem, size);
	raw_frame(p.fd,
		&(struct softrdma_frame){ .opcode = SOFTRDMA_OP_READ_RESPONSE,
			.flags = SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST,
			.length = size,
			.seq = p.link->seq });
	wait_until(locked(p.link, p.link->rx.state == SOFTRDMA_RX_PLACING));
	static uint8_t payload[SOFTRDMA_SEGMENT_MAX];
	for (size_t sent = 0; sent < size;) {
		ssize_t n = send(p.fd, payload + sent, size - sent, MSG_NOSIGNAL);
		assert_true(n > 0);
		sent += (size_t)n;
	}
	expect_wc(1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	raw_peer_fini(&p);
}

/* --- sending --- */

/* a vanished peer must not kill the process by SIGPIPE */
static void
test_no_sigpipe(void **state)
{
	(void)state;
	for (int injected = 0; injected < 2; injected++) {
		struct raw_peer p;
		raw_peer_init(&p);
		if (injected) {
			fail_call(FAIL_MINE, "sendmsg", 0, 1, EPIPE);
			post_write(p.id->qp, 1, 8);
			assert_int_equal(fail_nothing(), 1);
		}
		const struct linger reset = { .l_onoff = 1 };
		setsockopt(p.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(p.fd);
		p.fd = -1;
		if (!injected)
			post_write(p.id->qp, 1, 8);
		struct ibv_wc wc = next_wc();
		assert_int_equal(wc.wr_id, 1);
		assert_int_not_equal(wc.status, IBV_WC_SUCCESS);
		expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		raw_peer_fini(&p);
	}
}

static void
test_sending_fails(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	fail_call(FAIL_MINE, "sendmsg", 0, 2, EINTR); /* the call is repeated */
	post_write(p.id->qp, 1, 8);
	assert_int_equal(fail_nothing(), 2);
	fail_call(FAIL_MINE, "sendmsg", 0, 1, EAGAIN); /* the next thread that serves the socket goes on */
	post_write(p.id->qp, 2, 8);
	assert_int_equal(fail_nothing(), 1);
	raw_frame(p.fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_ACK, .seq = p.link->seq });
	expect_wc(1, IBV_WC_SUCCESS);

	fail_call(FAIL_MINE, "sendmsg", 0, 1, EFAULT); /* registered memory has been unmapped */
	post_write(p.id->qp, 3, 8);
	fail_nothing();
	struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, 2);
	assert_int_not_equal(wc.status, IBV_WC_SUCCESS);
	expect_wc(3, IBV_WC_WR_FLUSH_ERR);
	raw_peer_fini(&p);
}

static pthread_mutex_t tick_gate = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool at_gate; /* the progress thread waits there; it clears this under the lock */
static atomic_uint ticks;

static void
tick_through_gate(uint64_t now_ns)
{
	(void)now_ns;
	at_gate = true;
	pthread_mutex_lock(&tick_gate);
	at_gate = false;
	ticks++;
	pthread_mutex_unlock(&tick_gate);
}

/* stops the progress thread at its next tick, until let_thread_go() */
static void
hold_thread(void)
{
	pthread_mutex_lock(&tick_gate);
	softrdma_engine_at_beat(tick_through_gate);
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, 1);
	wait_until(at_gate);
}

static void
let_thread_go(void)
{
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, -1);
	pthread_mutex_unlock(&tick_gate);
}

/* one turn, as the progress thread makes it; true if it may poll the connection now */
static bool
is_alone(const struct rdma_cm_id *id)
{
	struct softrdma_watched *watched = &softrdma_connection_of(softrdma_qp_of(id->qp)->link)->watched;
	return watched->turn(watched, 0).alone;
}

/* the progress thread does not poll beside a thread that posts, because posts need the lock */
static void
test_not_polled_while_it_is_posted_to(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	bool is[5];
	hold_thread();
	is_alone(p.active); /* what came before is looked at */
	is[0] = is_alone(p.active);
	for (int i = 1; i <= 2; i++) {
		post_write(p.active->qp, (uint64_t)i, 8);
		is[2 * i - 1] = is_alone(p.active);
		is[2 * i] = is_alone(p.active);
	}
	let_thread_go();
	for (int i = 0; i < 5; i++)
		assert_int_equal(is[i], i % 2 == 0);
	expect_wc(1, IBV_WC_SUCCESS);
	expect_wc(2, IBV_WC_SUCCESS);
	pair_fini(&p);
}

/*
 * The acknowledgement of the last request has arrived when this side ends the connection, and no thread has read it yet:
 * the request succeeds. The progress thread is held meanwhile.
 */
static void
test_acknowledged_before_the_end(void **state)
{
	(void)state;
	enum { TO_ERROR, DISCONNECT, WAYS };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	for (int i = 0; i < WAYS; i++) {
		struct pair_of_ids p;
		pair_init(&p);
		struct softrdma_link *active = softrdma_qp_of(p.active->qp)->link,
				     *passive = softrdma_qp_of(p.passive->qp)->link;
		struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 64, .lkey = the_mr->lkey };
		struct ibv_send_wr wr = { .wr_id = 5,
			.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED };
		struct ibv_send_wr *bad;
		wr.wr.rdma.remote_addr = (uintptr_t)the_mem + 4096;
		wr.wr.rdma.rkey = the_mr->rkey;
		hold_thread();
		assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
		wait_until((locked(passive, softrdma_connection_serve(softrdma_connection_of(passive))),
			readable(softrdma_connection_of(active)->fd, 0)));
		if (i == TO_ERROR)
			assert_int_equal(softrdma_ibv_modify_qp(p.active->qp, &error, IBV_QP_STATE), 0);
		else
			assert_int_equal(softrdma_rdma_disconnect(p.active), 0);
		let_thread_go();
		struct ibv_wc wc = next_wc();
		assert_int_equal(wc.wr_id, 5);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		pair_fini(&p);
	}
}

/*
 * A connection with more to send than fits into one turn waits in a list, at most once. The progress thread
 * is held meanwhile.
 */
static void
test_more_than_one_turn(void **state)
{
	(void)state;
	struct pair_of_ids a, b;
	pair_init(&a);
	pair_init(&b);
	hold_thread();
	fail_call(FAIL_MINE, "sendmsg", 0, FAIL_FOR_EVER, EINTR);
	post_write(a.active->qp, 1, 8);
	post_write(b.active->qp, 2, 8);
	post_write(a.active->qp, 3, 8);
	assert_int_equal(fail_nothing(), 3 * 16);
	let_thread_go();
	unsigned sum = 0;
	for (int i = 0; i < 3; i++)
		sum += (unsigned)next_wc().wr_id;
	assert_int_equal(sum, 6);

	/* when the device stops, the list is emptied */
	hold_thread();
	fail_call(FAIL_MINE, "sendmsg", 0, FAIL_FOR_EVER, EINTR);
	post_write(b.active->qp, 2, 8);
	fail_nothing();
	let_thread_go();
	pair_fini(&a);
	pair_fini(&b);
	struct ibv_wc wc;
	ibv_poll_cq(the_cq, 1, &wc); /* it may have completed or not */
}

/* bytes that have not arrived at the other side's socket yet */
static int
unsent(int fd)
{
	int bytes = 0;
	assert_int_equal(ioctl(fd, SIOCOUTQ, &bytes), 0);
	return bytes;
}

/*
 * A connection with many small frames must not hold up others. While several have work, a turn ends after a
 * fixed number of frames. A READ of another connection shows how far it got.
 */
static void
test_flood_of_frames(void **state)
{
	(void)state;
	enum { FLOOD = 850, LENGTH = SOFTRDMA_FRAME_SIZE + 4 };
	struct raw_peer first, flooder, honest;
	raw_peer_init(&first);
	raw_peer_init(&flooder);
	raw_peer_init(&honest);
	uint8_t *flood = malloc((size_t)FLOOD * LENGTH);
	assert_non_null(flood);
	for (uint32_t i = 0; i < FLOOD; i++) {
		const struct softrdma_frame frame = next_write(&flooder, the_mem, the_mr->rkey, 4);
		softrdma_frame_encode(&frame, flood + (size_t)i * LENGTH);
		memcpy(flood + (size_t)i * LENGTH + SOFTRDMA_FRAME_SIZE, &i, sizeof(i));
	}

	hold_thread();
	/* the first connection's turn ends without progress, so more than one has work */
	fail_call(FAIL_THEIRS, "recv", 0, SOFTRDMA_RX_TURNS, EINTR);
	raw_write(&first, (char *)the_mem + 8, the_mr->rkey, 4);
	raw_send(first.fd, "abcd", 4);
	wait_until(unsent(first.fd) == 0); /* it has arrived first */
	raw_send(flooder.fd, flood, (size_t)FLOOD * LENGTH);
	wait_until(unsent(flooder.fd) == 0);
	raw_frame(honest.fd,
		&(struct softrdma_frame){ .opcode = SOFTRDMA_OP_READ,
			.seq = honest.seq++,
			.key = the_mr->rkey,
			.addr = (uintptr_t)the_mem,
			.arg = 4 });
	wait_until(unsent(honest.fd) == 0);
	let_thread_go();

	uint8_t answer[LENGTH];
	uint32_t last;
	raw_recv(honest.fd, answer, sizeof(answer));
	memcpy(&last, answer + SOFTRDMA_FRAME_SIZE, sizeof(last));
	assert_int_equal(fail_nothing(), SOFTRDMA_RX_TURNS);
	assert_in_range(last, SOFTRDMA_RX_FRAMES - 1, SOFTRDMA_RX_FRAMES + SOFTRDMA_STAGE_SIZE / LENGTH);
	raw_expect_frame(first.fd, SOFTRDMA_OP_ACK, 0, 100);
	wait_until(atomic_load((_Atomic(uint32_t) *)the_mem) == FLOOD - 1); /* and all of it arrives */
	free(flood);
	raw_peer_fini(&honest);
	raw_peer_fini(&flooder);
	raw_peer_fini(&first);
}

/* deregistering a region while it is being sent ends the connection */
static void
test_deregistered_when_half_sent(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	size_t size = 64u << 20; /* more than any socket buffer holds */
	void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, mem, size, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	struct ibv_sge sge = { .addr = (uintptr_t)mem, .length = (uint32_t)size, .lkey = mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1,
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED },
			   *bad;
	assert_int_equal(ibv_post_send(p.id->qp, &wr, &bad), 0);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	expect_wc(1, IBV_WC_LOC_PROT_ERR);
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	munmap(mem, size);

	/* a queue pair that is being destroyed has no memory in transit */
	struct ibv_qp *qp = p.link->qp;
	p.link->qp = NULL;
	mr = softrdma_ibv_reg_mr(the_pd, the_mem, 8, 0);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	p.link->qp = qp;
	raw_peer_fini(&p);
}

/* --- deadlines --- */

/* the peer does not respond to DISCONNECT */
static void
test_disconnect_without_answer(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	assert_int_equal(softrdma_rdma_disconnect(p.id), 0);
	raw_expect_frame(p.fd, SOFTRDMA_OP_DISCONNECT, 0, 0);
	assert_false(readable(p.l.channel->fd, 60));
	clock_forward_ms(SOFTRDMA_PEER_TIMEOUT_MS + 1);
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	wait_for_log("a peer did not respond in time");
	raw_peer_fini(&p);
}

/* requests that wait for a response, to leave together with others, leave before this side ends the connection */
static void
test_disconnect_behind_gathered_requests(void **state)
{
	(void)state;
	for (int destroys = 0; destroys < 2; destroys++) {
		struct raw_peer p;
		uint8_t frame[SOFTRDMA_FRAME_SIZE + 8];
		raw_peer_init(&p);
		clock_stop(); /* they do not wait for too long, and no beat comes, however busy the machine is */
		for (unsigned i = 0; i < SOFTRDMA_GATHER_FROM + 2; i++)
			post_write(p.id->qp, i, 8);
		for (unsigned i = 0; i < SOFTRDMA_GATHER_FROM; i++)
			raw_recv(p.fd, frame, sizeof(frame));
		assert_false(readable(p.fd, 0));
		clock_go_on();
		if (destroys)
			softrdma_rdma_destroy_qp(p.id);
		else
			assert_int_equal(softrdma_rdma_disconnect(p.id), 0);
		for (unsigned i = 0; i < 2; i++) {
			raw_recv(p.fd, frame, sizeof(frame));
			struct softrdma_frame decoded;
			assert_true(softrdma_frame_decode(frame, &decoded));
			assert_int_equal(decoded.opcode, SOFTRDMA_OP_WRITE);
		}
		raw_expect_frame(p.fd, SOFTRDMA_OP_DISCONNECT, 0, 0);
		for (unsigned i = 0; i < SOFTRDMA_GATHER_FROM + 2 && !destroys; i++)
			assert_int_equal(next_wc().status, IBV_WC_WR_FLUSH_ERR);
		raw_peer_fini(&p);
	}
}

/* A peer that has sent DISCONNECT does not end its stream: the deadline closes the socket. The same after a wrong key. */
static void
test_disconnect_and_stay(void **state)
{
	(void)state;
	for (int guesses = 0; guesses < 2; guesses++) {
		struct raw_peer p;
		raw_peer_init(&p);
		log_clear();
		pthread_mutex_lock(&p.link->lock); /* so that all of it is received in one turn */
		if (guesses) {
			raw_write(&p, the_mem, the_mr->rkey + 1, 4);
			raw_send(p.fd, "evil", 4);
		}
		raw_frame(p.fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_DISCONNECT });
		pthread_mutex_unlock(&p.link->lock);
		if (guesses)
			raw_expect_frame(p.fd, SOFTRDMA_OP_NAK, SOFTRDMA_NAK_ACCESS, 100);
		raw_expect_frame(p.fd, SOFTRDMA_OP_DISCONNECT, 0, 0);
		raw_expect_end(p.fd);
		expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		assert_true(locked(p.link, softrdma_connection_of(p.link)->fd >= 0));
		clock_forward_ms(SOFTRDMA_PEER_TIMEOUT_MS + 1);
		wait_until(locked(p.link, softrdma_connection_of(p.link)->fd < 0));
		wait_for_log("a peer did not respond in time: connection closed");
		raw_peer_fini(&p);
	}
}

/* an id is destroyed before its queue pair: that too ends a connection whose peer stays */
static void
test_id_destroyed_and_peer_stays(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	struct ibv_qp *qp = p.id->qp;
	assert_int_equal(softrdma_rdma_destroy_id(p.id), 0);
	p.id = NULL;
	raw_expect_frame(p.fd, SOFTRDMA_OP_DISCONNECT, 0, 0);
	clock_forward_ms(SOFTRDMA_PEER_TIMEOUT_MS + 1);
	wait_until(locked(p.link, softrdma_connection_of(p.link)->fd < 0));
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
	raw_peer_fini(&p);
}

/* READY arrives after this side has disconnected: the deadline of the disconnection stays */
static void
test_ready_after_disconnect(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	uint8_t buf[BUF_MAX];
	int fd = raw_connect(&l.addr);
	raw_send(fd, buf, raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, ""));
	struct rdma_cm_id *id = expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(id);
	assert_int_equal(softrdma_rdma_accept(id, NULL), 0);
	assert_int_equal(softrdma_rdma_disconnect(id), 0);
	raw_frame(fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_READY });
	expect_event(l.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	clock_forward_ms(SOFTRDMA_PEER_TIMEOUT_MS + 1);
	expect_event(l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	destroy(id);
	close(fd);
	listener_fini(&l);
}

/* waits for a SEND without payload */
static void
raw_expect_message(int fd)
{
	uint8_t buf[SOFTRDMA_FRAME_SIZE];
	struct softrdma_frame frame;
	raw_recv(fd, buf, sizeof(buf));
	assert_true(softrdma_frame_decode(buf, &frame));
	assert_int_equal(frame.opcode, SOFTRDMA_OP_SEND);
}

static void
post_send(struct ibv_qp *qp, uint64_t wr_id)
{
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

/* the receiver has no receive: the sender waits the time that the receiver has set, and not longer */
static void
test_receiver_not_ready(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct softrdma_link *link = softrdma_qp_of(p.active->qp)->link;
	softrdma_connection_of(link)->rnr_retry = 1;
	struct ibv_recv_wr recv_wr = { .wr_id = 10 }, *bad;
	post_send(p.active->qp, 1);
	wait_until(locked(link, softrdma_connection_of(link)->rnr_timer.when_ns != 0));
	clock_forward_ms(1000); /* too early: the time is 2 * 655.36 ms */
	assert_int_equal(ibv_post_recv(p.passive->qp, &recv_wr, &bad), 0);
	assert_int_equal(next_wc().status + next_wc().status, 0);
	wait_until(locked(link, softrdma_connection_of(link)->rnr_timer.when_ns == 0));

	post_send(p.active->qp, 2);
	wait_until(locked(link, softrdma_connection_of(link)->rnr_timer.when_ns != 0));
	clock_forward_ms(1400);
	expect_wc(2, IBV_WC_RNR_RETRY_EXC_ERR);
	expect_state(p.active->qp, IBV_QPS_ERR);
	pair_fini(&p);

	/* if it is destroyed while it waits, the timer is removed too */
	pair_init(&p);
	link = softrdma_qp_of(p.active->qp)->link;
	softrdma_connection_of(link)->rnr_retry = 0;
	post_send(p.active->qp, 3);
	wait_until(locked(link, softrdma_connection_of(link)->rnr_timer.when_ns != 0));
	pair_fini(&p);
}

/* if the peer vanishes during the wait, the timer is removed */
static void
test_gone_while_not_ready(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	softrdma_connection_of(p.link)->rnr_retry = 0;
	post_send(p.id->qp, 1);
	raw_expect_message(p.fd);
	raw_frame(p.fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_RNR, .seq = p.link->seq });
	wait_until(locked(p.link, softrdma_connection_of(p.link)->rnr_timer.when_ns != 0));
	close(p.fd);
	p.fd = -1;
	expect_wc(1, IBV_WC_RETRY_EXC_ERR);
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_true(locked(p.link, softrdma_connection_of(p.link)->rnr_timer.when_ns == 0));
	raw_peer_fini(&p);
}

/* a receive posted after the end of the connection wakes no sender */
static void
test_receive_after_the_end(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	close(p.fd);
	p.fd = -1;
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	wait_until(locked(p.link, softrdma_connection_of(p.link)->fd < 0));
	softrdma_connection_receive_posted(p.link);
	raw_peer_fini(&p);
}

/* --- pollers --- */

static struct softrdma_link *
polled_link(struct pair_of_ids *p)
{
	return softrdma_qp_of(p->active->qp)->link;
}

static bool
is_owned(struct softrdma_link *link)
{
	pthread_mutex_lock(&link->lock);
	bool owned = softrdma_connection_of(link)->reader == SOFTRDMA_READER_POLLER;
	pthread_mutex_unlock(&link->lock);
	return owned;
}

static void
poll_until_owned(struct softrdma_link *link)
{
	struct ibv_wc wc;
	int64_t end = now_ms() + PATIENCE_MS;
	while (!is_owned(link) && left_ms(end) > 0)
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	assert_true(is_owned(link));
}

/* a thread that polls for some time owns the socket until it stops */
static void
test_owner(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct softrdma_link *link = polled_link(&p);
	struct ibv_wc wc;
	fail_call(FAIL_MINE, "epoll_ctl", 0, FAIL_FOR_EVER, ENOMEM); /* works without ownership, too */
	while (!has_failed(1))
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	fail_nothing();
	assert_false(is_owned(link));

	poll_until_owned(link);
	assert_true(write_works(p.active->qp));
	assert_true(write_works(p.passive->qp));
	/* its polling is checked: first it still polls, later it has stopped */
	wait_until(!is_owned(link));
	assert_true(write_works(p.passive->qp));

	/* arming the queue ends the ownership */
	poll_until_owned(link);
	assert_int_equal(ibv_req_notify_cq(the_cq, 0), 0);
	assert_false(is_owned(link));
	assert_int_equal(ibv_req_notify_cq(the_cq, 0), 0);

	/* waiting on any channel does too */
	poll_until_owned(link);
	struct ibv_comp_channel *channel = softrdma_ibv_create_comp_channel(softrdma_context());
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	struct ibv_cq *cq;
	void *context;
	assert_int_equal(softrdma_ibv_get_cq_event(channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	assert_false(is_owned(link));
	assert_int_equal(softrdma_ibv_destroy_comp_channel(channel), 0);

	/* the end of a connection ends its ownership */
	poll_until_owned(link);
	pair_fini(&p);
}

/* polls without success do not count if input comes in between: the program waits in another way, and polls now and then */
static void
test_rare_polls_do_not_own(void **state)
{
	(void)state;
	struct raw_peer p;
	struct ibv_wc wc;
	raw_peer_init(&p);
	for (int i = 0; i < 100; i++) {
		if (i % 20 == 0)
			raw_expect_alive(&p);
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
		assert_false(is_owned(p.link));
	}
	raw_peer_fini(&p);
}

/* the poller has stopped, and the peer sends: what it has sent waits until a beat finds that */
static void
let_input_wait(struct raw_peer *p)
{
	raw_write(p, the_mem, the_mr->rkey, 4);
	raw_send(p->fd, "abcd", 4);
	assert_true(readable(softrdma_connection_of(p->link)->fd, PATIENCE_MS));
	while (is_owned(p->link)) {
		clock_forward_ms(2);
		poll(NULL, 0, 5); /* longer than the beat */
	}
	raw_expect_frame(p->fd, SOFTRDMA_OP_ACK, 0, p->seq - 1);
}

static void
poll_in_vain(struct softrdma_link *link)
{
	struct ibv_wc wc;
	for (int i = 0; i < 300; i++)
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	assert_false(is_owned(link));
}

/* a poller that has let input wait owns no socket for a while: 10 ms, and twice as long each time */
static void
test_owner_that_lets_input_wait(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	clock_stop();
	uint64_t pause_ms = 10;
	for (int i = 0; i < 10; i++) {
		if (i == 9) { /* forgiven */
			clock_forward_ms(10001);
			pause_ms = 10;
		}
		poll_until_owned(p.link);
		let_input_wait(&p);
		const uint64_t again_ns = locked(p.link, softrdma_connection_of(p.link)->own_again_ns);
		poll_in_vain(p.link);
		assert_int_equal(locked(p.link, softrdma_connection_of(p.link)->own_pause_ns),
			pause_ms * SOFTRDMA_NS_PER_MS);
		const uint64_t left_ns = again_ns - softrdma_now_ns();
		assert_true(left_ns <= pause_ms * SOFTRDMA_NS_PER_MS);
		clock_forward_ms((unsigned)(left_ns / SOFTRDMA_NS_PER_MS) + 1);
		pause_ms = pause_ms < 500 ? 2 * pause_ms : 1000;
	}
	clock_go_on();
	raw_peer_fini(&p);
}

/* while other threads compute, a thread that polls sleeps until there is input: nothing is lost, and no lock is waited for */
static void
test_poller_naps(void **state)
{
	(void)state;
	struct pair_of_ids p, other[2];
	pair_init(&p);
	struct softrdma_cq *cq = softrdma_cq_of(the_cq);
	softrdma_spin_mine()->rest_until_ns = UINT64_MAX;
	struct ibv_wc wc;
	for (int i = 0; i < 20; i++)
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	for (int i = 0; i < 20; i++)
		assert_true(write_works(p.active->qp));
	softrdma_reader_nap(cq);
	pthread_mutex_lock(&cq->links_lock);
	softrdma_reader_nap(cq);
	pthread_mutex_unlock(&cq->links_lock);

	/* of more connections than a poller serves, the progress thread receives all input */
	for (int i = 0; i < 2; i++)
		pair_init(&other[i]);
	softrdma_reader_nap(cq);
	assert_true(write_works(other[1].active->qp));
	for (int i = 0; i < 2; i++)
		pair_fini(&other[i]);
	*softrdma_spin_mine() = (struct softrdma_spin){ 0 };
	pair_fini(&p);
}

/* more records than a poller serves at once, and less than the stream receives at once: the socket is empty then */
#define WRITES 48

/* more input in one record after the other than a poller serves at once: what the stream holds is read when it stops */
static void
test_owner_leaves_input(void **state)
{
	(void)state;
	setenv("SOFTRDMA_CRC", "1", 1);
	struct pair_of_ids p;
	pair_init_depth(&p, WRITES);
	struct softrdma_link *link = softrdma_qp_of(p.passive->qp)->link;
	uint64_t *words = (uint64_t *)(void *)the_mem;
	uint64_t *to = (uint64_t *)(void *)(the_mem + MEM_SIZE / 2);
	const unsigned last =
		SOFTRDMA_GATHER_LENGTH / sizeof(*to); /* the last word of a write, which is stored last */
	struct ibv_wc wc;
	to[last] = 0;
	poll_until_owned(link);
	for (unsigned i = 0; i < WRITES; i++) {
		words[i + last] = i + 1;
		/* short ones would leave in one record */
		struct ibv_sge sge = { .addr = (uintptr_t)&words[i],
			.length = SOFTRDMA_GATHER_LENGTH + sizeof(*to),
			.lkey = the_mr->lkey };
		struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.send_flags = i + 1 == WRITES ? IBV_SEND_SIGNALED : 0 },
				   *bad;
		wr.wr.rdma.remote_addr = (uintptr_t)to;
		wr.wr.rdma.rkey = the_mr->rkey;
		assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	}
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	/* no thread polls from here on */
	wait_until(__atomic_load_n(&to[last], __ATOMIC_ACQUIRE) == WRITES);
	assert_int_equal(next_wc().status, IBV_WC_SUCCESS);
	pair_fini(&p);
	unsetenv("SOFTRDMA_CRC");
}

/*
 * A thread that holds the lock of a connection it owns is polling it. The progress thread goes on to other
 * connections.
 */
static void
test_busy_owner_holds_up_no_other(void **state)
{
	(void)state;
	struct raw_peer p, other;
	raw_peer_init(&p);
	raw_peer_init(&other);
	poll_until_owned(p.link);
	pthread_mutex_lock(&p.link->lock);
	for (int i = 0; i < 3; i++) {
		clock_forward_ms(100); /* the time of the next ownership check */
		raw_expect_alive(&other);
	}
	pthread_mutex_unlock(&p.link->lock);
	wait_until(!is_owned(p.link));
	raw_expect_alive(&p);
	raw_peer_fini(&p);
	raw_peer_fini(&other);
}

/* a poller never waits for another thread */
static void
test_poller_does_not_wait(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct softrdma_link *link = polled_link(&p);
	struct ibv_wc wc;
	pthread_mutex_lock(&link->lock);
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	pthread_mutex_unlock(&link->lock);
	struct softrdma_cq *cq = softrdma_cq_of(the_cq);
	pthread_mutex_lock(&cq->links_lock);
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	pthread_mutex_unlock(&cq->links_lock);

	/* with more connections than a poller reads, the progress thread does all the work */
	struct pair_of_ids others[2];
	pair_init(&others[0]);
	pair_init(&others[1]);
	unsigned polls = locked(link, softrdma_connection_of(link)->polls);
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	assert_true(locked(link, softrdma_connection_of(link)->polls == polls));
	assert_true(write_works(p.active->qp));
	pair_fini(&others[0]);
	pair_fini(&others[1]);

	/* a queue pair without a connection is skipped */
	assert_int_equal(softrdma_rdma_disconnect(p.active), 0);
	expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	wait_until(locked(link,
		softrdma_connection_of(link)->fd < 0 || readable(softrdma_connection_of(link)->fd, 0)));
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	pair_fini(&p);
}

static void *
register_and_back(void *arg)
{
	(void)arg;
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, the_mem, 8, 0);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	return NULL;
}

/* a connection is removed while a deregistration visits all of them */
static void
test_leaves_during_a_visit(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct softrdma_link *link = polled_link(&p);
	pthread_mutex_lock(&link->lock);
	unsigned refs = atomic_load(&link->refs);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, register_and_back, NULL), 0);
	wait_until(atomic_load(&link->refs) > refs);
	softrdma_links_remove(link);
	pthread_mutex_unlock(&link->lock);
	pthread_join(thread, NULL);
	softrdma_links_add(link);
	assert_true(write_works(p.active->qp));
	pair_fini(&p);
}

/* --- flushes --- */

struct file_region {
	char path[32];
	int fd;
	uint8_t *mem;
	struct ibv_mr *mr;
};

/* On a disk, where a flush may take time. The working directory is the build's; /tmp may be in memory. */
static void
file_region_init(struct file_region *r)
{
	struct statfs fs;
	strcpy(r->path, "test_threads.XXXXXX");
	r->fd = mkstemp(r->path);
	assert_true(r->fd >= 0);
	assert_int_equal(fstatfs(r->fd, &fs), 0);
	if (fs.f_type == 0x01021994 || fs.f_type == 0x858458f6) {
		unlink(r->path);
		close(r->fd);
		print_message("skipped: the build directory is on no disk\n");
		skip();
	}
	assert_int_equal(ftruncate(r->fd, 8192), 0);
	r->mem = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	assert_ptr_not_equal(r->mem, MAP_FAILED);
	r->mr = softrdma_ibv_reg_mr(the_pd, r->mem, 8192,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			SOFTRDMA_ACCESS_FLUSH_PERSISTENT);
	assert_non_null(r->mr);
}

static void
file_region_fini(struct file_region *r)
{
	assert_int_equal(softrdma_ibv_dereg_mr(r->mr), 0);
	munmap(r->mem, 8192);
	unlink(r->path);
	close(r->fd);
}

static void
raw_flush(struct raw_peer *p, const struct file_region *r)
{
	const struct softrdma_frame frame = { .opcode = SOFTRDMA_OP_FLUSH,
		.code = SOFTRDMA_FLUSH_PERSISTENT,
		.seq = p->seq++,
		.key = r->mr->rkey,
		.addr = (uintptr_t)r->mem,
		.arg = 8192 };
	raw_frame(p->fd, &frame);
}

/* during a flush no later request of this connection is executed, but other connections go on */
static void
test_flush_on_worker(void **state)
{
	(void)state;
	struct file_region r;
	file_region_init(&r);
	struct raw_peer p, other;
	raw_peer_init(&p);
	raw_peer_init(&other);
	fail_call(FAIL_ANY, "msync", 0, 1, FAIL_WAIT);
	raw_flush(&p, &r);
	raw_write(&p, r.mem, r.mr->rkey, 4);
	raw_send(p.fd, "data", 4);
	wait_until(has_failed(1));
	raw_write(&other, the_mem, the_mr->rkey, 4);
	raw_send(other.fd, "abcd", 4);
	raw_expect_frame(other.fd, SOFTRDMA_OP_ACK, 0, 100);
	assert_int_equal(r.mem[0], 0);
	assert_false(readable(p.fd, 0));
	fail_nothing();
	uint8_t buf[SOFTRDMA_FRAME_SIZE];
	struct softrdma_frame ack = { 0 };
	while (ack.seq != 101) { /* one ACK for both, or one each */
		raw_recv(p.fd, buf, sizeof(buf));
		assert_true(softrdma_frame_decode(buf, &ack));
		assert_int_equal(ack.opcode, SOFTRDMA_OP_ACK);
	}
	assert_memory_equal(r.mem, "data", 4);
	raw_peer_fini(&p);
	raw_peer_fini(&other);
	file_region_fini(&r);
}

/* if reading flushes, the response waits for the medium */
static void
test_read_that_flushes(void **state)
{
	(void)state;
	struct file_region r;
	setenv("SOFTRDMA_READ_FLUSHES", "1", 1);
	file_region_init(&r);
	unsetenv("SOFTRDMA_READ_FLUSHES");
	struct raw_peer p;
	raw_peer_init(&p);
	memset(r.mem, 'm', 4);
	fail_call(FAIL_ANY, "msync", 0, 1, FAIL_WAIT);
	const struct softrdma_frame frame = { .opcode = SOFTRDMA_OP_READ,
		.seq = p.seq++,
		.key = r.mr->rkey,
		.addr = (uintptr_t)r.mem,
		.arg = 4 };
	raw_frame(p.fd, &frame);
	wait_until(has_failed(1));
	assert_false(readable(p.fd, 0));
	fail_nothing();
	uint8_t buf[SOFTRDMA_FRAME_SIZE + 4];
	raw_recv(p.fd, buf, sizeof(buf));
	struct softrdma_frame answer;
	assert_true(softrdma_frame_decode(buf, &answer));
	assert_int_equal(answer.opcode, SOFTRDMA_OP_READ_RESPONSE);
	assert_memory_equal(buf + SOFTRDMA_FRAME_SIZE, "mmmm", 4);
	raw_peer_fini(&p);
	file_region_fini(&r);
}

static void
test_flush_without_thread(void **state)
{
	(void)state;
	struct file_region r;
	file_region_init(&r);
	struct raw_peer p;
	raw_peer_init(&p);
	fail_call(FAIL_THEIRS, "pthread_create", 0, 1, EAGAIN);
	raw_flush(&p, &r);
	raw_flush(&p, &r);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 101);
	assert_int_equal(fail_nothing(), 1);
	wait_for_log("no thread for a flush (Resource temporarily unavailable)");

	/* the protocol is broken after the flush */
	fail_call(FAIL_THEIRS, "pthread_create", 0, FAIL_FOR_EVER, EAGAIN);
	char garbage[SOFTRDMA_FRAME_SIZE];
	memset(garbage, 'x', sizeof(garbage));
	raw_flush(&p, &r);
	raw_send(p.fd, garbage, sizeof(garbage));
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	fail_nothing();
	raw_peer_fini(&p);
	file_region_fini(&r);
}

/* the medium reports an error */
static void
test_flush_fails(void **state)
{
	(void)state;
	struct file_region r;
	file_region_init(&r);
	struct raw_peer p;
	raw_peer_init(&p);
	fail_call(FAIL_ANY, "msync", 0, 1, EIO);
	raw_flush(&p, &r);
	raw_expect_frame(p.fd, SOFTRDMA_OP_NAK, SOFTRDMA_NAK_OPERATION, 100);
	expect_state(p.id->qp, IBV_QPS_ERR);
	raw_peer_fini(&p);
	file_region_fini(&r);
}

#define FLUSHES 300

/* sends many flushes of one byte at once */
static void
raw_flood_of_flushes(struct raw_peer *p, const struct ibv_mr *mr, unsigned count)
{
	static uint8_t flood[FLUSHES * SOFTRDMA_FRAME_SIZE];
	for (unsigned i = 0; i < count; i++) {
		const struct softrdma_frame frame = { .opcode = SOFTRDMA_OP_FLUSH,
			.code = SOFTRDMA_FLUSH_PERSISTENT,
			.seq = p->seq++,
			.key = mr->rkey,
			.addr = (uintptr_t)mr->addr,
			.arg = 1 };
		softrdma_frame_encode(&frame, flood + (size_t)i * SOFTRDMA_FRAME_SIZE);
	}
	/* so that one turn finds all of it: a slow sender would be read in pieces, and each turn has its own time */
	pthread_mutex_lock(&p->link->lock);
	raw_send(p->fd, flood, (size_t)count * SOFTRDMA_FRAME_SIZE);
	pthread_mutex_unlock(&p->link->lock);
}

/* waits until all requests are acknowledged, by one ACK or by several */
static void
raw_expect_all(struct raw_peer *p)
{
	uint8_t buf[SOFTRDMA_FRAME_SIZE];
	struct softrdma_frame ack = { 0 };
	while (ack.seq != p->seq - 1) {
		raw_recv(p->fd, buf, sizeof(buf));
		assert_true(softrdma_frame_decode(buf, &ack));
		assert_int_equal(ack.opcode, SOFTRDMA_OP_ACK);
	}
}

/*
 * Flushes that cannot block take time all the same. The progress thread makes them for a limited time in one turn, and a
 * worker makes the others. Meanwhile other connections are served.
 */
static void
test_flood_of_flushes(void **state)
{
	(void)state;
	struct raw_peer p, other;
	const int fd = memfd_create("test_threads", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 4096), 0);
	uint8_t *mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(mem, MAP_FAILED);
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, mem, 4096,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | SOFTRDMA_ACCESS_FLUSH_PERSISTENT);
	assert_non_null(mr);
	raw_peer_init(&p);
	raw_peer_init(&other);

	/* the time is that of one turn: the clock stands, and is put forward between two of them. No worker is needed. */
	standing_ns = softrdma_now_ns();
	raw_flood_of_flushes(&p, mr, FLUSHES);
	raw_expect_all(&p);
	standing_ns += 10 * SOFTRDMA_FLUSH_TURN_NS;
	raw_flood_of_flushes(&p, mr, 3);
	raw_expect_all(&p);
	assert_int_equal(count_threads(), 2);

	/*
	 * Ten looks at the clock, the first of them at the second flush, use up the time of a turn. Each flush takes three: the
	 * sixth one is a worker's, and waits.
	 */
	fail_call(FAIL_ANY, "msync", 5, 1, FAIL_WAIT);
	step_ns = SOFTRDMA_FLUSH_TURN_NS / 10 + 1;
	raw_flood_of_flushes(&p, mr, FLUSHES);
	raw_write(&p, mem, mr->rkey, 4);
	raw_send(p.fd, "data", 4);
	wait_until(has_failed(1));
	raw_expect_alive(&other);
	assert_int_equal(count_threads(), 3);
	assert_int_equal(mem[0], 0); /* what came after the flush waits for it */
	fail_nothing();
	raw_expect_all(&p);
	assert_memory_equal(mem, "data", 4);

	raw_peer_fini(&other);
	raw_peer_fini(&p);
	step_ns = standing_ns = 0; /* now that no other thread looks at the clock */
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	munmap(mem, 4096);
	close(fd);
}

/*
 * A worker polls for the next flush, for the time set in the environment, and serves the requests before it. If flushes
 * follow each other closely, it polls for four times as long.
 */
static void
test_worker_stays(void **state)
{
	(void)state;
	setenv("SOFTRDMA_SPIN_US", "1000000", 1);
	struct file_region r;
	file_region_init(&r);
	struct raw_peer p, other;
	raw_peer_init(&p);
	raw_peer_init(&other);
	raw_flush(&p, &r);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
	wait_until(locked(p.link, softrdma_connection_of(p.link)->reader == SOFTRDMA_READER_BORROWER));
	assert_int_equal(count_threads(), 3);
	raw_write(&p, r.mem, r.mr->rkey, 4);
	raw_send(p.fd, "data", 4);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 101);
	raw_flush(&p, &r);
	raw_flush(&p, &r);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 102);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 103);
	assert_memory_equal(r.mem, "data", 4);
	assert_int_equal(count_threads(), 3);
	assert_int_equal(softrdma_reader_borrow(p.link), -1); /* a worker has it */
	raw_expect_alive(&other);

	wait_until(locked(p.link, softrdma_connection_of(p.link)->reader == SOFTRDMA_READER_BORROWER));
	clock_forward_ms(1001);
	for (int i = 0; i < 2; i++) {
		raw_expect_alive(&p);
		assert_true(locked(p.link, softrdma_connection_of(p.link)->has_worker));
	}
	/* when the time is over, the progress thread has the socket again */
	clock_forward_ms(3000);
	wait_until(!locked(p.link, softrdma_connection_of(p.link)->has_worker));
	assert_true(locked(p.link, softrdma_connection_of(p.link)->reader != SOFTRDMA_READER_BORROWER));
	raw_expect_alive(&p);
	raw_flush(&p, &r);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 107);
	/* no flush came in the longer time, so the next one is the shorter */
	wait_until(locked(p.link, softrdma_connection_of(p.link)->reader == SOFTRDMA_READER_BORROWER));
	clock_forward_ms(1001);
	wait_until(!locked(p.link, softrdma_connection_of(p.link)->has_worker));
	raw_flush(&p, &r);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 108);

	/* the worker sees the end of the stream */
	wait_until(locked(p.link, softrdma_connection_of(p.link)->reader == SOFTRDMA_READER_BORROWER));
	shutdown(p.fd, SHUT_WR);
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	wait_until(!locked(p.link, softrdma_connection_of(p.link)->has_worker));
	raw_peer_fini(&p);
	raw_peer_fini(&other);
	file_region_fini(&r);
	unsetenv("SOFTRDMA_SPIN_US");
}

/* a poller keeps the connection that it owns */
static void
test_worker_leaves_the_socket_to_a_poller(void **state)
{
	(void)state;
	struct file_region r;
	file_region_init(&r);
	struct raw_peer p;
	raw_peer_init(&p);
	fail_call(FAIL_ANY, "msync", 0, 1, FAIL_WAIT);
	raw_flush(&p, &r);
	wait_until(has_failed(1));
	locked(p.link, softrdma_connection_of(p.link)->reader = SOFTRDMA_READER_POLLER);
	fail_nothing();
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
	wait_until(!locked(p.link, softrdma_connection_of(p.link)->has_worker));
	assert_true(locked(p.link, softrdma_connection_of(p.link)->reader != SOFTRDMA_READER_BORROWER));
	locked(p.link, softrdma_connection_of(p.link)->reader = SOFTRDMA_READER_ENGINE);
	raw_expect_alive(&p);
	raw_peer_fini(&p);
	file_region_fini(&r);
}

static sem_t worker_begun, worker_may_end;

static void
occupy_worker(struct softrdma_connection *conn)
{
	(void)conn;
	sem_post(&worker_begun);
	sem_wait(&worker_may_end);
}

/* without enough workers for all, a connection that flushes all the time takes turns with others */
static void
test_worker_goes_where_it_is_needed(void **state)
{
	(void)state;
	setenv("SOFTRDMA_SPIN_US", "1000000", 1);
	struct file_region r;
	file_region_init(&r);
	enum { OCCUPANT = 23 };
	struct raw_peer p, other, occupant;
	raw_peer_init(&p);
	raw_peer_init(&other);
	raw_peer_init_from(&occupant, OCCUPANT); /* of another address, which has all workers but one */
	const int one = 1; /* so that the second of two flushes does not wait for the first one's ACK */
	assert_int_equal(setsockopt(other.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
	sem_init(&worker_begun, 0, 0);
	sem_init(&worker_may_end, 0, 0);
	for (int i = 0; i < SOFTRDMA_FLUSH_THREADS_MAX - 1; i++) {
		assert_int_equal(
			softrdma_workers_submit(softrdma_connection_of(occupant.link), occupy_worker), 0);
		sem_wait(&worker_begun);
	}

	/* the worker stays for the next flush of its connection, unless another connection needs it */
	raw_flush(&p, &r);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
	wait_until(locked(p.link, softrdma_connection_of(p.link)->reader == SOFTRDMA_READER_BORROWER));
	raw_flush(&other, &r);
	raw_expect_frame(other.fd, SOFTRDMA_OP_ACK, 0, 100);
	assert_false(locked(p.link, softrdma_connection_of(p.link)->has_worker));

	/*
	 * It does not prefer its own connection's next flush. Of the next msync() calls the second is the
	 * other connection's, and fails.
	 */
	fail_call(FAIL_ANY, "msync", 0, 1, FAIL_WAIT);
	raw_flush(&other, &r);
	raw_flush(&other, &r);
	wait_until(has_failed(1));
	raw_flush(&p, &r);
	wait_until(locked(p.link, softrdma_connection_of(p.link)->flush_running));
	fail_call(FAIL_ANY, "msync", 1, 1, EIO);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 101);
	raw_expect_frame(other.fd, SOFTRDMA_OP_ACK, 0, 101);
	raw_expect_frame(other.fd, SOFTRDMA_OP_NAK, SOFTRDMA_NAK_OPERATION, 102);
	assert_int_equal(fail_nothing(), 1);

	for (int i = 0; i < SOFTRDMA_FLUSH_THREADS_MAX - 1; i++)
		sem_post(&worker_may_end);
	raw_peer_fini(&p);
	raw_peer_fini(&other);
	raw_peer_fini(&occupant);
	file_region_fini(&r);
	unsetenv("SOFTRDMA_SPIN_US");
}

static void
pass_ticks(int count)
{
	for (int i = 0; i < count; i++) {
		const unsigned before = ticks;
		clock_forward_ms(21);
		wait_until(ticks != before);
	}
}

/*
 * True if the progress thread receives without an event. From one tick to the next it polls at least once, or
 * finds that it is time to check all connections.
 */
static bool
is_polled_busily(void)
{
	pass_ticks(3);
	fail_call(FAIL_THEIRS, "recv", 0, FAIL_FOR_EVER, EAGAIN);
	pass_ticks(3);
	return fail_nothing() > 0;
}

static void
make_busy(struct raw_peer *p)
{
	for (int i = 0; i < 5; i++)
		raw_expect_alive(p);
	assert_true(is_polled_busily());
	raw_expect_alive(p);
	pass_ticks(1); /* now it knows how long to poll */
}

/* before it sleeps, the progress thread polls the only connection that had input recently */
static void
test_polled_busily(void **state)
{
	(void)state;
	setenv("SOFTRDMA_SPIN_US", "1000000", 1);
	struct raw_peer p, other;
	raw_peer_init(&p);
	raw_peer_init(&other);
	softrdma_engine_at_beat(tick_through_gate);
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, 1);
	clock_stop();
	raw_expect_alive(&p);
	assert_false(is_polled_busily()); /* one message is not enough */

	make_busy(&p);
	raw_expect_alive(&other);
	assert_false(is_polled_busily()); /* nor are messages of two connections in turn */

	make_busy(&p);
	post_write(p.id->qp, 1, 8); /* the poster would find the lock taken */
	uint8_t frame_and_payload[SOFTRDMA_FRAME_SIZE + 8];
	raw_recv(p.fd, frame_and_payload, sizeof(frame_and_payload));
	raw_frame(p.fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_ACK, .seq = p.link->seq });
	expect_wc(1, IBV_WC_SUCCESS);
	assert_false(is_polled_busily());

	make_busy(&p);
	assert_true(softrdma_reader_borrow(p.link) >= 0); /* the borrower of the socket polls it itself */
	assert_false(is_polled_busily());
	softrdma_reader_return(p.link);

	make_busy(&p);
	clock_forward_ms(1001); /* it sleeps, and is woken */
	assert_false(is_polled_busily());
	raw_expect_alive(&p);

	make_busy(&p);
	shutdown(p.fd, SHUT_WR); /* the end of the stream is seen */
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_false(is_polled_busily());
	raw_peer_fini(&p);

	/* the connection may be destroyed meanwhile, and the thread may end */
	make_busy(&other);
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, -1);
	raw_peer_fini(&other);
	clock_go_on();
	unsetenv("SOFTRDMA_SPIN_US");
}

/* during the flush the queue pair is destroyed, it is disconnected, or the peer breaks the protocol */
static void
test_gone_during_flush(void **state)
{
	(void)state;
	struct file_region r;
	file_region_init(&r);
	for (int way = 0; way < 3; way++) {
		struct raw_peer p;
		raw_peer_init(&p);
		char garbage[SOFTRDMA_FRAME_SIZE];
		memset(garbage, 'x', sizeof(garbage));
		fail_call(FAIL_ANY, "msync", 0, 1, FAIL_WAIT);
		raw_flush(&p, &r);
		if (way == 2)
			raw_send(p.fd, garbage, sizeof(garbage));
		wait_until(has_failed(1));
		if (way == 0) {
			destroy(p.id);
			p.id = NULL;
		} else if (way == 1) {
			assert_int_equal(softrdma_rdma_disconnect(p.id), 0);
			clock_forward_ms(SOFTRDMA_PEER_TIMEOUT_MS + 1);
			expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		}
		fail_nothing();
		if (way == 2)
			expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		raw_peer_fini(&p);
	}
	file_region_fini(&r);
}

static bool
has_hung_up(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLRDHUP };
	return poll(&pfd, 1, 0) == 1;
}

/* a peer leaves by FIN or RST, with many of its flushes not made yet: none of these is begun, and nothing after them counts */
static void
test_left_before_its_flushes(void **state)
{
	(void)state;
	struct file_region r;
	file_region_init(&r);
	for (int way = 0; way < 2; way++) {
		struct raw_peer p;
		raw_peer_init(&p);
		const int fd = locked(p.link, softrdma_connection_of(p.link)->fd);
		fail_call(FAIL_ANY, "msync", 0, 1, FAIL_WAIT);
		raw_flush(&p, &r);
		for (int i = 0; i < 10; i++)
			raw_flush(&p, &r);
		raw_write(&p, r.mem, r.mr->rkey, 4);
		raw_send(p.fd, "data", 4);
		wait_until(has_failed(1));
		if (way == 0) {
			shutdown(p.fd, SHUT_WR);
		} else {
			const struct linger reset = { .l_onoff = 1 };
			assert_int_equal(setsockopt(p.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
			close(p.fd);
			p.fd = -1;
		}
		wait_until(has_hung_up(fd));
		fail_call(FAIL_ANY, "msync", 0, FAIL_FOR_EVER, EIO); /* lets the first one go on */
		expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		assert_int_equal(fail_nothing(), 0);
		assert_int_equal(r.mem[0], 0);
		raw_peer_fini(&p);
	}
	file_region_fini(&r);
}

/* the worker that makes the flush reads on: a wrong key and the end of the connection come to it together */
static void
test_offender_behind_a_flush(void **state)
{
	(void)state;
	struct file_region r;
	file_region_init(&r);
	struct sockaddr_in addr = loopback(0);
	const struct softrdma_source source = softrdma_source_of((struct sockaddr *)&addr);
	struct raw_peer p;
	raw_peer_init(&p);
	const unsigned before = softrdma_source_violations(&source, softrdma_now_ns());
	char garbage[SOFTRDMA_FRAME_SIZE];
	memset(garbage, 'x', sizeof(garbage));
	pthread_mutex_lock(&p.link->lock); /* so that all of it is received at once */
	raw_flush(&p, &r);
	raw_write(&p, the_mem, the_mr->rkey + 1, 4);
	raw_send(p.fd, "evil", 4);
	raw_send(p.fd, garbage, sizeof(garbage));
	pthread_mutex_unlock(&p.link->lock);
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	wait_for_log("a peer sent what is no frame of the protocol");
	assert_int_equal(softrdma_source_violations(&source, softrdma_now_ns()), before + 1);
	raw_peer_fini(&p);
	file_region_fini(&r);
}

/* the peer's address is shut out while a worker makes its flush: a wrong key that came with the FLUSH is no guess */
static void
test_shut_out_during_a_flush(void **state)
{
	(void)state;
	enum { GUESSER = 22 };
	const struct softrdma_source source = source_of_host(GUESSER);
	struct file_region r;
	file_region_init(&r);
	struct raw_peer p;
	setenv("SOFTRDMA_MAX_WRONG_KEYS", "1", 1);
	raw_peer_init_from(&p, GUESSER);
	fail_call(FAIL_ANY, "msync", 0, 1, FAIL_WAIT);
	pthread_mutex_lock(&p.link->lock); /* so that all of it is received at once */
	raw_flush(&p, &r);
	raw_write(&p, the_mem, the_mr->rkey + 1, 4);
	raw_send(p.fd, "evil", 4);
	pthread_mutex_unlock(&p.link->lock);
	wait_until(has_failed(1));
	softrdma_source_add_violation(&source,
		softrdma_now_ns()); /* as another connection of the peer does */
	fail_nothing();
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
	raw_expect_shut_out(&p);
	assert_int_equal(softrdma_source_violations(&source, softrdma_now_ns()), 1);
	raw_peer_fini(&p);
	file_region_fini(&r);
	unsetenv("SOFTRDMA_MAX_WRONG_KEYS");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		one_thread_test(test_starts_and_stops),
		device_test(test_does_not_start),
		device_test(test_thread_and_descriptors),
		device_test(test_forked_child),
		device_test(test_interrupted_wakes),
		device_test(test_forgotten_without_thread),
		device_test(test_turns_of_both),
		device_test(test_unsent_is_bounded),
		device_test(test_protocol_broken),
		device_test(test_offender),
		device_test(test_offender_that_leaves),
		device_test(test_unknown_offender),
		device_test(test_wrong_keys_on_many_connections),
		device_test(test_receiving_fails),
		device_test(test_memory_gone_when_receiving),
		device_test(test_short_read_into_a_file),
		device_test(test_memory_gone_when_reading),
		device_test(test_no_sigpipe),
		device_test(test_sending_fails),
		one_thread_test(test_not_polled_while_it_is_posted_to),
		one_thread_test(test_acknowledged_before_the_end),
		one_thread_test(test_more_than_one_turn),
		one_thread_test(test_flood_of_frames),
		device_test(test_deregistered_when_half_sent),
		device_test(test_disconnect_without_answer),
		device_test(test_disconnect_behind_gathered_requests),
		device_test(test_disconnect_and_stay),
		device_test(test_id_destroyed_and_peer_stays),
		device_test(test_ready_after_disconnect),
		device_test(test_receiver_not_ready),
		device_test(test_gone_while_not_ready),
		device_test(test_receive_after_the_end),
		device_test(test_owner),
		device_test(test_rare_polls_do_not_own),
		device_test(test_owner_that_lets_input_wait),
		device_test(test_poller_naps),
		device_test(test_owner_leaves_input),
		device_test(test_busy_owner_holds_up_no_other),
		device_test(test_poller_does_not_wait),
		device_test(test_leaves_during_a_visit),
		device_test(test_flush_on_worker),
		device_test(test_flush_without_thread),
		device_test(test_flush_fails),
		device_test(test_read_that_flushes),
		one_thread_test(test_flood_of_flushes),
		one_thread_test(test_polled_busily),
		one_thread_test(test_worker_stays),
		device_test(test_worker_leaves_the_socket_to_a_poller),
		device_test(test_worker_goes_where_it_is_needed),
		device_test(test_gone_during_flush),
		device_test(test_left_before_its_flushes),
		device_test(test_offender_behind_a_flush),
		device_test(test_shut_out_during_a_flush),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
