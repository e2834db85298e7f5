/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_send.c -- what a connection sends, how that fails, and how long the peer may take
 *
 * One side is the device, the other one the device as well, or a plain socket that speaks the protocol.
 */

#include "serving.h"

#include "extended.h"
#include "softrdma/engine/connection.h"

#include <netinet/tcp.h>
#include <sys/mman.h>

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
	/* a hole would be filled by what another thread maps */
	assert_int_equal(mprotect(mem, size, PROT_NONE), 0);
	raw_frame(p.fd,
		&(struct softrdma_frame){ .opcode = SOFTRDMA_OP_READ_RESPONSE,
			.flags = SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST,
			.length = size,
			.seq = p.link->seq });
	wait_until(locked(p.link, p.link->rx.state == SOFTRDMA_RX_PLACING));
	static uint8_t payload[SOFTRDMA_SEGMENT_MAX];
	raw_send(p.fd, payload, size);
	expect_wc(1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	munmap(mem, size);
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

/* requests that wait for a response, to leave together with others, leave before this side ends the connection */
static void
test_disconnect_behind_gathered_requests(void **state)
{
	(void)state;
	for (int destroys = 0; destroys < 2; destroys++) {
		struct raw_peer p;
		uint8_t frame[SOFTRDMA_FRAME_SIZE + 8];
		raw_peer_init(&p);
		/* a late turn for what came with the connection's beginning would send them */
		await_sleep_of_other_threads();
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

/* --- TCP has more patience with a peer while a flush of this side is outstanding --- */

/*
 * A peer that makes memory durable does not read meanwhile. If more was sent after the flush than the buffers
 * hold, TCP gave up the connection after 10 seconds, the time after which a peer counts as vanished.
 */
static unsigned
user_timeout_ms(int fd)
{
	unsigned timeout_ms = 0;
	socklen_t len = sizeof(timeout_ms);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, &len), 0);
	return timeout_ms;
}

static void
test_patience_behind_a_flush(void **state)
{
	(void)state;
	struct raw_peer peer;
	raw_peer_init(&peer);
	const int fd = softrdma_connection_of(peer.link)->fd;

	raw_peer_post(&peer, IBV_WR_RDMA_WRITE, 1, 100);
	assert_int_equal(user_timeout_ms(fd), SOFTRDMA_PEER_TIMEOUT_MS);
	assert_int_equal(
		post_flush(peer.id->qp, 2, IBV_SEND_SIGNALED, 0x77, 0x1000, 100, SOFTRDMA_FLUSH_PERSISTENT),
		0);
	raw_peer_post(&peer, IBV_WR_RDMA_WRITE, 3, 100);
	assert_int_equal(user_timeout_ms(fd), SOFTRDMA_FLUSH_TIMEOUT_MS);

	/* after all responses the timeout is the usual one again */
	raw_frame(peer.fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_ACK, .seq = peer.device_seq + 2 });
	for (uint64_t wr_id = 1; wr_id <= 3; wr_id++)
		assert_int_equal(next_wc().wr_id, wr_id);
	raw_peer_post(&peer, IBV_WR_RDMA_WRITE, 4, 100);
	assert_int_equal(user_timeout_ms(fd), SOFTRDMA_PEER_TIMEOUT_MS);
	raw_frame(peer.fd, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_ACK, .seq = peer.device_seq + 3 });
	assert_int_equal(next_wc().wr_id, 4);
	raw_peer_fini(&peer);
}

/* --- the receiver-not-ready timer stops when its reason is gone --- */

/*
 * The timer that limits the wait for the peer's receive was not stopped if the peer had posted the receive
 * but the socket was full. Some time later a working connection failed with IBV_WC_RNR_RETRY_EXC_ERR.
 */
static void
answer(struct raw_peer *p, uint8_t opcode, uint32_t seq)
{
	raw_frame(p->fd, &(struct softrdma_frame){ .opcode = opcode, .seq = seq });
}

static void
test_receive_comes_while_the_socket_is_full(void **state)
{
	(void)state;
	struct raw_peer peer;
	raw_peer_init_as(&peer, 1, 0);

	raw_peer_post(&peer, IBV_WR_SEND, 1, 100);
	assert_int_equal(raw_next_frame(&peer).opcode, SOFTRDMA_OP_SEND);
	answer(&peer, SOFTRDMA_OP_RNR, peer.device_seq);
	wait_until(locked(peer.link, peer.link->requester.waiting));
	assert_true(locked(peer.link, softrdma_connection_of(peer.link)->rnr_timer.when_ns != 0));

	fail_call(FAIL_THEIRS, "sendmsg", 0, FAIL_FOR_EVER, EAGAIN);
	answer(&peer, SOFTRDMA_OP_RNR_READY, peer.device_seq);
	wait_until(has_failed(1));
	assert_true(locked(peer.link, softrdma_connection_of(peer.link)->rnr_timer.when_ns == 0));
	clock_forward_ms(60000);
	fail_nothing();

	/* the delayed request is sent together with the next one, and both succeed */
	raw_peer_post(&peer, IBV_WR_SEND, 2, 100);
	assert_int_equal(raw_next_frame(&peer).opcode, SOFTRDMA_OP_RESYNC);
	assert_int_equal(raw_next_frame(&peer).seq, peer.device_seq);
	assert_int_equal(raw_next_frame(&peer).seq, peer.device_seq + 1);
	answer(&peer, SOFTRDMA_OP_ACK, peer.device_seq + 1);
	for (uint64_t wr_id = 1; wr_id <= 2; wr_id++) {
		struct ibv_wc wc = next_wc();
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, wr_id);
	}
	raw_peer_fini(&peer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_memory_gone_when_reading),
		device_test(test_no_sigpipe),
		device_test(test_sending_fails),
		device_test(test_disconnect_behind_gathered_requests),
		device_test(test_patience_behind_a_flush),
		device_test(test_receive_comes_while_the_socket_is_full),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
