/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_srq.c -- shared receive queues: limits, order, and refused posts */

#include <errno.h>

#include "failing.h"
#include "fixture.h"
#include "softrdma/verbs/srq.h"

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

static void
test_shared_queue(void **state)
{
	(void)state;
	static const struct ibv_srq_attr bad[] = {
		{ .max_wr = 0, .max_sge = 1 },
		{ .max_wr = SOFTRDMA_WR_MAX + 1, .max_sge = 1 },
		{ .max_wr = 1, .max_sge = SOFTRDMA_SGE_MAX + 1 },
	};
	for (size_t i = 0; i < 3; i++) {
		struct ibv_srq_init_attr init = { .attr = bad[i] };
		errno = 0;
		assert_null(softrdma_ibv_create_srq(pd, &init));
		assert_int_equal(errno, EINVAL);
	}
	struct ibv_srq_init_attr init = { .srq_context = &init, .attr = { .max_wr = 3, .max_sge = 0 } };
	struct ibv_srq *srq = softrdma_ibv_create_srq(pd, &init);
	assert_non_null(srq);
	assert_int_equal(init.attr.max_wr, 3);
	assert_int_equal(init.attr.max_sge, 1); /* the granted value */
	assert_ptr_equal(srq->srq_context, &init);
	assert_int_equal(softrdma_ibv_dealloc_pd(pd), EBUSY);

	struct ibv_sge sge = { .length = 8 };
	struct ibv_recv_wr wr[4];
	for (uint64_t i = 0; i < 4; i++)
		wr[i] = (struct ibv_recv_wr){ .wr_id = i,
			.sg_list = &sge,
			.num_sge = 1,
			.next = i < 3 ? &wr[i + 1] : NULL };
	struct ibv_recv_wr *bad_wr = NULL;
	assert_int_equal(softrdma_post_srq_recv(srq, wr, &bad_wr), ENOMEM);
	assert_ptr_equal(bad_wr, &wr[3]);
	struct softrdma_recv recv;
	for (uint64_t i = 0; i < 3; i++) {
		assert_true(softrdma_recv_queue_take(&softrdma_srq_of(srq)->queue, &recv));
		assert_int_equal(recv.wr_id, i);
	}
	wr[1].num_sge = 2;
	assert_int_equal(softrdma_post_srq_recv(srq, wr, &bad_wr), EINVAL);
	assert_ptr_equal(bad_wr, &wr[1]);
	assert_int_equal(softrdma_srq_of(srq)->queue.count, 1);
	assert_int_equal(softrdma_post_srq_recv(srq, NULL, &bad_wr), 0);

	softrdma_srq_of(srq)->users = 1;
	assert_int_equal(softrdma_ibv_destroy_srq(srq), EBUSY);
	softrdma_srq_of(srq)->users = 0;
	assert_int_equal(softrdma_ibv_destroy_srq(srq), 0);
}

static void
test_shared_queue_without_memory(void **state)
{
	(void)state;
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	for (unsigned skip = 0; skip < 2; skip++) {
		fail_call(FAIL_MINE, "calloc", skip, 1, ENOMEM);
		assert_null(softrdma_ibv_create_srq(pd, &attr));
		assert_int_equal(errno, ENOMEM);
		assert_int_equal(fail_nothing(), 1);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_shared_queue),
		TEST(test_shared_queue_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
