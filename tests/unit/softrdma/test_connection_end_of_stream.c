/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_connection_end_of_stream.c -- the end of a peer's stream is reported, although a read before it was short
 *
 * The peer's last bytes and the end of its stream came in one event. The device read fewer bytes than it had
 * asked for, and took the socket for empty. No further edge came, so the connection was never reported as
 * closed.
 */

#include <netinet/tcp.h>

#include "raw_peer.h"
#include "softrdma/engine/connection.h"

static int
tcp_state(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	return info.tcpi_state;
}

static void
test_end_in_the_same_event(void **state)
{
	(void)state;
	const struct softrdma_frame nothing = { .opcode = SOFTRDMA_OP_READ, .seq = RAW_SEQ };
	struct raw_peer peer, other;
	raw_peer_init(&peer);
	raw_peer_init(&other);

	/* the progress thread blocks on the other connection's lock while both arrive */
	lock_at_once(&other.link->lock);
	raw_frame(other.fd, &nothing);
	wait_until(is_wanted(&other.link->lock));
	raw_frame(peer.fd, &nothing);
	assert_int_equal(shutdown(peer.fd, SHUT_WR), 0);
	wait_until(tcp_state(softrdma_connection_of(peer.link)->fd) == TCP_CLOSE_WAIT);
	pthread_mutex_unlock(&other.link->lock);

	expect_event(peer.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	raw_peer_fini(&other);
	raw_peer_fini(&peer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		one_thread_test(test_end_in_the_same_event),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
