/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_cq_ex.c -- extended completion queues, by the inline functions of the verbs headers */

#include "connected.h"

#define ALL_FIELDS IBV_WC_STANDARD_FLAGS

static struct ibv_poll_cq_attr no_attr;

static struct ibv_cq_ex *
new_cq_ex(uint64_t wc_flags)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 3, .cq_context = the_mem, .wc_flags = wc_flags };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(softrdma_context(), &attr);
	assert_non_null(cq);
	return cq;
}

static void
destroy_cq_ex(struct ibv_cq_ex *cq)
{
	assert_int_equal(softrdma_ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static bool
push(struct ibv_cq_ex *cq, uint64_t wr_id)
{
	const struct ibv_wc wc = { .wr_id = wr_id,
		.status = IBV_WC_REM_OP_ERR,
		.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
		.vendor_err = 2,
		.byte_len = 3,
		.imm_data = 4,
		.qp_num = 5,
		.src_qp = 6,
		.wc_flags = IBV_WC_WITH_IMM,
		.slid = 8,
		.sl = 9,
		.dlid_path_bits = 10 };
	return softrdma_cq_push(softrdma_cq_of(ibv_cq_ex_to_cq(cq)), &wc, false);
}

static void
test_arguments(void **state)
{
	(void)state;
	const struct ibv_cq_init_attr_ex good = { .cqe = 3, .wc_flags = ALL_FIELDS };
	struct {
		struct ibv_cq_init_attr_ex attr;
		int error;
	} bad[12] = { { good, 0 } };
	unsigned n = 0;
#define BAD(field, value, errnum) \
	bad[n].attr = good; \
	bad[n].attr.field = value; \
	bad[n++].error = errnum
	BAD(cqe, 0, EINVAL);
	BAD(cqe, SOFTRDMA_CQE_MAX + 1, EINVAL);
	BAD(cqe, UINT32_MAX, EINVAL);
	BAD(comp_vector, 1, EINVAL);
	BAD(wc_flags, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, EOPNOTSUPP);
	BAD(wc_flags, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, EOPNOTSUPP);
	BAD(wc_flags, IBV_WC_EX_WITH_CVLAN, EOPNOTSUPP);
	BAD(wc_flags, 1ULL << 40, EOPNOTSUPP);
	BAD(comp_mask, IBV_CQ_INIT_ATTR_MASK_PD, EINVAL);
	BAD(comp_mask, IBV_CQ_INIT_ATTR_MASK_PD, EINVAL);
	bad[n - 1].attr.parent_domain = the_pd; /* it is not a parent domain */
	BAD(comp_mask, 1 << 2, EOPNOTSUPP);
	BAD(comp_mask, IBV_CQ_INIT_ATTR_MASK_FLAGS, EOPNOTSUPP);
	bad[n - 1].attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	for (unsigned i = 0; i < n; i++) {
		errno = 0;
		assert_null(ibv_create_cq_ex(softrdma_context(), &bad[i].attr));
		assert_int_equal(errno, bad[i].error);
	}
	struct ibv_cq_init_attr_ex attr = good;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	struct ibv_cq_ex *cq = ibv_create_cq_ex(softrdma_context(), &attr);
	assert_non_null(cq);
	destroy_cq_ex(cq);
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_null(ibv_create_cq_ex(softrdma_context(), &attr));
	assert_int_equal(errno, ENOMEM);
	fail_nothing();
}

static void
test_fields(void **state)
{
	(void)state;
	struct ibv_cq_ex *cq = new_cq_ex(ALL_FIELDS);
	assert_ptr_equal(cq->cq_context, the_mem);
	assert_int_equal(cq->cqe, 3);
	assert_true(push(cq, 1));
	assert_int_equal(ibv_start_poll(cq, &no_attr), 0);
	assert_int_equal(cq->wr_id, 1);
	assert_int_equal(cq->status, IBV_WC_REM_OP_ERR);
	assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(ibv_wc_read_vendor_err(cq), 2);
	assert_int_equal(ibv_wc_read_byte_len(cq), 3);
	assert_int_equal(ibv_wc_read_imm_data(cq), 4);
	assert_int_equal(ibv_wc_read_qp_num(cq), 5);
	assert_int_equal(ibv_wc_read_src_qp(cq), 6);
	assert_int_equal(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM);
	assert_int_equal(ibv_wc_read_slid(cq), 8);
	assert_int_equal(ibv_wc_read_sl(cq), 9);
	assert_int_equal(ibv_wc_read_dlid_path_bits(cq), 10);
	ibv_end_poll(cq);
	destroy_cq_ex(cq);
}

/* fields that were not requested are missing, each by itself */
static void
test_not_asked_for(void **state)
{
	(void)state;
	struct ibv_cq_ex *cq = new_cq_ex(0);
	assert_non_null(cq->read_opcode);
	assert_non_null(cq->read_vendor_err);
	assert_non_null(cq->read_wc_flags);
	assert_null(cq->read_byte_len);
	assert_null(cq->read_imm_data);
	assert_null(cq->read_qp_num);
	assert_null(cq->read_src_qp);
	assert_null(cq->read_slid);
	assert_null(cq->read_sl);
	assert_null(cq->read_dlid_path_bits);
	assert_null(cq->read_completion_ts);
	assert_null(cq->read_completion_wallclock_ns);
	destroy_cq_ex(cq);
	cq = new_cq_ex(IBV_WC_EX_WITH_IMM);
	assert_non_null(cq->read_imm_data);
	assert_null(cq->read_byte_len);
	destroy_cq_ex(cq);
}

/* in order, even mixed with plain polling; a start that finds no completion leaves the queue unlocked */
static void
test_order(void **state)
{
	(void)state;
	struct ibv_cq_ex *cq = new_cq_ex(ALL_FIELDS);
	struct ibv_poll_cq_attr unknown = { .comp_mask = 1 };
	assert_int_equal(ibv_start_poll(cq, &no_attr), ENOENT);
	assert_int_equal(ibv_start_poll(cq, &no_attr), ENOENT);
	for (uint64_t i = 1; i <= 3; i++)
		assert_true(push(cq, i));
	assert_int_equal(ibv_start_poll(cq, &unknown), EINVAL);
	assert_int_equal(ibv_start_poll(cq, &no_attr), 0);
	assert_int_equal(cq->wr_id, 1);
	assert_int_equal(ibv_next_poll(cq), 0);
	assert_int_equal(cq->wr_id, 2);
	struct ibv_wc wc;
	assert_int_equal(ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc), 1);
	assert_int_equal(wc.wr_id, 3);
	assert_int_equal(cq->wr_id, 2);
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);

	for (uint64_t i = 4; i <= 7; i++)
		assert_int_equal(push(cq, i), i < 7);
	assert_int_equal(ibv_start_poll(cq, &no_attr), 0);
	assert_int_equal(cq->wr_id, 4);
	assert_int_equal(ibv_next_poll(cq), 0);
	assert_int_equal(ibv_next_poll(cq), 0);
	assert_int_equal(cq->wr_id, 6);
	assert_int_equal(ibv_next_poll(cq), EIO); /* overrun */
	ibv_end_poll(cq);
	assert_int_equal(ibv_start_poll(cq, &no_attr), EIO);
	destroy_cq_ex(cq);
}

static void *
poll_many(void *arg)
{
	struct ibv_cq_ex *cq = arg;
	unsigned found = 0;
	while (found < 1000) {
		if (ibv_start_poll(cq, &no_attr)) {
			sched_yield();
			continue;
		}
		uint64_t wr_id = cq->wr_id;
		sched_yield();
		assert_int_equal(cq->wr_id, wr_id); /* no other poller may take it meanwhile */
		found++;
		ibv_end_poll(cq);
	}
	return NULL;
}

static void
test_threads(void **state)
{
	(void)state;
	struct ibv_cq_ex *cq = new_cq_ex(0);
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, poll_many, cq), 0);
	struct softrdma_cq *soft = softrdma_cq_of(ibv_cq_ex_to_cq(cq));
	for (uint64_t i = 0; i < 2000; i++) {
		while (atomic_load(&soft->count) == 3)
			sched_yield();
		assert_true(push(cq, i));
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	destroy_cq_ex(cq);
}

static void
test_modify(void **state)
{
	(void)state;
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE };
	assert_int_equal(ibv_modify_cq(the_cq, &attr), 0);
	attr.moderate.cq_count = 1;
	assert_int_equal(ibv_modify_cq(the_cq, &attr), 0);
	attr.moderate.cq_count = 2;
	assert_int_equal(ibv_modify_cq(the_cq, &attr), EOPNOTSUPP);
	attr.moderate.cq_count = 0;
	attr.moderate.cq_period = 1;
	assert_int_equal(ibv_modify_cq(the_cq, &attr), EOPNOTSUPP);
	attr.attr_mask = 0;
	assert_int_equal(ibv_modify_cq(the_cq, &attr), EINVAL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_arguments),
		device_test(test_fields),
		device_test(test_not_asked_for),
		device_test(test_order),
		device_test(test_threads),
		device_test(test_modify),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
