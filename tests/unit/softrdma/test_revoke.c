/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_revoke.c -- memory is deregistered in the middle of a message, and the rest of the
 * message must no longer reach it
 */

#include "raw_peer.h"

#define HALF 16384u

static void
test_rest_of_a_message(void **state)
{
	(void)state;
	static uint8_t memory[2 * HALF];
	static uint8_t bytes[HALF];
	struct raw_peer peer;
	raw_peer_init(&peer);
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, memory, sizeof(memory),
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(mr);

	const struct softrdma_frame frame = {
		.opcode = SOFTRDMA_OP_WRITE,
		.flags = SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST,
		.seq = RAW_SEQ,
		.length = 2 * HALF,
		.key = mr->rkey,
		.addr = (uintptr_t)memory,
	};
	memset(bytes, 0x55, sizeof(bytes));
	raw_frame(peer.fd, &frame);
	raw_send(peer.fd, bytes, sizeof(bytes));
	wait_until(locked(peer.link, memory[HALF - 1] == 0x55));

	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	/*
	 * The device may refuse the message or close before the rest is sent. The thread that reads the rest
	 * must not store it.
	 */
	send(peer.fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
	shutdown(peer.fd, SHUT_WR);
	expect_event(peer.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	for (size_t i = HALF; i < sizeof(memory); i++)
		assert_int_equal(memory[i], 0);
	raw_peer_fini(&peer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_rest_of_a_message),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
