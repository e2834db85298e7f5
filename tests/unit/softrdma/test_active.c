/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_active.c -- the steps of an outgoing connection, and how each of them fails
 *
 * One side is the device. The other is a plain TCP socket that sends what it should, what it should not, or
 * nothing.
 */

#include "plain_server.h"

#include <sys/epoll.h>

#include "softrdma/base/env.h"
#include "softrdma/engine/watched.h"

/* invalid responses */
static void
test_wrong_answers(void **state)
{
	(void)state;
	static const struct {
		enum { NOTHING, GARBAGE, VERSION, DAMAGED, REQUEST, HALF } what;
		const char *line;
	} answers[] = {
		{ NOTHING, "has closed the connection without a reply; look at the hint" },
		{ GARBAGE, "does not speak the protocol of the software device; look at the hint" },
		{ VERSION,
			"speaks version 1 of the protocol of the software device, not 3: install one version on "
			"both sides; look at the hint" },
		{ DAMAGED, "has sent a reply that was damaged on its way (CRC32C); look at the hint" },
		{ REQUEST, "has replied with a request; look at the hint" },
		{ HALF, "has closed the connection without a reply; look at the hint" },
	};
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		struct server s;
		server_asked(&s, NULL);
		log_clear();
		uint8_t buf[BUF_MAX];
		size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
		switch (answers[i].what) {
		case NOTHING:
			len = 0;
			break;
		case GARBAGE:
			memset(buf, 'x', len);
			break;
		case VERSION:
			buf[4] = 1;
			break;
		case DAMAGED:
			buf[9] ^= 0x10;
			break;
		case HALF:
			len /= 2;
			break;
		default:
			break;
		}
		if (len)
			raw_send(s.fd, buf, len);
		shutdown(s.fd, SHUT_WR);
		expect_event(s.channel, RDMA_CM_EVENT_REJECTED, -EPROTO);
		assert_true(log_has(answers[i].line));
		server_fini(&s);
	}
}

/* a server that does not respond, and one that does not exist */
static void
test_no_answer(void **state)
{
	(void)state;
	struct server s;
	server_asked(&s, NULL);
	clock_forward_ms(SOFTRDMA_PEER_TIMEOUT_MS + 1);
	assert_false(readable(s.channel->fd, 60)); /* connected: the server may take a long time */
	clock_forward_ms(SOFTRDMA_CONNECT_TIMEOUT_MS);
	expect_event(s.channel, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	assert_true(log_has("has neither accepted nor rejected the connection within 60 s"));
	raw_expect_end(s.fd);
	server_fini(&s);
}

/* the server's backlog is full, so not even TCP responds */
static void
test_no_tcp_answer(void **state)
{
	(void)state;
	struct sockaddr_in addr;
	int listening = raw_listen(&addr);
	assert_int_equal(listen(listening, 0), 0);
	int fds[4];
	for (int i = 0; i < 4; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)connect(fds[i], (struct sockaddr *)&addr, sizeof(addr));
	}
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &addr);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	clock_forward_ms(SOFTRDMA_PEER_TIMEOUT_MS + 1);
	expect_event(channel, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	close(listening);
}

/* the log line contains the embedder's hint, if there is one */
static void
test_refused(void **state)
{
	(void)state;
	static const struct softrdma_env no_hint = { .refused_hint = "" },
					 hint = { .refused_hint = "look at the hint" };
	struct rdma_event_channel *channel = new_channel();
	for (int with = 0; with < 2; with++) {
		softrdma_set_env(with ? &hint : &no_hint);
		log_clear();
		struct sockaddr_in addr = closed_port();
		struct rdma_cm_id *id = new_active(channel, &addr);
		assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
		expect_event(channel, RDMA_CM_EVENT_REJECTED, SOFTRDMA_REJECT_NO_LISTENER);
		assert_true(log_has("no software device listens at 127.0.0.1:"));
		assert_int_equal(log_has("; look at the hint\n"), with);
		assert_int_equal(softrdma_rdma_connect(id, NULL), -1); /* only once */
		assert_int_equal(errno, EINVAL);
		destroy(id);
	}
	softrdma_set_env(&no_hint);
	struct server s;
	server_asked(&s, NULL);
	close(s.fd);
	s.fd = -1;
	expect_event(s.channel, RDMA_CM_EVENT_REJECTED, -EPROTO);
	wait_for_log("without a reply\n");
	server_fini(&s);
	softrdma_set_env(&hint);

	/* in brackets, which separate the port from the address */
	struct sockaddr_in6 addr6 = { .sin6_family = AF_INET6,
		.sin6_port = closed_port().sin_port,
		.sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct rdma_cm_id *id = new_id(channel);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr6, 0), 0);
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	give_qp(id);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	expect_event(channel, RDMA_CM_EVENT_REJECTED, SOFTRDMA_REJECT_NO_LISTENER);
	assert_true(log_has("no software device listens at [::1]:"));
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

/* calls that fail before the attempt begins fail the call; later failures raise an event */
static void
test_connect_fails(void **state)
{
	(void)state;
	struct sockaddr_in addr;
	int listening = raw_listen(&addr);
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &addr);

	static const struct {
		const char *call;
		unsigned skip;
	} early[] = {
		/* its two events are allocated first, and are kept for the next attempt */
		{ "calloc", 0 }, { "calloc", 1 }, { "calloc", 1 }, { "socket", 0 },
		{ "epoll_ctl", 2 }, /* the first two are the thread's own */
	};
	for (size_t i = 0; i < sizeof(early) / sizeof(early[0]); i++) {
		fail_call(FAIL_MINE, early[i].call, early[i].skip, 1, ENOBUFS);
		assert_int_equal(softrdma_rdma_connect(id, NULL), -1);
		assert_int_equal(errno, strcmp(early[i].call, "calloc") == 0 ? ENOMEM : ENOBUFS);
		assert_int_equal(fail_nothing(), 1);
	}
	fail_call(FAIL_MINE, "connect", 0, 1, EHOSTUNREACH);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	expect_event(channel, RDMA_CM_EVENT_UNREACHABLE, -EHOSTUNREACH);
	destroy(id);

	static const char *const late[] = { "getsockopt", "send" };
	for (size_t i = 0; i < 2; i++) {
		id = new_active(channel, &addr);
		fail_call(FAIL_THEIRS, late[i], 0, 1, EPIPE);
		assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
		expect_event(channel, RDMA_CM_EVENT_UNREACHABLE, -EPIPE);
		assert_int_equal(fail_nothing(), 1);
		destroy(id);
	}

	/* the event channel is gone */
	id = new_active(channel, &addr);
	fail_call(FAIL_THEIRS, "getsockopt", 0, 1, EPIPE);
	softrdma_rdma_destroy_event_channel(channel);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	wait_for_log("a failed connection is not reported");
	destroy(id);
	close(listening);
}

/*
 * With a patience, the server may begin to listen after its client has connected. Without one, a refusal is
 * final.
 */
static void
test_listening_late(void **state)
{
	(void)state;
	static const struct softrdma_env patient = { .refused_patience_ms = 60000 };
	struct rdma_event_channel *channel = new_channel();
	softrdma_set_env(&patient);
	struct sockaddr_in addr;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(addr);
	addr = loopback(0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	struct rdma_cm_id *id = new_active(channel, &addr);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	/* it was refused at least once; other events of that socket change nothing */
	fail_call(FAIL_THEIRS, "connect", 0, FAIL_FOR_EVER, ECONNREFUSED);
	while (!has_failed(2))
		sched_yield();
	struct softrdma_watched *watched = (struct softrdma_watched *)softrdma_id_of(id)->handshaker;
	watched->handle(watched, EPOLLHUP);
	fail_nothing();
	expect_no_event(channel);
	assert_int_equal(listen(fd, 1), 0);
	int peer = accept(fd, NULL, NULL);
	assert_true(peer >= 0);
	close(peer);
	expect_event(channel, RDMA_CM_EVENT_REJECTED, -EPROTO);
	destroy(id);
	close(fd);

	/* the patience ends without a listener; any other error is final at once */
	addr = closed_port();
	id = new_active(channel, &addr);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	fail_call(FAIL_THEIRS, "connect", 0, 1, ECONNREFUSED);
	while (!has_failed(1))
		sched_yield();
	clock_forward_ms(60000);
	expect_event(channel, RDMA_CM_EVENT_REJECTED, SOFTRDMA_REJECT_NO_LISTENER);
	destroy(id);
	id = new_active(channel, &addr);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	fail_call(FAIL_THEIRS, "connect", 0, 1, EHOSTUNREACH);
	expect_event(channel, RDMA_CM_EVENT_UNREACHABLE, -EHOSTUNREACH);
	fail_nothing();
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_wrong_answers), device_test(test_no_answer), device_test(test_no_tcp_answer),
		device_test(test_refused), one_thread_test(test_connect_fails),
		device_test(test_listening_late), /* last, because the patience cannot be reset */
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
