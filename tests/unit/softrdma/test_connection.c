/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_connection.c -- a connection and its socket: what it receives after its end, and how much may be unsent
 *
 * One side is the device, the other one the device as well, or a plain socket that speaks the protocol.
 */

#include "serving.h"

#include "softrdma/engine/connection.h"

#include <netinet/tcp.h>

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_receive_after_the_end),
		device_test(test_unsent_is_bounded),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
