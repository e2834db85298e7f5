/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_pending.c -- listening sockets, and what arrives there: first messages, caps, and lack of resources
 *
 * One side is the device. The other is a plain TCP socket that sends what it should, what it should not, or
 * nothing.
 */

#include "connected.h"

#include <sys/epoll.h>

#include "softrdma/base/env.h"
#include "softrdma/cm/pending.h"
#include "softrdma/engine/watched.h"

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

/* --- how many may be pending --- */

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

/* the same for a question for datagrams: the program's answer is not sent */
static void
test_wrong_keys_after_the_question(void **state)
{
	(void)state;
	enum { GUESSER = 12, HONEST = 13 };
	struct rdma_conn_param param = { .qp_num = 0xabcdef };
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *listener = NULL;
	struct sockaddr_in addr = loopback(0);
	const struct softrdma_source source = source_of_host(GUESSER);
	uint8_t buf[BUF_MAX];
	const size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_RESOLVE, "");
	setenv("SOFTRDMA_MAX_WRONG_KEYS", "1", 1);
	assert_int_equal(softrdma_rdma_create_id(channel, &listener, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(softrdma_rdma_bind_addr(listener, (struct sockaddr *)&addr), 0);
	assert_int_equal(softrdma_rdma_listen(listener, 2), 0);
	addr = listener->route.addr.src_sin;

	int fd = raw_connect_from(&addr, GUESSER);
	raw_send(fd, buf, len);
	struct rdma_cm_id *id = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	softrdma_source_add_violation(&source, softrdma_now_ns());
	assert_int_equal(softrdma_rdma_accept(id, &param), 0);
	raw_expect_end(fd);
	close(fd);
	wait_for_log("127.0.0.12:");
	wait_for_log("is not heard: too many wrong keys from there");
	destroy(id);

	struct softrdma_handshake answer;
	fd = raw_connect_from(&addr, HONEST);
	raw_send(fd, buf, len);
	id = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(softrdma_rdma_accept(id, &param), 0);
	raw_recv(fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
	assert_int_equal(softrdma_handshake_decode(buf, &answer), SOFTRDMA_HANDSHAKE_OK);
	assert_int_equal(answer.qp_num, param.qp_num);
	raw_expect_end(fd);
	close(fd);
	destroy(id);
	expect_no_event(channel);
	destroy(listener);
	softrdma_rdma_destroy_event_channel(channel);
	unsetenv("SOFTRDMA_MAX_WRONG_KEYS");
}

/* --- accept(2), memory and descriptors --- */

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

/* no memory or no kernel memory for an incoming connection, at each step; all are counted */
static void
test_request_without_resources(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	uint8_t buf[BUF_MAX];
	size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	const uint64_t before = count_refused(&l, SOFTRDMA_REFUSED_BUSY);
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
		assert_int_equal(count_refused(&l, SOFTRDMA_REFUSED_BUSY), before + skip + 1);
		close(fd);
	}
	fail_call(FAIL_THEIRS, "epoll_ctl", 0, 1, ENOSPC);
	int fd = raw_connect(&l.addr);
	raw_expect_end(fd);
	close(fd);
	wait_for_log("an incoming connection is dropped: No space left on device");
	fail_nothing();
	assert_int_equal(count_refused(&l, SOFTRDMA_REFUSED_BUSY), before + 5);
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
		device_test(test_garbage),
		device_test(test_port_scan),
		device_test(test_damaged_request),
		device_test(test_other_version),
		device_test(test_unfinished_request),
		device_test(test_listener_closed_meanwhile),
		device_test(test_too_many_silent),
		device_test(test_too_many_pending),
		device_test(test_few_places_left),
		device_test(test_pending_and_descriptors),
		device_test(test_more_than_one_go),
		device_test(test_short_backlog),
		device_test(test_too_many_wrong_keys),
		device_test(test_wrong_keys_after_the_request),
		device_test(test_wrong_keys_after_the_question),
		device_test(test_no_descriptor_left),
		device_test(test_lines_of_waiting),
		device_test(test_accept_fails),
		device_test(test_request_without_resources),
		device_test(test_late_events),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
