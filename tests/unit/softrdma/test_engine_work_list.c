/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_engine_work_list.c -- each link with pending work is served once, also if it is queued again meanwhile
 *
 * The progress thread walked the list of links with pending work while another thread queued one of these
 * links again. The links after it in the new list were then in the old list as well: served twice, and
 * released twice.
 */

#include "raw_peer.h"

/* the number of system calls for one connection before the others get their turn, as in threads.c */
#define TX_TURNS 16

/* The turn ends before the socket has taken anything, so the write is left to the progress thread. */
static void
queue(struct raw_peer *p)
{
	fail_call(FAIL_MINE, "sendmsg", 0, TX_TURNS, EINTR);
	raw_peer_post(p, IBV_WR_RDMA_WRITE, 1, 1000);
	assert_true(has_failed(TX_TURNS));
	fail_nothing();
}

static void
arrives(struct raw_peer *p, unsigned writes)
{
	for (unsigned i = 0; i < writes; i++)
		assert_int_equal(raw_next_frame(p).opcode, SOFTRDMA_OP_WRITE);
	raw_frame(p->fd,
		&(struct softrdma_frame){ .opcode = SOFTRDMA_OP_ACK, .seq = p->device_seq + writes - 1 });
	for (unsigned i = 0; i < writes; i++)
		assert_int_equal(next_wc().status, IBV_WC_SUCCESS);
}

static void
test_queued_again(void **state)
{
	(void)state;
	const struct softrdma_frame nothing = { .opcode = SOFTRDMA_OP_READ, .seq = RAW_SEQ };
	struct raw_peer first, second, third, other;
	raw_peer_init(&first);
	raw_peer_init(&second);
	raw_peer_init(&third);
	raw_peer_init(&other);

	/* the progress thread blocks on another connection's lock while the first two are queued */
	lock_at_once(&other.link->lock);
	raw_frame(other.fd, &nothing);
	wait_until(is_wanted(&other.link->lock));
	queue(&first);
	queue(&second);

	/* then on the first one's lock, while the second is queued again, and the third after it */
	lock_at_once(&first.link->lock);
	pthread_mutex_unlock(&other.link->lock);
	wait_until(is_wanted(&first.link->lock));
	queue(&second);
	queue(&third);
	pthread_mutex_unlock(&first.link->lock);

	arrives(&first, 1);
	arrives(&second, 2);
	arrives(&third, 1);
	raw_peer_fini(&other);
	raw_peer_fini(&third);
	raw_peer_fini(&second);
	raw_peer_fini(&first);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		one_thread_test(test_queued_again),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
