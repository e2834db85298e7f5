/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_handshake.c -- the connections of ids, until both sides have agreed
 *
 * One side is the device. The other is a plain TCP socket that sends what it should, what it should not, or
 * nothing.
 */

#include "plain_server.h"
#include "softrdma/wire/records.h"

/* --- the passive side: requests --- */

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_records),
		device_test(test_request_in_pieces),
		device_test(test_peer_gone_before_accept),
		device_test(test_answer_is_not_sent),
		device_test(test_accept_without_resources),
		device_test(test_no_memory_for_records),
		device_test(test_peer_never_ready),
		device_test(test_access_before_ready),
		device_test(test_established_before_the_next_request),
		device_test(test_established_unheard),
		device_test(test_bind_of_another_family),
		device_test(test_family_only),
		one_thread_test(test_listen),
		device_test(test_asks),
		device_test(test_rejected),
		device_test(test_nothing_to_connect),
		device_test(test_source),
		device_test(test_accepted_but_given_up),
		device_test(test_queue_pair_in_error),
		device_test(test_given_up),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
