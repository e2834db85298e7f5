/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_recv_queue.c -- posted receives: order, limits, and connections that wait for one */

#include <errno.h>

#include "failing.h"
#include "fixture.h"
#include "softrdma/engine/connection.h"
#include "softrdma/verbs/post.h"

static struct ibv_pd *pd;

static int
setup(void **state)
{
	(void)state;
	quieten();
	pd = softrdma_ibv_alloc_pd(softrdma_context());
	return pd == NULL;
}

static int
teardown(void **state)
{
	(void)state;
	return softrdma_ibv_dealloc_pd(pd);
}

static int
put(struct softrdma_recv_queue *queue, uint64_t wr_id, int num_sge)
{
	struct ibv_sge sge[SOFTRDMA_SGE_MAX + 1];
	for (int i = 0; i < SOFTRDMA_SGE_MAX + 1; i++)
		sge[i] = (struct ibv_sge){ .addr = wr_id * 1000 + (uint64_t)i,
			.length = UINT32_MAX,
			.lkey = (uint32_t)i };
	const struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = num_sge };
	return softrdma_recv_queue_put(queue, &wr);
}

static void
expect_taken(struct softrdma_recv_queue *queue, uint64_t wr_id, int num_sge)
{
	struct softrdma_recv recv;
	assert_true(softrdma_recv_queue_take(queue, &recv));
	assert_int_equal(recv.wr_id, wr_id);
	assert_int_equal(recv.num_sge, num_sge);
	assert_int_equal(recv.length, (uint64_t)num_sge * UINT32_MAX); /* more than 32 bits */
	for (int i = 0; i < num_sge; i++) {
		assert_int_equal(recv.sge[i].addr, wr_id * 1000 + (uint64_t)i);
		assert_int_equal(recv.sge[i].lkey, i);
	}
}

static void
test_order_and_capacity(void **state)
{
	(void)state;
	struct softrdma_recv_queue queue;
	struct softrdma_recv recv;
	for (uint32_t capacity = 1; capacity < 6; capacity++) {
		assert_int_equal(softrdma_recv_queue_init(&queue, capacity, 3), 0);
		uint64_t in = 0, out = 0;
		for (int round = 0; round < 20; round++) {
			while (in - out < capacity) {
				assert_int_equal(put(&queue, in, (int)(in % 4)), 0);
				in++;
			}
			assert_int_equal(put(&queue, 99, 1), ENOMEM);
			for (uint32_t i = 0; i < 1 + (uint32_t)round % capacity; i++) {
				expect_taken(&queue, out, (int)(out % 4));
				out++;
			}
		}
		for (; out < in; out++)
			expect_taken(&queue, out, (int)(out % 4));
		assert_false(softrdma_recv_queue_take(&queue, &recv));
		softrdma_recv_queue_fini(&queue);
	}
}

static void
test_pieces(void **state)
{
	(void)state;
	struct softrdma_recv_queue queue;
	for (uint32_t max = 0; max <= SOFTRDMA_SGE_MAX; max++) {
		assert_int_equal(softrdma_recv_queue_init(&queue, 2, max), 0);
		int limit = max ? (int)max : 1;
		assert_int_equal(put(&queue, 1, limit + 1), EINVAL);
		assert_int_equal(put(&queue, 1, -1), EINVAL);
		assert_int_equal(put(&queue, 1, limit), 0);
		assert_int_equal(put(&queue, 2, 0), 0);
		expect_taken(&queue, 1, limit);
		expect_taken(&queue, 2, 0);
		softrdma_recv_queue_fini(&queue);
	}
}

static void
test_no_capacity(void **state)
{
	(void)state;
	struct softrdma_recv_queue queue;
	struct softrdma_recv recv;
	assert_int_equal(softrdma_recv_queue_init(&queue, 0, 1), 0);
	assert_int_equal(put(&queue, 1, 1), ENOMEM);
	assert_false(softrdma_recv_queue_take(&queue, &recv));
	softrdma_recv_queue_fini(&queue);
}

static enum softrdma_recv_taken
take_for(struct softrdma_recv_queue *queue, uint64_t length, uint64_t *wr_id)
{
	struct softrdma_recv recv = { .wr_id = 99 };
	const enum softrdma_recv_taken taken = softrdma_recv_queue_take_for(queue, length, &recv);
	*wr_id = recv.wr_id;
	return taken;
}

/* the oldest receive with room for all, or none: it stays, also if a later one has room */
static void
test_taking_for_a_length(void **state)
{
	(void)state;
	struct softrdma_recv_queue queue;
	uint64_t wr_id;
	assert_int_equal(softrdma_recv_queue_init(&queue, 3, 2), 0);
	assert_int_equal(take_for(&queue, 0, &wr_id), SOFTRDMA_RECV_NONE);
	assert_int_equal(take_for(&queue, 1, &wr_id), SOFTRDMA_RECV_NONE);
	for (int round = 0; round < 4; round++) { /* the ring's end comes at each place */
		assert_int_equal(put(&queue, 1, 0), 0);
		assert_int_equal(put(&queue, 2, 1), 0);
		assert_int_equal(put(&queue, 3, 2), 0);
		assert_int_equal(take_for(&queue, 1, &wr_id), SOFTRDMA_RECV_TOO_SHORT);
		assert_int_equal(wr_id, 99);
		assert_int_equal(put(&queue, 4, 1), ENOMEM); /* none was taken */
		assert_int_equal(take_for(&queue, 0, &wr_id), SOFTRDMA_RECV_TAKEN);
		assert_int_equal(wr_id, 1);
		assert_int_equal(take_for(&queue, (uint64_t)UINT32_MAX + 1, &wr_id), SOFTRDMA_RECV_TOO_SHORT);
		assert_int_equal(take_for(&queue, UINT32_MAX, &wr_id), SOFTRDMA_RECV_TAKEN);
		assert_int_equal(wr_id, 2);
		assert_int_equal(take_for(&queue, 2 * (uint64_t)UINT32_MAX + 1, &wr_id),
			SOFTRDMA_RECV_TOO_SHORT);
		expect_taken(&queue, 3, 2); /* whole */
		assert_int_equal(take_for(&queue, 0, &wr_id), SOFTRDMA_RECV_NONE);
		assert_int_equal(put(&queue, 5, 1), 0); /* so the next round begins at another place */
		assert_int_equal(take_for(&queue, 10, &wr_id), SOFTRDMA_RECV_TAKEN);
		assert_int_equal(wr_id, 5);
	}
	softrdma_recv_queue_fini(&queue);
}

/* the oldest first, each once, and only if a receive is posted */
static void
test_waiting_for_a_receive(void **state)
{
	(void)state;
	struct softrdma_recv_queue queue;
	struct softrdma_recv recv;
	struct softrdma_link *links[4];
	assert_int_equal(softrdma_recv_queue_init(&queue, 4, 1), 0);
	for (int i = 0; i < 4; i++) {
		links[i] = softrdma_connection_new();
		assert_false(softrdma_recv_queue_take_or_wait(&queue, &recv, links[i]));
		assert_false(softrdma_recv_queue_take_or_wait(&queue, &recv, links[i]));
	}
	assert_null(softrdma_recv_queue_pop_waiting(&queue));
	softrdma_recv_queue_forget(&queue, links[2]);
	softrdma_recv_queue_forget(&queue, links[2]);
	assert_int_equal(put(&queue, 1, 1), 0);
	static const int order[] = { 0, 1, 3 };
	for (int i = 0; i < 3; i++) {
		struct softrdma_link *link = softrdma_recv_queue_pop_waiting(&queue);
		assert_ptr_equal(link, links[order[i]]);
		assert_int_equal(atomic_load(&link->refs), 2); /* the caller's own */
		softrdma_link_put(link);
	}
	assert_null(softrdma_recv_queue_pop_waiting(&queue));
	/* if a receive is posted, no connection waits */
	assert_true(softrdma_recv_queue_take_or_wait(&queue, &recv, links[0]));
	assert_int_equal(recv.wr_id, 1);
	assert_null(queue.waiting);
	/* the first, the last and the only one are removed */
	for (int i = 0; i < 3; i++)
		assert_false(softrdma_recv_queue_take_or_wait(&queue, &recv, links[i]));
	softrdma_recv_queue_forget(&queue, links[2]);
	softrdma_recv_queue_forget(&queue, links[0]);
	assert_ptr_equal(queue.waiting, links[1]);
	softrdma_recv_queue_forget(&queue, links[1]);
	assert_null(queue.waiting);
	/* replenishing the queue empties the list, even of links without a socket */
	assert_false(softrdma_recv_queue_take_or_wait(&queue, &recv, links[0]));
	assert_int_equal(put(&queue, 1, 1), 0);
	softrdma_post_replenished(&queue);
	assert_null(queue.waiting);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(atomic_load(&links[i]->refs), 1);
		softrdma_link_put(links[i]);
	}
	softrdma_recv_queue_fini(&queue);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_order_and_capacity),
		TEST(test_pieces),
		TEST(test_no_capacity),
		TEST(test_taking_for_a_length),
		TEST(test_waiting_for_a_receive),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
