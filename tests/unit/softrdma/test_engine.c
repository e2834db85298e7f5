/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_engine.c -- the progress thread: what wakes it, whose turn it is, and what it polls before it sleeps
 *
 * One side is the device, the other one the device as well, or a plain socket that speaks the protocol.
 */

#include "serving.h"

#include "softrdma/engine/engine.h"
#include "softrdma/engine/pending_sockets.h"
#include "softrdma/engine/reader.h"

#include <dirent.h>
#include <sys/eventfd.h>

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

/* --- turns --- */

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

/* --- polling before it sleeps --- */

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
	softrdma_engine_at_beat(SOFTRDMA_BEAT_DEADLINES, tick_through_gate);
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
	/* a worker that has borrowed the socket polls it itself */
	assert_true(locked(p.link, softrdma_reader_borrow(softrdma_connection_of(p.link))));
	assert_false(is_polled_busily());
	pthread_mutex_lock(&p.link->lock);
	softrdma_reader_return(softrdma_connection_of(p.link));
	pthread_mutex_unlock(&p.link->lock);

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_thread_and_descriptors),
		device_test(test_interrupted_wakes),
		device_test(test_turns_of_both),
		one_thread_test(test_not_polled_while_it_is_posted_to),
		one_thread_test(test_more_than_one_turn),
		one_thread_test(test_polled_busily),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
