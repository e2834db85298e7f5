/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * An id that moves to another channel waits until its events are acknowledged. Events that were posted
 * meanwhile stayed in the old channel.
 */

#include "raw_peer.h"

struct move {
	struct rdma_cm_id *id;
	struct rdma_event_channel *to;
};

static void *
move_in_thread(void *arg)
{
	struct move *move = arg;
	return softrdma_rdma_migrate_id(move->id, move->to) ? arg : NULL;
}

static void
test_event_while_moving(void **state)
{
	(void)state;
	struct sockaddr_in unused;
	int fd = raw_listen(&unused);
	struct rdma_event_channel *from = new_channel();
	struct move move = { .id = new_id(from), .to = new_channel() };
	assert_int_equal(softrdma_rdma_resolve_addr(move.id, NULL, (struct sockaddr *)&unused, 0), 0);
	struct rdma_cm_event *event = take_event(from, RDMA_CM_EVENT_ADDR_RESOLVED);

	pthread_t thread;
	void *failed;
	assert_int_equal(pthread_create(&thread, NULL, move_in_thread, &move), 0);
	/* the thread waits for the acknowledgement (glibc counts the waiting threads) */
	wait_until(__atomic_load_n(&softrdma_id_of(move.id)->acked.__data.__wrefs, __ATOMIC_SEQ_CST) != 0);
	assert_int_equal(softrdma_rdma_resolve_route(move.id, 0), 0);
	assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
	pthread_join(thread, &failed);
	assert_null(failed);

	expect_no_event(from);
	expect_event(move.to, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	destroy(move.id);
	softrdma_rdma_destroy_event_channel(from);
	softrdma_rdma_destroy_event_channel(move.to);
	close(fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_event_while_moving),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
