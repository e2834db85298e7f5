/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_qp.c -- queue pairs: what creating, modifying and querying accept in each state
 */

#include "connected.h"

/* --- creating --- */

static struct softrdma_qp *
create(struct ibv_qp_init_attr_ex *attr)
{
	return softrdma_qp_new(the_pd, attr, &softrdma_managed_qp, 0);
}

static void
refuse(struct ibv_qp_init_attr_ex *attr, int error)
{
	errno = 0;
	assert_null(create(attr));
	assert_int_equal(errno, error);
}

static void
test_create_arguments(void **state)
{
	(void)state;
#define REFUSED(member, value, error) \
	do { \
		struct ibv_qp_init_attr_ex attr_ = qp_attr(); \
		attr_.member = value; \
		refuse(&attr_, error); \
	} while (0)
	REFUSED(qp_type, IBV_QPT_UD, EOPNOTSUPP);
	REFUSED(send_cq, NULL, EINVAL);
	REFUSED(recv_cq, NULL, EINVAL);
	REFUSED(cap.max_send_wr, SOFTRDMA_WR_MAX + 1, EINVAL);
	REFUSED(cap.max_recv_wr, SOFTRDMA_WR_MAX + 1, EINVAL);
	REFUSED(cap.max_send_sge, SOFTRDMA_SGE_MAX + 1, EINVAL);
	REFUSED(cap.max_recv_sge, SOFTRDMA_SGE_MAX + 1, EINVAL);
	REFUSED(cap.max_inline_data, SOFTRDMA_INLINE_MAX + 1, EINVAL);

	/* all limits at once, and all of them 0 */
	struct ibv_qp_init_attr_ex attr = qp_attr();
	attr.cap = (struct ibv_qp_cap){ SOFTRDMA_WR_MAX, SOFTRDMA_WR_MAX, SOFTRDMA_SGE_MAX, SOFTRDMA_SGE_MAX,
		SOFTRDMA_INLINE_MAX };
	struct softrdma_qp *qp = create(&attr);
	assert_non_null(qp);
	softrdma_qp_delete(qp);
	attr.cap = (struct ibv_qp_cap){ 0 };
	qp = create(&attr);
	assert_non_null(qp);
	softrdma_qp_delete(qp);
}

/* fails each call of this name in turn, until a queue pair is made; returns how many there are */
static unsigned
create_without(const char *call, struct ibv_qp_init_attr_ex *attr)
{
	for (unsigned skip = 0;; skip++) {
		fail_call(FAIL_MINE, call, skip, 1, ENOMEM);
		struct softrdma_qp *qp = create(attr);
		if (fail_nothing() == 0) {
			assert_non_null(qp);
			softrdma_qp_delete(qp);
			return skip;
		}
		assert_null(qp);
		assert_int_equal(errno, ENOMEM);
	}
}

/* every allocation and random number that can fail, with one completion queue and with two */
static void
test_create_fails(void **state)
{
	(void)state;
	struct ibv_cq *other = softrdma_ibv_create_cq(softrdma_context(), 4, NULL, NULL, 0);
	for (int two = 0; two < 2; two++) {
		struct ibv_qp_init_attr_ex attr = qp_attr();
		if (two)
			attr.recv_cq = other;
		assert_int_equal(create_without("malloc", &attr), 1);
		assert_int_equal(create_without("calloc", &attr), 4);
	}
	struct ibv_qp_init_attr_ex attr = qp_attr();
	random_error = EIO;
	refuse(&attr, EIO);
	random_error = 0;
	assert_int_equal(softrdma_ibv_destroy_cq(other), 0);

	/* a new completion queue has no memory for a link yet, so it allocates some */
	for (unsigned skip = 0; skip < 2; skip++) {
		attr.send_cq = softrdma_ibv_create_cq(softrdma_context(), 4, NULL, NULL, 0);
		attr.recv_cq = softrdma_ibv_create_cq(softrdma_context(), 4, NULL, NULL, 0);
		fail_call(FAIL_MINE, "realloc", skip, 1, ENOMEM);
		refuse(&attr, ENOMEM);
		assert_int_equal(fail_nothing(), 1);
		assert_int_equal(softrdma_ibv_destroy_cq(attr.send_cq), 0);
		assert_int_equal(softrdma_ibv_destroy_cq(attr.recv_cq), 0);
	}
}

static uint32_t numbers[4];
static unsigned numbers_at;

static int
planned_random(void *buf, size_t len)
{
	assert_int_equal(len, 4);
	memcpy(buf, &numbers[numbers_at++ % 4], 4);
	return 0;
}

/* numbers have 24 bits, and are not 0, 1 or in use */
static void
test_numbers(void **state)
{
	(void)state;
	static const struct softrdma_env planned = { .random = planned_random },
					 usual = { .random = counted_random };
	struct ibv_qp_init_attr_ex attr = qp_attr();
	softrdma_set_env(&planned);
	numbers[0] = 0xff000000;
	numbers[1] = 0xff000001;
	numbers[2] = 0xff000002;
	numbers[3] = 7; /* the first sequence number */
	struct softrdma_qp *first = create(&attr);
	assert_int_equal(first->qp.qp_num, 2);
	assert_int_equal(first->link->seq, 7);
	numbers_at = 0;
	numbers[0] = 0xaa000002; /* in use */
	numbers[1] = 0xaa000003;
	struct softrdma_qp *second = create(&attr);
	assert_int_equal(second->qp.qp_num, 3);
	softrdma_set_env(&usual);
	softrdma_qp_delete(first);
	softrdma_qp_delete(second);
}

/*
 * A shared receive queue and a protection domain cannot be destroyed while a queue pair uses them, even if it
 * has its own receive queue.
 */
static void
test_uses(void **state)
{
	(void)state;
	struct ibv_pd *pd = softrdma_ibv_alloc_pd(softrdma_context());
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = softrdma_ibv_create_srq(pd, &srq_attr);
	struct ibv_cq *recv_cq = softrdma_ibv_create_cq(softrdma_context(), 4, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex attr = qp_attr();
	attr.srq = srq;
	attr.recv_cq = recv_cq;
	struct softrdma_qp *qp = softrdma_qp_new(pd, &attr, &softrdma_managed_qp, 0);
	assert_non_null(qp);
	assert_int_equal(softrdma_ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(softrdma_ibv_destroy_cq(recv_cq), EBUSY);
	assert_int_equal(softrdma_ibv_dealloc_pd(pd), EBUSY);

	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad = NULL;
	assert_int_equal(ibv_post_recv(&qp->qp, &wr, &bad), EINVAL); /* it has a shared queue */
	assert_ptr_equal(bad, &wr);
	softrdma_qp_delete(qp);
	assert_int_equal(softrdma_ibv_destroy_srq(srq), 0);
	assert_int_equal(softrdma_ibv_destroy_cq(recv_cq), 0);
	assert_int_equal(softrdma_ibv_dealloc_pd(pd), 0);
}

/* --- modifying and querying --- */

static void
test_modify(void **state)
{
	(void)state;
	struct ibv_qp_init_attr_ex init = qp_attr();
	struct softrdma_qp *qp = create(&init);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	assert_int_equal(softrdma_ibv_modify_qp(&qp->qp, &attr, IBV_QP_STATE), EOPNOTSUPP);
	attr.qp_state = IBV_QPS_ERR;
	assert_int_equal(softrdma_ibv_modify_qp(&qp->qp, &attr, IBV_QP_STATE | IBV_QP_PORT), EOPNOTSUPP);
	assert_int_equal(softrdma_ibv_modify_qp(&qp->qp, &attr, IBV_QP_MIN_RNR_TIMER), 0);
	assert_int_equal(qp->qp.state, IBV_QPS_INIT);
	assert_int_equal(softrdma_ibv_modify_qp(&qp->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(softrdma_ibv_modify_qp(&qp->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(qp->qp.state, IBV_QPS_ERR);
	softrdma_qp_delete(qp);
}

static void
test_query(void **state)
{
	(void)state;
	struct ibv_qp_init_attr_ex wanted = qp_attr();
	wanted.qp_context = the_mem;
	wanted.sq_sig_all = 1;
	struct softrdma_qp *qp = create(&wanted);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	assert_int_equal(softrdma_ibv_query_qp(&qp->qp, &attr, 0, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_INIT);
	assert_int_equal(attr.cur_qp_state, IBV_QPS_INIT);
	assert_int_equal(attr.port_num, 1);
	assert_memory_equal(&attr.cap, &wanted.cap, sizeof(attr.cap));
	assert_ptr_equal(init.qp_context, the_mem);
	assert_ptr_equal(init.send_cq, the_cq);
	assert_ptr_equal(init.recv_cq, the_cq);
	assert_null(init.srq);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
	assert_int_equal(init.sq_sig_all, 1);
	assert_ptr_equal(&softrdma_ibv_qp_to_qp_ex(&qp->qp)->qp_base, &qp->qp);
	softrdma_qp_delete(qp);

	struct pair_of_ids p;
	pair_init(&p);
	assert_int_equal(softrdma_ibv_query_qp(p.active->qp, &attr, 0, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.max_rd_atomic, 4);
	assert_int_equal(attr.max_dest_rd_atomic, 4);
	pair_fini(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_create_arguments),
		device_test(test_create_fails),
		device_test(test_numbers),
		device_test(test_uses),
		device_test(test_modify),
		device_test(test_query),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
