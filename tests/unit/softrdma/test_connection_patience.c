/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_connection_patience.c -- TCP has more patience with a peer while a flush of this side is outstanding
 *
 * A peer that makes memory durable does not read meanwhile. If more was sent after the flush than the buffers
 * hold, TCP gave up the connection after 10 seconds, the time after which a peer counts as vanished.
 */

#include <netinet/tcp.h>

#include "extended.h"
#include "raw_peer.h"
#include "softrdma/engine/connection.h"

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_patience_behind_a_flush),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
