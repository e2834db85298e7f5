/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_connection_rnr_timer.c -- the receiver-not-ready timer stops when its reason is gone
 *
 * The timer that limits the wait for the peer's receive was not stopped if the peer had posted the receive
 * but the socket was full. Some time later a working connection failed with IBV_WC_RNR_RETRY_EXC_ERR.
 */

#include "raw_peer.h"
#include "softrdma/engine/connection.h"

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
		device_test(test_receive_comes_while_the_socket_is_full),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
