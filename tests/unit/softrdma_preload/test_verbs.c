/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_verbs.c -- libibverbs' names for the device's functions */

#include "two_sides.h"

static char the_mem[4096];

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

static void
test_regions(void **state)
{
	(void)state;
	struct ibv_pd *pd = ibv_alloc_pd(softrdma_preload_context());
	const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_mr *mr = ibv_reg_mr(pd, the_mem, sizeof(the_mem), rights);
	assert_non_null(mr);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = sizeof(the_mem), .lkey = mr->lkey };
	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
	/* unknown optional rights are ignored, other unknown rights are refused */
	mr = ibv_reg_mr(pd, the_mem, sizeof(the_mem), rights | 1 << 29);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null(ibv_reg_mr(pd, the_mem, sizeof(the_mem), rights | 1 << 19));
	assert_int_equal(errno, EINVAL);
	/* addresses cannot be mapped to other ones */
	mr = ibv_reg_mr_iova(pd, the_mem, sizeof(the_mem), (uintptr_t)the_mem, rights);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null(ibv_reg_mr_iova2(pd, the_mem, sizeof(the_mem), 0, (unsigned)rights));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* The basic attributes of a queue pair end before the extended ones begin, whatever is in the padding. */
static void
test_queue_pairs(void **state)
{
	(void)state;
	struct ibv_context *context = softrdma_preload_context();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	int cookie;
	struct ibv_cq *cq = ibv_create_cq(context, 8, &cookie, channel, 0);
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	struct ibv_qp_init_attr attr;
	memset(&attr, 0xff, sizeof(attr));
	struct ibv_qp_init_attr wanted = { .qp_context = &cookie,
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = { .max_send_wr = 4, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1 };
	memcpy(&attr, &wanted, SOFTRDMA_PLAIN_QP_ATTR_SIZE);
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);
	assert_non_null(qp);
	assert_ptr_equal(qp->pd, pd);
	assert_non_null(ibv_qp_to_qp_ex(qp));
	struct ibv_qp_attr is;
	assert_int_equal(ibv_query_qp(qp, &is, IBV_QP_STATE, &wanted), 0);
	assert_ptr_equal(wanted.srq, srq);
	assert_int_equal(wanted.sq_sig_all, 1);
	assert_int_equal(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0), 0);

	/* an event: the queue pair fails while a receive is posted */
	struct ibv_qp_attr failed = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	const int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	assert_int_equal(qp->state, IBV_QPS_RESET); /* to be connected without the connection manager */
	assert_int_equal(ibv_modify_qp(qp, &init, init_mask), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(ibv_modify_qp(qp, &failed, IBV_QP_STATE), 0);
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_SEND }, *bad;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	struct ibv_cq *of = NULL;
	void *got = NULL;
	assert_int_equal(ibv_get_cq_event(channel, &of, &got), 0);
	assert_ptr_equal(of, cq);
	assert_ptr_equal(got, &cookie);
	ibv_ack_cq_events(cq, 1);

	attr.qp_type = IBV_QPT_UC;
	assert_null(ibv_create_qp(pd, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	/* in the wrong order no object is destroyed */
	assert_int_equal(ibv_destroy_cq(cq), EBUSY);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_destroy_comp_channel(channel), EBUSY);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void
test_address_handles(void **state)
{
	(void)state;
	struct ibv_context *context = softrdma_preload_context();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	assert_int_equal(ibv_query_gid(context, 1, 0, &attr.grh.dgid), 0);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	assert_non_null(ah);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_ah(ah), 0);

	/* of a datagram from this GID to itself */
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	struct ibv_grh grh = { .version_tclass_flow = htonl(6u << 28),
		.sgid = attr.grh.dgid,
		.dgid = attr.grh.dgid };
	assert_int_equal(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr), 0);
	ah = ibv_create_ah_from_wc(pd, &wc, &grh, 1);
	assert_non_null(ah);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_regions),
		cmocka_unit_test(test_queue_pairs),
		cmocka_unit_test(test_address_handles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
