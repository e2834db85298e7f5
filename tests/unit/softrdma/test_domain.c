/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_domain.c -- thread domains and parent domains, which stand for a protection domain */

#include "connected.h"

static struct ibv_td *
new_td(void)
{
	struct ibv_td_init_attr attr = { 0 };
	struct ibv_td *td = ibv_alloc_td(softrdma_context(), &attr);
	assert_non_null(td);
	assert_ptr_equal(td->context, softrdma_context());
	return td;
}

static struct ibv_pd *
new_parent(struct ibv_pd *pd, struct ibv_td *td)
{
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .td = td };
	struct ibv_pd *parent = ibv_alloc_parent_domain(softrdma_context(), &attr);
	assert_non_null(parent);
	assert_ptr_not_equal(parent, pd);
	return parent;
}

static void
test_thread_domain(void **state)
{
	(void)state;
	struct ibv_td_init_attr attr = { .comp_mask = 1 };
	assert_null(ibv_alloc_td(softrdma_context(), &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.comp_mask = 0;
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_null(ibv_alloc_td(softrdma_context(), &attr));
	assert_int_equal(errno, ENOMEM);
	fail_nothing();

	struct ibv_td *td = new_td();
	struct ibv_pd *parents[2] = { new_parent(the_pd, td), new_parent(the_pd, td) };
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_dealloc_td(td), EBUSY);
		assert_int_equal(softrdma_ibv_dealloc_pd(parents[i]), 0);
	}
	assert_int_equal(ibv_dealloc_td(td), 0);
}

static void
test_bad_parent_domain(void **state)
{
	(void)state;
	struct ibv_pd *parent = new_parent(the_pd, NULL);
	struct ibv_parent_domain_init_attr bad[] = {
		{ .pd = NULL },
		{ .pd = parent },
		{ .pd = the_pd, .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS },
	};
	const int errors[] = { EINVAL, EINVAL, EOPNOTSUPP };
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		assert_null(ibv_alloc_parent_domain(softrdma_context(), &bad[i]));
		assert_int_equal(errno, errors[i]);
	}
	struct ibv_parent_domain_init_attr good = { .pd = the_pd };
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_null(ibv_alloc_parent_domain(softrdma_context(), &good));
	assert_int_equal(errno, ENOMEM);
	fail_nothing();
	assert_int_equal(softrdma_ibv_dealloc_pd(parent), 0);
}

/* objects made from a parent domain keep it, and it keeps its protection domain */
static void
test_users(void **state)
{
	(void)state;
	char mem[16];
	struct ibv_pd *pd = softrdma_ibv_alloc_pd(softrdma_context());
	struct ibv_pd *parent = new_parent(pd, NULL);
	assert_int_equal(softrdma_ibv_dealloc_pd(pd), EBUSY);

	struct ibv_mr *mr = softrdma_ibv_reg_mr(parent, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_ptr_equal(mr->pd, parent);
	assert_int_equal(softrdma_ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);

	struct ibv_cq_init_attr_ex attr = { .cqe = 1,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = parent };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(softrdma_context(), &attr);
	assert_non_null(cq);
	assert_int_equal(softrdma_ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(softrdma_ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);

	assert_int_equal(softrdma_ibv_dealloc_pd(parent), 0);
	assert_int_equal(softrdma_ibv_dealloc_pd(pd), 0);
}

/*
 * queue pairs of a protection domain and of its parent domain may use the regions of both, and of no other
 * domain
 */
static void
test_keys(void **state)
{
	(void)state;
	static char near[64], far[64];
	const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_pd *pd = the_pd;
	struct ibv_pd *parent = new_parent(pd, NULL), *other = softrdma_ibv_alloc_pd(softrdma_context());
	struct ibv_mr *near_mr = softrdma_ibv_reg_mr(pd, near, sizeof(near), rights);
	struct ibv_mr *far_mr = softrdma_ibv_reg_mr(parent, far, sizeof(far), rights);
	struct ibv_mr *foreign = softrdma_ibv_reg_mr(other, far, sizeof(far), rights);
	struct pair_of_ids p;
	the_pd = parent; /* of the queue pairs that follow */
	pair_init(&p);
	the_pd = pd;
	assert_ptr_equal(p.active->qp->pd, parent);

	memcpy(near, "of both", 8);
	struct ibv_sge sge = { .addr = (uintptr_t)near, .length = 8, .lkey = near_mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)far, .rkey = far_mr->rkey } };
	struct ibv_send_wr *bad_wr;
	assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad_wr), 0);
	assert_int_equal(next_wc().status, IBV_WC_SUCCESS);
	assert_string_equal(far, "of both");

	memcpy(near, "foreign", 8);
	wr.wr.rdma.rkey = foreign->rkey;
	assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad_wr), 0);
	assert_int_equal(next_wc().status, IBV_WC_REM_ACCESS_ERR);
	assert_string_equal(far, "of both");

	pair_fini(&p);
	assert_int_equal(softrdma_ibv_dereg_mr(near_mr), 0);
	assert_int_equal(softrdma_ibv_dereg_mr(far_mr), 0);
	assert_int_equal(softrdma_ibv_dereg_mr(foreign), 0);
	assert_int_equal(softrdma_ibv_dealloc_pd(parent), 0);
	assert_int_equal(softrdma_ibv_dealloc_pd(other), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_thread_domain),
		device_test(test_bad_parent_domain),
		device_test(test_users),
		device_test(test_keys),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
