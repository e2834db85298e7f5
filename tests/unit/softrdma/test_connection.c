/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_connection.c -- a connection and its socket: what it receives and sends, how it fails, and which peers it shuts out
 *
 * One side is the device, the other one the device as well, or a plain socket that speaks the protocol.
 */

#include "serving.h"

#include "softrdma/base/env.h"
#include "softrdma/engine/connection.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

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

/* --- sending --- */

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_protocol_broken),
		device_test(test_offender),
		device_test(test_offender_that_leaves),
		device_test(test_unknown_offender),
		device_test(test_wrong_keys_on_many_connections),
		device_test(test_receiving_fails),
		device_test(test_memory_gone_when_receiving),
		device_test(test_short_read_into_a_file),
		device_test(test_memory_gone_when_reading),
		one_thread_test(test_flood_of_frames),
		device_test(test_receive_after_the_end),
		device_test(test_unsent_is_bounded),
		device_test(test_no_sigpipe),
		device_test(test_sending_fails),
		one_thread_test(test_acknowledged_before_the_end),
		device_test(test_disconnect_behind_gathered_requests),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
