/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_handshake.c -- listening sockets, and connections until both sides have agreed
 *
 * One side is the device. The other is a plain TCP socket that sends what it should, what it should not, or
 * nothing.
 */

#include "connected.h"
#include "softrdma/wire/records.h"

#include <sys/epoll.h>

#include "softrdma/base/env.h"
#include "softrdma/engine/watched.h"

/* --- the passive side: what arrives at a listener --- */

/* the device closes the connection, and the application gets no event */
static void
test_garbage(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	int fd = raw_connect(&l.addr);
	raw_send(fd, "GET / HTTP/1.0\r\nHost: somewhere.else\r\n\r\n", 41);
	raw_expect_end(fd);
	close(fd);
	wait_for_log("127.0.0.1:");
	wait_for_log("does not speak the protocol of the software device: connection closed");

	/* a message of the protocol, of the wrong type */
	uint8_t buf[BUF_MAX];
	log_clear();
	fd = raw_connect(&l.addr);
	raw_send(fd, buf, raw_message(buf, SOFTRDMA_HANDSHAKE_ACCEPT, ""));
	raw_expect_end(fd);
	close(fd);
	wait_for_log("does not speak the protocol");
	expect_no_event(l.channel);
	listener_fini(&l);
}

/* a client that connects and closes at once (a port scan) leaves no trace in the log */
static void
test_port_scan(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	int fd = raw_connect(&l.addr);
	shutdown(fd, SHUT_WR);
	raw_expect_end(fd);
	close(fd);
	expect_no_event(l.channel);
	assert_int_equal(log_worst, 0);
	listener_fini(&l);
}

/* a flipped bit in the header or in the private data; the length may be damaged as well */
static void
test_damaged_request(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	uint8_t buf[BUF_MAX];
	const size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "private");
	static const size_t places[] = { 6, 7, 13, 23, 24, 31, SOFTRDMA_HANDSHAKE_SIZE + 6 };
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		log_clear();
		buf[places[i]] ^= 0x40;
		int fd = raw_connect(&l.addr);
		raw_send(fd, buf, len);
		raw_expect_reject(fd, SOFTRDMA_REJECT_DAMAGED);
		close(fd);
		buf[places[i]] ^= 0x40;
		wait_for_log("was damaged on its way (CRC32C): rejected");
	}
	expect_no_event(l.channel);
	listener_fini(&l);
}

static void
test_other_version(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	/* longer than any message of ours: data left unread must not make the kernel discard the response */
	uint8_t buf[4 * BUF_MAX] = { 0 };
	raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	buf[4] = 9;
	buf[5] = 1;
	int fd = raw_connect(&l.addr);
	raw_send(fd, buf, sizeof(buf));
	raw_expect_reject(fd, SOFTRDMA_REJECT_VERSION);
	close(fd);
	wait_for_log("speaks version 265 of the protocol, not 3: rejected");
	/* shorter than any message of ours: the rest is not waited for */
	clock_forward_ms(
		SOFTRDMA_LOG_INTERVAL_MS + 1); /* a line more for this test, not one less for others */
	log_clear();
	fd = raw_connect(&l.addr);
	raw_send(fd, buf, 6);
	raw_expect_reject(fd, SOFTRDMA_REJECT_VERSION);
	close(fd);
	wait_for_log("speaks version 265 of the protocol, not 3: rejected");
	expect_no_event(l.channel);
	listener_fini(&l);
}

/* the request may arrive byte by byte; the private data has its exact length */
static void
test_request_in_pieces(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	uint8_t buf[BUF_MAX];
	size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "private");
	int fd = raw_connect(&l.addr);
	const int one = 1;
	setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof(one));
	fail_call(FAIL_THEIRS, "recv", 0, 1, EINTR);
	for (size_t i = 0; i < len; i++) {
		expect_no_event(l.channel);
		raw_send(fd, buf + i, 1);
	}
	struct rdma_cm_event *event = take_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event->listen_id, l.id);
	const struct rdma_conn_param *param = &event->param.conn;
	assert_int_equal(param->private_data_len, 7);
	assert_memory_equal(param->private_data, "private", 7);
	assert_int_equal(param->responder_resources, 2); /* requests that the peer may have outstanding */
	assert_int_equal(param->initiator_depth, 3);     /* requests that the peer can serve */
	assert_int_equal(param->qp_num, 0x1234);
	struct rdma_cm_id *id = event->id;
	assert_ptr_equal(id->context, l.id->context);
	assert_int_equal(id->route.addr.src_sin.sin_port, l.addr.sin_port);
	softrdma_rdma_ack_cm_event(event);

	/* the application rejects it, with private data of its own */
	assert_int_equal(softrdma_rdma_reject(id, "no", 2), 0);
	raw_recv(fd, buf, SOFTRDMA_HANDSHAKE_SIZE + 2);
	struct softrdma_handshake hs;
	assert_int_equal(softrdma_handshake_decode(buf, &hs), SOFTRDMA_HANDSHAKE_OK);
	assert_int_equal(hs.type, SOFTRDMA_HANDSHAKE_REJECT);
	assert_int_equal(hs.reason, SOFTRDMA_REJECT_CONSUMER);
	assert_int_equal(hs.private_len, 2);
	assert_memory_equal(buf + SOFTRDMA_HANDSHAKE_SIZE, "no", 2);
	raw_expect_end(fd);
	close(fd);
	assert_int_equal(softrdma_rdma_reject(id, NULL, 0), -1);
	assert_int_equal(errno, EINVAL);
	destroy(id);
	listener_fini(&l);
}

/* half a message and then nothing: the deadline ends this connection, not the listener */
static void
test_unfinished_request(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	uint8_t buf[BUF_MAX];
	size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "private");
	int fd = raw_connect(&l.addr);
	raw_send(fd, buf, len - 1);
	/* the deadline no longer applies to a complete request */
	int done = raw_connect(&l.addr);
	raw_send(done, buf, len);
	struct rdma_cm_id *id = expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	clock_forward_ms(SOFTRDMA_HANDSHAKE_TIMEOUT_MS - 1000);
	assert_false(readable(fd, 60));
	clock_forward_ms(1000);
	raw_expect_end(fd);
	wait_for_log("did not finish its request in time: connection closed");
	clock_forward_ms(10 * SOFTRDMA_CONNECT_TIMEOUT_MS); /* an application may take a long time */
	assert_false(readable(done, 60));
	close(fd);
	destroy(id);
	raw_expect_reject(done, SOFTRDMA_REJECT_CONSUMER);
	close(done);
	listener_fini(&l);
}

/* a request is incomplete when its listener is closed */
static void
test_listener_closed_meanwhile(void **state)
{
	(void)state;
	struct listener l, other;
	listener_init(&l);
	listener_init(&other);
	int stays = raw_connect(&other.addr);
	int fd = raw_connect(&l.addr);
	uint8_t buf[BUF_MAX];
	size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	/* once a later request is answered, the device has accepted the earlier connections */
	int later = raw_connect(&l.addr);
	raw_send(later, buf, len);
	struct rdma_cm_id *id = expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	listener_fini(&l);
	raw_expect_reject(fd, SOFTRDMA_REJECT_NO_LISTENER);
	close(fd);
	raw_send(stays, buf, len);
	destroy(expect_event(other.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0));
	close(stays);
	destroy(id);
	close(later);
	listener_fini(&other);
}

/* a request that the application has not decided about yet */
static struct rdma_cm_id *
request_from(struct listener *l, unsigned host, int *fd)
{
	uint8_t buf[BUF_MAX];
	size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	*fd = raw_connect_from(&l->addr, host);
	raw_send(*fd, buf, len);
	return expect_event(l->channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
}

/* the number of silent connections is limited: beyond it, each new one closes another */
static void
test_too_many_silent(void **state)
{
	(void)state;
	setenv("SOFTRDMA_MAX_PENDING", "3", 1);
	setenv("SOFTRDMA_MAX_PENDING_PER_ADDRESS", "2", 1);
	struct listener l;
	listener_init(&l);
	int first = raw_connect_from(&l.addr, 1);
	int second = raw_connect_from(&l.addr, 1);
	int third = raw_connect_from(&l.addr, 1); /* too many from this address */
	raw_expect_end(first);
	close(first);
	int other = raw_connect_from(&l.addr, 2);
	/*
	 * Too many in all, and none from the new one's address: a connection of the address with the most is closed,
	 * and not the oldest one of another address.
	 */
	int fd;
	struct rdma_cm_id *id = request_from(&l, 3, &fd);
	raw_expect_end(second);
	close(second);
	int later = raw_connect_from(&l.addr, 4);
	raw_expect_end(third);
	close(third);
	/* if each address has one, the oldest is closed */
	int last = raw_connect_from(&l.addr, 5);
	raw_expect_end(other);
	close(other);
	expect_not_ended(later);
	expect_not_ended(last);
	destroy(id);
	close(fd);
	expect_no_event(l.channel);
	assert_int_equal(log_worst, 0);
	listener_fini(&l);
	unsetenv("SOFTRDMA_MAX_PENDING");
	unsetenv("SOFTRDMA_MAX_PENDING_PER_ADDRESS");
}

/* ends these requests, the listener that has no others, and the limits of pending connections */
static void
end_requests(struct listener *l, struct rdma_cm_id **ids, const int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		destroy(ids[i]);
		close(fds[i]);
	}
	expect_no_event(l->channel);
	listener_fini(l);
	unsetenv("SOFTRDMA_MAX_PENDING");
	unsetenv("SOFTRDMA_MAX_PENDING_PER_ADDRESS");
}

/* Requests that the application has, or will get, are not closed. New connections are rejected instead. */
static void
test_too_many_pending(void **state)
{
	(void)state;
	setenv("SOFTRDMA_MAX_PENDING", "3", 1);
	setenv("SOFTRDMA_MAX_PENDING_PER_ADDRESS", "2", 1);
	struct listener l;
	listener_init(&l);
	struct rdma_cm_id *ids[3];
	int fds[3];
	for (unsigned i = 0; i < 2; i++)
		ids[i] = request_from(&l, 1, &fds[i]);
	int refused = raw_connect_from(&l.addr, 1);
	raw_expect_reject(refused, SOFTRDMA_REJECT_BUSY);
	close(refused);
	wait_for_log("is rejected: too many requests are pending");
	ids[2] = request_from(&l, 2, &fds[2]);
	refused = raw_connect_from(&l.addr, 3);
	raw_expect_reject(refused, SOFTRDMA_REJECT_BUSY);
	close(refused);

	/* after one request is answered there is room again */
	assert_int_equal(softrdma_rdma_reject(ids[0], NULL, 0), 0);
	int fd;
	struct rdma_cm_id *id = request_from(&l, 1, &fd);
	destroy(id);
	close(fd);
	end_requests(&l, ids, fds, 3);
}

/* the fewer places are left, the fewer requests of an address may wait */
static void
test_few_places_left(void **state)
{
	(void)state;
	uint8_t buf[BUF_MAX];
	const size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	setenv("SOFTRDMA_MAX_PENDING", "6", 1);
	setenv("SOFTRDMA_MAX_PENDING_PER_ADDRESS", "3", 1);
	struct listener l;
	listener_init(&l);
	struct rdma_cm_id *ids[5];
	int fds[5];
	for (unsigned i = 0; i < 4; i++)
		ids[i] = request_from(&l, 1 + i / 2, &fds[i]);
	int refused = raw_connect_from(&l.addr, 1);
	raw_send(refused, buf, len);
	raw_expect_reject(refused, SOFTRDMA_REJECT_BUSY);
	close(refused);
	wait_for_log("is rejected: too many requests are pending");
	ids[4] = request_from(&l, 3, &fds[4]);
	end_requests(&l, ids, fds, 5);
}

/* by default the device leaves half of the descriptors to the application */
static void
test_pending_and_descriptors(void **state)
{
	(void)state;
	enum { FILES = 40, PENDING = FILES / 2 + 1, PER_ADDRESS = (PENDING + 1) / 2 };
	int fds[PER_ADDRESS + 1];
	rlim_t before;
	struct listener l;
	assert_true(limit_files(FILES, &before));
	listener_init(&l);
	assert_true(limit_files(before, NULL));
	for (int i = 0; i < PER_ADDRESS; i++)
		fds[i] = raw_connect(&l.addr);
	fds[PER_ADDRESS] = raw_connect(&l.addr);
	raw_expect_end(fds[0]);
	close(fds[0]);
	for (int i = 1; i <= PER_ADDRESS; i++)
		expect_not_ended(fds[i]);
	listener_fini(&l);
}

/*
 * Connections are accepted in parts, so others get their turn. The rest is accepted at the next tick, and may
 * close silent connections.
 */
static void
test_more_than_one_go(void **state)
{
	(void)state;
	enum { FLOOD = 100, ROOM = 80 };
	int fds[FLOOD];
	setenv("SOFTRDMA_MAX_PENDING_PER_ADDRESS", "80", 1);
	struct listener l;
	listener_init(&l);
	softrdma_cm_lock(); /* so that none is accepted before all have connected */
	for (int i = 0; i < FLOOD; i++)
		fds[i] = raw_connect(&l.addr);
	softrdma_cm_unlock();
	for (int i = 0; i < FLOOD; i++) {
		if (i < FLOOD - ROOM)
			raw_expect_end(fds[i]);
		else
			assert_false(readable(fds[i], 0));
		close(fds[i]);
	}
	listener_fini(&l);
	unsetenv("SOFTRDMA_MAX_PENDING_PER_ADDRESS");
}

/* the progress thread is late or busy: no connection is dropped for that, even with a short backlog */
static void
test_short_backlog(void **state)
{
	(void)state;
	enum { CROWD = 20 };
	int fds[CROWD];
	uint8_t buf[BUF_MAX];
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	struct sockaddr_in addr = loopback(0);
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&addr), 0);
	assert_int_equal(softrdma_rdma_listen(id, 1), 0);
	addr = id->route.addr.src_sin;
	softrdma_cm_lock();
	for (int i = 0; i < CROWD; i++) {
		fds[i] = raw_connect(&addr);
		raw_send(fds[i], buf, raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, ""));
	}
	softrdma_cm_unlock();
	for (int i = 0; i < CROWD; i++) {
		destroy(expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0));
		close(fds[i]);
	}
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

/* connections from an address with too many wrong keys are refused for a while */
static void
test_too_many_wrong_keys(void **state)
{
	(void)state;
	setenv("SOFTRDMA_MAX_WRONG_KEYS", "2", 1);
	struct listener l;
	listener_init(&l);
	const struct softrdma_source source = source_of_host(9);
	int fd;
	softrdma_source_add_violation(&source, softrdma_now_ns());
	destroy(request_from(&l, 9, &fd));
	close(fd);
	softrdma_source_add_violation(&source, softrdma_now_ns());
	fd = raw_connect_from(&l.addr, 9);
	raw_expect_end(fd);
	close(fd);
	wait_for_log("127.0.0.9:");
	wait_for_log("is not heard: too many wrong keys from there");
	destroy(request_from(&l, 8, &fd));
	close(fd);
	clock_forward_ms(SOFTRDMA_OFFENDER_MEMORY_MS);
	destroy(request_from(&l, 9, &fd));
	close(fd);
	expect_no_event(l.channel);
	listener_fini(&l);
	unsetenv("SOFTRDMA_MAX_WRONG_KEYS");
}

/* a peer that connects many times before its first wrong key: its connections are not heard, nor accepted */
static void
test_wrong_keys_after_the_request(void **state)
{
	(void)state;
	setenv("SOFTRDMA_MAX_WRONG_KEYS", "1", 1);
	struct listener l;
	listener_init(&l);
	const struct softrdma_source source = source_of_host(10);
	int silent = raw_connect_from(&l.addr, 10);
	/* once a later request is answered, the device has accepted the earlier connection */
	int fd, honest_fd;
	struct rdma_cm_id *id = request_from(&l, 10, &fd);
	struct rdma_cm_id *honest = request_from(&l, 11, &honest_fd);
	softrdma_source_add_violation(&source, softrdma_now_ns());
	uint8_t buf[BUF_MAX];
	raw_send(silent, buf, raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, ""));
	raw_expect_end(silent);
	close(silent);
	wait_for_log("127.0.0.10:");
	wait_for_log("is not heard: too many wrong keys from there");
	expect_no_event(l.channel);

	log_clear();
	give_qp(id);
	assert_int_equal(softrdma_rdma_accept(id, NULL), 0);
	assert_ptr_equal(expect_event(l.channel, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET), id);
	raw_expect_end(fd);
	close(fd);
	wait_for_log("127.0.0.10:");
	wait_for_log("is not heard: too many wrong keys from there");
	destroy(id);

	give_qp(honest);
	assert_int_equal(softrdma_rdma_accept(honest, NULL), 0);
	raw_recv(honest_fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
	destroy(honest);
	close(honest_fd);
	listener_fini(&l);
	unsetenv("SOFTRDMA_MAX_WRONG_KEYS");
}

/* without a free descriptor, connections wait, and are served once there is one */
static void
test_no_descriptor_left(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	int fd = raw_connect(&l.addr);
	uint8_t buf[BUF_MAX];
	size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	raw_send(fd, buf, len);
	destroy(expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0));
	close(fd);

	rlim_t before;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(limit_files((rlim_t)fd + 1, &before));
	assert_int_equal(connect(fd, (struct sockaddr *)&l.addr, sizeof(l.addr)), 0);
	raw_send(fd, buf, len);
	char number[128];
	snprintf(number, sizeof(number), "incoming connections wait: this process may have %d descriptors",
		fd + 1);
	wait_for_log(number);
	assert_true(log_has("ulimit -n, LimitNOFILE= of systemd"));
	log_clear();
	expect_no_event(l.channel);
	assert_true(limit_files(before, NULL));
	destroy(expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0));
	assert_int_equal(log_worst, 0); /* it was logged only once */
	close(fd);
	listener_fini(&l);
}

/* a connection comes, and accept(2) fails the first time with this error */
static void
connect_after(struct listener *l, int error)
{
	uint8_t buf[BUF_MAX];
	size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	fail_call(FAIL_THEIRS, "accept4", 0, 1, error);
	int fd = raw_connect(&l->addr);
	raw_send(fd, buf, len);
	destroy(expect_event(l->channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0));
	assert_int_equal(fail_nothing(), 1);
	close(fd);
}

/*
 * One line says which limit to raise. A remote host that takes the last descriptor again and again causes no further
 * line, until a while has passed.
 */
static void
test_lines_of_waiting(void **state)
{
	(void)state;
	enum { TIMES = 20 };
	static const struct {
		int error;
		const char *limit;
	} limits[] = { { EMFILE, "ulimit -n, LimitNOFILE=" }, { ENFILE, "fs.file-max" },
		{ ENOMEM, "wait: Cannot allocate memory" } };
	struct listener l;
	listener_init(&l);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		unsigned lines = 0;
		clock_forward_ms(SOFTRDMA_LOG_INTERVAL_MS);
		log_clear();
		for (int times = 0; times < TIMES; times++)
			connect_after(&l, limits[i].error);
		for (const char *at = strstr(log_text, "incoming connections wait"); at;
			at = strstr(at + 1, "incoming connections wait"))
			lines++;
		assert_int_equal(lines, 1);
		for (size_t j = 0; j < sizeof(limits) / sizeof(limits[0]); j++)
			assert_int_equal(log_has(limits[j].limit), i == j);
	}
	listener_fini(&l);
	clock_forward_ms(SOFTRDMA_LOG_INTERVAL_MS); /* lines for others are logged again */
}

/* for every error of accept(2): the connection is lost or waits, and the listener goes on */
static void
test_accept_fails(void **state)
{
	(void)state;
	static const int errors[] = { ENFILE, ENOBUFS, ENOMEM, EMFILE, ECONNABORTED, EPROTO, EINTR };
	struct listener l;
	listener_init(&l);
	uint8_t buf[BUF_MAX];
	size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		fail_call(FAIL_THEIRS, "accept4", 0, 2, errors[i]);
		int fd = raw_connect(&l.addr);
		raw_send(fd, buf, len);
		destroy(expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0));
		assert_int_equal(fail_nothing(), 2);
		close(fd);
	}
	/* if the listening socket has become invalid, nothing is logged, and the next edge is awaited */
	static const int final[] = { EBADF, EINVAL };
	for (size_t i = 0; i < 2; i++) {
		fail_call(FAIL_THEIRS, "accept4", 0, 1, final[i]);
		int first = raw_connect(&l.addr);
		wait_until(has_failed(1));
		fail_nothing();
		int second = raw_connect(&l.addr);
		raw_send(second, buf, len);
		destroy(expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0));
		close(first);
		close(second);
	}
	listener_fini(&l);
}

/* no memory or no kernel memory for an incoming connection, at each step */
static void
test_request_without_resources(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	uint8_t buf[BUF_MAX];
	size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	for (unsigned skip = 0; skip < 4; skip++) {
		log_clear();
		fail_call(FAIL_THEIRS, "calloc", skip, 1, ENOMEM);
		int fd = raw_connect(&l.addr);
		send(fd, buf, len, MSG_NOSIGNAL); /* the device may have closed already */
		if (skip < 2) {
			raw_expect_end(fd);
			wait_for_log("an incoming connection is dropped: Cannot allocate memory");
		} else {
			raw_expect_reject(fd, SOFTRDMA_REJECT_BUSY);
			wait_for_log("no memory for a connection request: rejected");
		}
		assert_int_equal(fail_nothing(), 1);
		close(fd);
	}
	fail_call(FAIL_THEIRS, "epoll_ctl", 0, 1, ENOSPC);
	int fd = raw_connect(&l.addr);
	raw_expect_end(fd);
	close(fd);
	wait_for_log("an incoming connection is dropped: No space left on device");
	fail_nothing();
	expect_no_event(l.channel);

	/* the log lines appear even if the peer's name cannot be found */
	static const char *const calls[] = { "getpeername", "getnameinfo" };
	for (size_t i = 0; i < 2; i++) {
		log_clear();
		fail_call(FAIL_THEIRS, calls[i], 0, 1, i ? -2 : ENOTCONN);
		fd = raw_connect(&l.addr);
		memset(buf, 'x', sizeof(buf));
		raw_send(fd, buf, sizeof(buf));
		raw_expect_end(fd);
		close(fd);
		wait_for_log("an unknown address does not speak the protocol");
		fail_nothing();
	}
	listener_fini(&l);
}

static struct rdma_cm_id *
request(struct listener *l, int *fd)
{
	uint8_t buf[BUF_MAX];
	size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	*fd = raw_connect(&l->addr);
	raw_send(*fd, buf, len);
	struct rdma_cm_id *id = expect_event(l->channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	return id;
}

/* the same, and the application has accepted it: READY is due */
static struct rdma_cm_id *
accepted_request(struct listener *l, int *fd)
{
	uint8_t buf[SOFTRDMA_HANDSHAKE_SIZE];
	struct rdma_cm_id *id = request(l, fd);
	give_qp(id);
	assert_int_equal(softrdma_rdma_accept(id, NULL), 0);
	raw_recv(*fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
	return id;
}

/* the peer gives up before the application accepts: the call succeeds, and an event reports the end */
static void
test_peer_gone_before_accept(void **state)
{
	(void)state;
	static const struct {
		bool reset;
		int recv_error;
	} ways[] = { { false, 0 }, { true, 0 }, { false, EINTR }, { false, ECONNRESET } };
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct listener l;
		listener_init(&l);
		int fd;
		struct rdma_cm_id *id = request(&l, &fd);
		give_qp(id);
		const struct linger reset = { .l_onoff = 1 };
		if (ways[i].reset)
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		if (ways[i].recv_error)
			fail_call(FAIL_THEIRS, "recv", 0, 1, ways[i].recv_error);
		close(fd);
		if (ways[i].recv_error)
			wait_until(has_failed(1));
		fail_nothing();
		/*
		 * The progress thread notices the end. A second request that it serves afterwards shows that
		 * it has.
		 */
		int other_fd;
		struct rdma_cm_id *other = request(&l, &other_fd);
		assert_int_equal(softrdma_rdma_accept(id, NULL), 0);
		/* if it was not noticed (EINTR), the connection is established and ends in the same way */
		expect_event(l.channel, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET);
		destroy(id);
		destroy(other);
		close(other_fd);
		listener_fini(&l);
	}
}

/* the response cannot be sent, in full or at all */
static void
test_answer_is_not_sent(void **state)
{
	(void)state;
	static const struct {
		int error, status;
	} ways[] = { { EPIPE, -EPIPE }, { FAIL_SHORT, -EIO } };
	for (size_t i = 0; i < 2; i++) {
		struct listener l;
		listener_init(&l);
		int fd;
		struct rdma_cm_id *id = request(&l, &fd);
		give_qp(id);
		fail_call(FAIL_MINE, "send", 0, 1, ways[i].error);
		assert_int_equal(softrdma_rdma_accept(id, NULL), 0);
		assert_int_equal(fail_nothing(), 1);
		expect_event(l.channel, RDMA_CM_EVENT_CONNECT_ERROR, ways[i].status);
		destroy(id);
		close(fd);
		listener_fini(&l);
	}
}

/* resources are missing when the request is accepted */
static void
test_accept_without_resources(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	int fd;
	struct rdma_cm_id *id = request(&l, &fd);
	assert_int_equal(softrdma_rdma_accept(id, NULL), -1); /* no queue pair */
	assert_int_equal(errno, EINVAL);
	give_qp(id);
	for (unsigned skip = 0; skip < 2; skip++) { /* its events are allocated first; it remains a request */
		fail_call(FAIL_MINE, "calloc", skip, 1, ENOMEM);
		assert_int_equal(softrdma_rdma_accept(id, NULL), -1);
		assert_int_equal(errno, ENOMEM);
	}
	fail_call(FAIL_MINE, "epoll_ctl", 1, 1, ENOSPC); /* the first call removes the socket */
	assert_int_equal(softrdma_rdma_accept(id, NULL), -1);
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(fail_nothing(), 1);
	destroy(id);
	close(fd);
	listener_fini(&l);
}

/* check sums are requested, and there is no memory for the stream of records */
static void
test_no_memory_for_records(void **state)
{
	(void)state;
	struct listener l;
	int fd;
	setenv("SOFTRDMA_CRC", "1", 1);
	listener_init(&l);
	struct rdma_cm_id *id = request(&l, &fd);
	give_qp(id);
	fail_call(FAIL_MINE, "calloc", 2, 1, ENOMEM); /* the first two are for its events */
	assert_int_equal(softrdma_rdma_accept(id, NULL), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(fail_nothing(), 1);
	destroy(id);
	close(fd);
	listener_fini(&l);
	unsetenv("SOFTRDMA_CRC");
}

/* ACCEPT was sent and READY does not come: the deadline ends the connection */
static void
test_peer_never_ready(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	int fd;
	struct rdma_cm_id *id = request(&l, &fd);
	give_qp(id);
	const struct rdma_conn_param param = { .private_data = "yes",
		.private_data_len = 3,
		.responder_resources = 200,
		.initiator_depth = 200,
		.rnr_retry_count = 200 };
	struct rdma_conn_param given = param;
	fail_call(FAIL_MINE, "send", 0, 1, EINTR);
	assert_int_equal(softrdma_rdma_accept(id, &given), 0);
	fail_nothing();
	uint8_t buf[BUF_MAX];
	struct softrdma_handshake hs;
	raw_recv(fd, buf, SOFTRDMA_HANDSHAKE_SIZE + 3);
	assert_int_equal(softrdma_handshake_decode(buf, &hs), SOFTRDMA_HANDSHAKE_OK);
	assert_int_equal(hs.type, SOFTRDMA_HANDSHAKE_ACCEPT);
	assert_int_equal(hs.responder_resources, 2); /* at most what the peer wants */
	assert_int_equal(hs.initiator_depth, 3);
	assert_int_equal(hs.rnr_retry, 7);
	assert_memory_equal(buf + SOFTRDMA_HANDSHAKE_SIZE, "yes", 3);
	expect_no_event(l.channel);
	clock_forward_ms(SOFTRDMA_HANDSHAKE_TIMEOUT_MS + 1);
	expect_event(l.channel, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET);
	raw_expect_end(fd);
	wait_for_log("a peer did not respond in time: connection closed");
	close(fd);
	destroy(id);
	listener_fini(&l);
}

/* builds and sends a record with one frame */
static void
send_record(int fd, uint64_t number, const struct softrdma_frame *frame, uint32_t length, uint8_t flip)
{
	uint8_t buf[SOFTRDMA_RECORD_HEADER + SOFTRDMA_FRAME_SIZE], summed[12];
	memcpy(summed, &number, 8);
	memcpy(summed + 8, &length, 4);
	softrdma_frame_encode(frame, buf + SOFTRDMA_RECORD_HEADER);
	memcpy(buf, &length, 4);
	raw_put_sum(buf + 4, summed, sizeof(summed));
	uint32_t crc = softrdma_crc32c(softrdma_crc32c(0, summed, sizeof(summed)),
		buf + SOFTRDMA_RECORD_HEADER, SOFTRDMA_FRAME_SIZE);
	memcpy(buf + 8, &crc, 4);
	buf[SOFTRDMA_RECORD_HEADER + 4] ^= flip;
	raw_send(fd, buf, sizeof(buf));
}

/* a peer that wants records gets them; damaged data ends the connection, and is counted */
static void
test_records(void **state)
{
	(void)state;
	static const struct {
		uint32_t length;
		uint8_t flip;
		const char *line;
		uint64_t errors;
	} cases[] = {
		{ SOFTRDMA_FRAME_SIZE, 4, "was damaged on its way (CRC32C): connection closed", 1 },
		{ SOFTRDMA_RECORD_MAX + 1, 0, "no frame of the protocol", 0 },
	};
	const struct softrdma_frame ready = { .opcode = SOFTRDMA_OP_READY };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct listener l;
		uint8_t buf[BUF_MAX];
		struct softrdma_handshake hs;
		listener_init(&l);
		raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
		buf[22] = SOFTRDMA_RECORDS_WANTED | SOFTRDMA_RECORDS_SET;
		raw_sum_again(buf, 0);
		int fd = raw_connect(&l.addr);
		raw_send(fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
		struct rdma_cm_id *id = expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		give_qp(id);
		assert_int_equal(softrdma_rdma_accept(id, NULL), 0);
		raw_recv(fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
		assert_int_equal(softrdma_handshake_decode(buf, &hs), SOFTRDMA_HANDSHAKE_OK);
		assert_int_equal(hs.records, SOFTRDMA_RECORDS_WANTED);
		send_record(fd, 0, &ready, SOFTRDMA_FRAME_SIZE, 0);
		expect_event(l.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
		assert_int_equal(softrdma_crc_errors(id->qp), 0);
		send_record(fd, 1, &ready, cases[i].length, cases[i].flip);
		expect_event(l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		wait_for_log(cases[i].line);
		raw_expect_end(fd);
		assert_int_equal(softrdma_crc_errors(id->qp), cases[i].errors);
		close(fd);
		destroy(id);
		listener_fini(&l);
		log_clear();
	}
}

/*
 * A client connects twice. The event of the first established connection comes before the second request,
 * even if the thread is at the pending sockets already when the client is ready.
 */
static void
test_established_before_the_next_request(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	int first, second;
	uint8_t buf[BUF_MAX];
	struct rdma_cm_id *id = accepted_request(&l, &first);

	fail_call(FAIL_THEIRS, "recv", 0, 1, FAIL_WAIT);
	second = raw_connect(&l.addr);
	raw_send(second, buf, raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, ""));
	wait_until(has_failed(1));
	const struct softrdma_frame ready = { .opcode = SOFTRDMA_OP_READY };
	raw_frame(first, &ready);
	fail_nothing();

	assert_ptr_equal(expect_event(l.channel, RDMA_CM_EVENT_ESTABLISHED, 0), id);
	struct rdma_cm_id *other = expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	destroy(other);
	destroy(id);
	close(first);
	close(second);
	listener_fini(&l);
}

/* who has not said that it has the acceptance has no access, whatever it sends */
static void
test_access_before_ready(void **state)
{
	(void)state;
	const uint8_t last = SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST;
	const struct softrdma_frame ready = { .opcode = SOFTRDMA_OP_READY };
	const struct softrdma_frame write = { .opcode = SOFTRDMA_OP_WRITE,
		.flags = last,
		.seq = 100,
		.length = 32,
		.key = the_mr->rkey,
		.addr = (uintptr_t)the_mem };
	const struct softrdma_frame first[] = {
		ready,
		write,
		{ .opcode = SOFTRDMA_OP_SHM_OFFER, .length = 16, .key = 1, .arg = 1 },
		{ .opcode = SOFTRDMA_OP_ACK },
		{ .opcode = SOFTRDMA_OP_DISCONNECT },
	};
	for (unsigned i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
		struct listener l;
		listener_init(&l);
		int fd;
		struct rdma_cm_id *id = accepted_request(&l, &fd);
		uint8_t buf[SOFTRDMA_FRAME_SIZE];
		memset(the_mem, 0, 32);
		raw_frame(fd, &first[i]);
		if (i == 0) { /* the control: the same write after READY */
			expect_event(l.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
			raw_frame(fd, &write);
			raw_frame(fd, &ready); /* the payload */
			raw_frame(fd, &ready); /* a second READY has no effect */
			raw_recv(fd, buf, SOFTRDMA_FRAME_SIZE);
			assert_int_equal(buf[0], SOFTRDMA_OP_ACK);
			assert_int_equal(the_mem[0], SOFTRDMA_OP_READY);
			softrdma_rdma_disconnect(id);
		} else {
			/* the device may have closed already */
			send(fd, &ready, sizeof(ready), MSG_NOSIGNAL);
			expect_event(l.channel, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET);
			raw_expect_end(fd);
			wait_for_log("a peer sent a frame before READY: connection closed");
			assert_int_equal(the_mem[0], 0);
			expect_no_event(l.channel);
		}
		close(fd);
		destroy(id);
		listener_fini(&l);
	}
}

/* the connection is established, but its event channel is gone */
static void
test_established_unheard(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	int fd;
	struct rdma_cm_id *id = accepted_request(&l, &fd);
	const struct softrdma_frame ready = { .opcode = SOFTRDMA_OP_READY };
	softrdma_rdma_destroy_event_channel(l.channel);
	raw_frame(fd, &ready);
	wait_for_log("an established connection cannot be reported");
	raw_frame(fd, &ready); /* a second READY is one too many, but harmless */
	close(fd);
	wait_for_log("the end of a connection cannot be reported");
	destroy(id);
	destroy(l.id);
}

/* --- listening --- */

static void
test_bind_of_another_family(void **state)
{
	(void)state;
	struct sockaddr addr = { .sa_family = AF_UNIX };
	int fd = -1;
	assert_int_equal(softrdma_handshake_bind(&addr, SOFTRDMA_FAMILY_DEFAULT, &fd), EAFNOSUPPORT);
	assert_int_equal(fd, -1);
}

/* makes a listener on this port of any address of the family; returns its id, or NULL with errno */
static struct rdma_cm_id *
listen_on_any(struct rdma_event_channel *channel, int family, in_port_t port, const bool *only)
{
	struct sockaddr_storage addr = { .ss_family = (sa_family_t)family };
	struct rdma_cm_id *id = new_id(channel);
	if (family == AF_INET)
		((struct sockaddr_in *)&addr)->sin_port = port;
	else
		((struct sockaddr_in6 *)&addr)->sin6_port = port;
	if (only)
		assert_int_equal(softrdma_rdma_set_family_only(id, *only), 0);
	if (softrdma_rdma_bind_addr(id, (struct sockaddr *)&addr) == 0 && softrdma_rdma_listen(id, 1) == 0)
		return id;
	const int error = errno;
	destroy(id);
	errno = error;
	return NULL;
}

/* with AFONLY, 0.0.0.0 and [::] listen on one port, and each has the clients of its family */
static void
test_family_only(void **state)
{
	(void)state;
	const bool only = true, both = false;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *v4 = listen_on_any(channel, AF_INET, 0, &only);
	assert_non_null(v4);
	const in_port_t port = rdma_get_src_port(v4);
	struct rdma_cm_id *v6 = listen_on_any(channel, AF_INET6, port, &only);
	if (v6 == NULL && errno == EAFNOSUPPORT)
		skip();
	assert_non_null(v6);
	struct sockaddr_in6 local = { .sin6_family = AF_INET6,
		.sin6_port = port,
		.sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in local4 = loopback(port);
	struct sockaddr *const to[] = { (struct sockaddr *)&local4, (struct sockaddr *)&local };
	struct rdma_cm_id *const listeners[] = { v4, v6 };
	struct rdma_event_channel *active = new_channel();
	for (size_t i = 0; i < 2; i++) {
		struct rdma_cm_id *id = new_id(active);
		assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, to[i], 1000), 0);
		expect_event(active, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
		assert_int_equal(softrdma_rdma_resolve_route(id, 1000), 0);
		expect_event(active, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
		give_qp(id);
		assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
		struct rdma_cm_event *event = take_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		assert_ptr_equal(event->listen_id, listeners[i]);
		struct rdma_cm_id *request = event->id;
		assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
		assert_int_equal(softrdma_rdma_reject(request, NULL, 0), 0);
		destroy(request);
		expect_event(active, RDMA_CM_EVENT_REJECTED, 28);
		destroy(id);
	}
	softrdma_rdma_destroy_event_channel(active);
	/* a listener, and an IPv6 address that is bound already, keep what they have */
	assert_int_equal(softrdma_rdma_set_family_only(v6, true), -1);
	assert_int_equal(errno, EINVAL);
	destroy(v6);

	/* one that stands for IPv4 too finds the port in use */
	assert_null(listen_on_any(channel, AF_INET6, port, &both));
	assert_int_equal(errno, EADDRINUSE);
	destroy(v4);

	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	struct rdma_cm_id *id = new_id(channel);
	assert_int_equal(softrdma_rdma_set_family_only(id, true), 0);
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	assert_int_equal(softrdma_rdma_set_family_only(id, true), 0);
	assert_int_equal(softrdma_rdma_set_family_only(id, false), -1);
	assert_int_equal(errno, EINVAL);
	destroy(id);
	id = new_id(channel);
	any = (struct sockaddr_in6){ .sin6_family = AF_INET6 };
	assert_int_equal(softrdma_rdma_set_family_only(id, true), 0);
	fail_call(FAIL_MINE, "setsockopt", 0, 1, ENOMEM);
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&any), -1);
	assert_int_equal(errno, ENOMEM);
	fail_nothing();
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

static void
test_listen(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	/* without an address: the kernel chooses one */
	fail_call(FAIL_MINE, "socket", 0, 1, EMFILE);
	assert_int_equal(softrdma_rdma_listen(id, 1), -1);
	assert_int_equal(errno, EMFILE);
	fail_call(FAIL_MINE, "listen", 0, 1, EADDRINUSE);
	assert_int_equal(softrdma_rdma_listen(id, 1), -1);
	assert_int_equal(errno, EADDRINUSE);
	fail_nothing();
	assert_int_equal(softrdma_rdma_listen(id, 1), 0);
	assert_int_not_equal(rdma_get_src_port(id), 0);
	destroy(id);

	static const char *const calls[] = { "calloc", "epoll_ctl" };
	for (size_t i = 0; i < 2; i++) {
		id = new_id(channel);
		fail_call(FAIL_MINE, calls[i], i == 0 ? 0 : 2, 1,
			ENOMEM); /* the first two calls of epoll_ctl are the thread's own */
		assert_int_equal(softrdma_rdma_listen(id, 1), -1);
		assert_int_equal(errno, ENOMEM);
		assert_int_equal(fail_nothing(), 1);
		assert_int_equal(softrdma_rdma_listen(id, 1), 0);
		destroy(id);
	}
	softrdma_rdma_destroy_event_channel(channel);
}

/* --- the active side: responses --- */

struct server {
	int listening, fd;
	struct sockaddr_in addr;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct softrdma_handshake asked;
};

/* the device's id requests a connection from a plain socket */
static void
server_asked(struct server *s, struct rdma_conn_param *param)
{
	s->listening = raw_listen(&s->addr);
	s->channel = new_channel();
	s->id = new_active(s->channel, &s->addr);
	assert_int_equal(softrdma_rdma_connect(s->id, param), 0);
	s->fd = raw_accept(s->listening);
	uint8_t buf[BUF_MAX];
	raw_recv(s->fd, buf, SOFTRDMA_HANDSHAKE_SIZE + (param ? param->private_data_len : 0u));
	assert_int_equal(softrdma_handshake_decode(buf, &s->asked), SOFTRDMA_HANDSHAKE_OK);
	assert_int_equal(s->asked.type, SOFTRDMA_HANDSHAKE_CONNECT);
	assert_int_equal(s->asked.private_len, param ? param->private_data_len : 0);
	if (s->asked.private_len)
		assert_memory_equal(buf + SOFTRDMA_HANDSHAKE_SIZE, param->private_data, s->asked.private_len);
}

static void
server_fini(struct server *s)
{
	destroy(s->id);
	softrdma_rdma_destroy_event_channel(s->channel);
	close(s->fd);
	close(s->listening);
}

static void
test_asks(void **state)
{
	(void)state;
	struct rdma_conn_param param = { .private_data = "hello",
		.private_data_len = 5,
		.responder_resources = 255,
		.initiator_depth = 1,
		.rnr_retry_count = 6,
		.flow_control = 1 };
	struct server s;
	server_asked(&s, &param);
	assert_int_equal(s.asked.responder_resources, SOFTRDMA_RD_ATOM_MAX);
	assert_int_equal(s.asked.initiator_depth, 1);
	assert_int_equal(s.asked.rnr_retry, 6);
	assert_int_equal(s.asked.flow_control, 1);
	assert_int_equal(s.asked.qp_num, s.id->qp->qp_num);

	/* ACCEPT and, in the same packet, the server's first frame: nothing of it is lost */
	uint8_t buf[BUF_MAX + SOFTRDMA_FRAME_SIZE];
	size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_ACCEPT, "welcome");
	const struct softrdma_frame frame = { .opcode = SOFTRDMA_OP_DISCONNECT };
	softrdma_frame_encode(&frame, buf + len);
	raw_send(s.fd, buf, len + SOFTRDMA_FRAME_SIZE);
	struct rdma_cm_event *event = take_event(s.channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event->param.conn.private_data_len, 7);
	assert_memory_equal(event->param.conn.private_data, "welcome", 7);
	softrdma_rdma_ack_cm_event(event);
	expect_event(s.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	server_fini(&s);
}

static void
test_rejected(void **state)
{
	(void)state;
	static const struct {
		uint16_t reason;
		const char *line;
	} reasons[] = {
		{ SOFTRDMA_REJECT_CONSUMER, "" },
		{ SOFTRDMA_REJECT_VERSION,
			"speaks another version of the protocol than 3: install one version" },
		{ SOFTRDMA_REJECT_BUSY, "has too many requests pending" },
		{ SOFTRDMA_REJECT_DAMAGED, "got a request that was damaged on its way: try again" },
	};
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		struct server s;
		server_asked(&s, NULL);
		uint8_t buf[BUF_MAX];
		size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_REJECT, "because");
		buf[20] = (uint8_t)reasons[i].reason;
		raw_sum_again(buf, 7);
		raw_send(s.fd, buf, len);
		struct rdma_cm_event *event = take_event(s.channel, RDMA_CM_EVENT_REJECTED);
		assert_int_equal(event->status, reasons[i].reason);
		assert_int_equal(event->param.conn.private_data_len, 7);
		assert_memory_equal(event->param.conn.private_data, "because", 7);
		softrdma_rdma_ack_cm_event(event);
		assert_true(log_has(reasons[i].line));
		raw_expect_end(s.fd);
		server_fini(&s);
	}
}

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

static struct sockaddr_in
closed_port(void)
{
	struct sockaddr_in addr;
	close(raw_listen(&addr));
	return addr;
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

static void
test_nothing_to_connect(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	struct rdma_cm_id *id = new_id(l.channel);
	assert_int_equal(softrdma_rdma_connect(id, NULL), -1); /* no queue pair */
	assert_int_equal(errno, EINVAL);
	struct sockaddr_in any = loopback(0);
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	give_qp(id);
	assert_int_equal(softrdma_rdma_connect(id, NULL), -1); /* no destination */
	assert_int_equal(errno, EINVAL);
	destroy(id);
	listener_fini(&l);
}

/* from an address that the application chooses: bound before, or given when resolving */
static void
test_source(void **state)
{
	(void)state;
	struct sockaddr_in addr, from;
	socklen_t len = sizeof(from);
	int listening = raw_listen(&addr);
	struct rdma_event_channel *channel = new_channel();
	struct sockaddr_in src = loopback(0);
	src.sin_addr.s_addr = inet_addr("127.0.0.3");

	struct rdma_cm_id *id = new_id(channel);
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&src), 0);
	in_port_t port = rdma_get_src_port(id);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 0), 0);
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	give_qp(id);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	int fd = raw_accept(listening);
	assert_int_equal(getpeername(fd, (struct sockaddr *)&from, &len), 0);
	assert_int_equal(from.sin_addr.s_addr, src.sin_addr.s_addr);
	assert_int_equal(from.sin_port, port);
	destroy(id);
	close(fd);

	for (int fails = 0; fails < 2; fails++) {
		id = new_id(channel);
		assert_int_equal(
			softrdma_rdma_resolve_addr(id, (struct sockaddr *)&src, (struct sockaddr *)&addr, 0),
			0);
		expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
		give_qp(id);
		if (fails) {
			fail_call(FAIL_MINE, "bind", 0, 1, EADDRNOTAVAIL);
			assert_int_equal(softrdma_rdma_connect(id, NULL), -1);
			assert_int_equal(errno, EADDRNOTAVAIL);
		} else {
			assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
			fd = raw_accept(listening);
			assert_int_equal(getpeername(fd, (struct sockaddr *)&from, &len), 0);
			assert_int_equal(from.sin_addr.s_addr, src.sin_addr.s_addr);
			close(fd);
		}
		destroy(id);
	}

	/* the same for IPv6; both addresses must be of one family, or the kernel refuses */
	struct sockaddr_in6 src6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in6 dst6 = src6;
	dst6.sin6_port = closed_port().sin_port;
	id = new_id(channel);
	assert_int_equal(
		softrdma_rdma_resolve_addr(id, (struct sockaddr *)&src6, (struct sockaddr *)&dst6, 0), 0);
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	give_qp(id);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	expect_event(channel, RDMA_CM_EVENT_REJECTED, SOFTRDMA_REJECT_NO_LISTENER);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	close(listening);
}

/* the server accepts, but the connection cannot be set up here */
static void
test_accepted_but_given_up(void **state)
{
	(void)state;
	enum { NO_QP, NO_WATCH, NO_CHANNEL, WAYS };
	for (int way = 0; way < WAYS; way++) {
		struct server s;
		server_asked(&s, NULL);
		log_clear();
		if (way == NO_QP)
			softrdma_rdma_destroy_qp(s.id);
		else if (way == NO_WATCH) /* the first call removes the socket */
			fail_call(FAIL_THEIRS, "epoll_ctl", 1, 1, ENOSPC);
		else
			softrdma_rdma_destroy_event_channel(s.channel);
		uint8_t buf[BUF_MAX];
		raw_send(s.fd, buf, raw_message(buf, SOFTRDMA_HANDSHAKE_ACCEPT, ""));
		static const int status[] = { -ECONNABORTED, -ENOSPC };
		wait_for_log("an accepted connection is given up: ");
		if (way == NO_CHANNEL)
			wait_for_log("a failed connection is not reported");
		else
			expect_event(s.channel, RDMA_CM_EVENT_CONNECT_ERROR, status[way]);
		fail_nothing();
		destroy(s.id);
		if (way != NO_CHANNEL)
			softrdma_rdma_destroy_event_channel(s.channel);
		close(s.fd);
		close(s.listening);
	}
}

/* the application moves the queue pair to error before it is connected: it is connected in that state */
static void
test_queue_pair_in_error(void **state)
{
	(void)state;
	struct server s;
	server_asked(&s, NULL);
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	assert_int_equal(softrdma_ibv_modify_qp(s.id->qp, &error, IBV_QP_STATE), 0);
	uint8_t buf[BUF_MAX];
	raw_send(s.fd, buf, raw_message(buf, SOFTRDMA_HANDSHAKE_ACCEPT, ""));
	expect_event(s.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_state(s.id->qp, IBV_QPS_ERR);
	server_fini(&s);
}

/* the application gives up an attempt: the server sees the end */
static void
test_given_up(void **state)
{
	(void)state;
	struct server s;
	server_asked(&s, NULL);
	destroy(s.id);
	raw_expect_end(s.fd);
	s.id = new_id(s.channel);
	server_fini(&s);
}

/* events that arrive after the handshake has ended, or at an unexpected time */
static void
test_late_events(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	struct softrdma_watched *watched = (struct softrdma_watched *)softrdma_id_of(l.id)->listener;
	watched->handle(watched, EPOLLIN); /* no one has connected */
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
	watched = (struct softrdma_watched *)softrdma_id_of(id)->handshaker;
	watched->handle(watched, EPOLLIN); /* not connected yet */
	expect_no_event(channel);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	close(listening);
	expect_no_event(l.channel);
	listener_fini(&l);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_garbage), device_test(test_port_scan), device_test(test_other_version),
		device_test(test_damaged_request), device_test(test_records),
		device_test(test_request_in_pieces), device_test(test_unfinished_request),
		device_test(test_listener_closed_meanwhile), device_test(test_too_many_silent),
		device_test(test_too_many_pending), device_test(test_pending_and_descriptors),
		device_test(test_few_places_left), device_test(test_pending_and_descriptors),
		device_test(test_more_than_one_go), device_test(test_short_backlog),
		device_test(test_too_many_wrong_keys), device_test(test_wrong_keys_after_the_request),
		device_test(test_no_descriptor_left), device_test(test_lines_of_waiting),
		device_test(test_accept_fails), device_test(test_request_without_resources),
		device_test(test_peer_gone_before_accept), device_test(test_answer_is_not_sent),
		device_test(test_accept_without_resources), device_test(test_no_memory_for_records),
		device_test(test_peer_never_ready), device_test(test_access_before_ready),
		device_test(test_established_before_the_next_request), device_test(test_established_unheard),
		device_test(test_bind_of_another_family), device_test(test_family_only),
		one_thread_test(test_listen), device_test(test_asks), device_test(test_rejected),
		device_test(test_wrong_answers), device_test(test_no_answer), device_test(test_no_tcp_answer),
		device_test(test_refused), one_thread_test(test_connect_fails),
		device_test(test_nothing_to_connect), device_test(test_source),
		device_test(test_accepted_but_given_up), device_test(test_queue_pair_in_error),
		device_test(test_given_up), device_test(test_late_events),
		device_test(test_listening_late), /* last, because the patience cannot be reset */
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
