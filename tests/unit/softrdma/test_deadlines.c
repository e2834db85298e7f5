/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_deadlines.c -- the deadlines of a connection: peers that do not answer, and receivers that are not ready
 *
 * One side is the device, the other one the device as well, or a plain socket that speaks the protocol.
 */

#include "serving.h"

#include "softrdma/engine/deadlines.h"

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
	pair_init_as(&p, qp_attr(), 1);
	struct softrdma_link *link = softrdma_qp_of(p.active->qp)->link;
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
	pair_init_as(&p, qp_attr(), 0);
	link = softrdma_qp_of(p.active->qp)->link;
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
	raw_peer_init_as(&p, 1, 0);
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_disconnect_without_answer),
		device_test(test_disconnect_and_stay),
		device_test(test_id_destroyed_and_peer_stays),
		device_test(test_ready_after_disconnect),
		device_test(test_receiver_not_ready),
		device_test(test_gone_while_not_ready),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
