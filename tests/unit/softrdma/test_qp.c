/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_qp.c -- queue pairs: what creating, posting, modifying and querying accept in each state
 *
 * Other tests check the effects of requests; here it matters which requests are accepted.
 */

#include "extended.h"
#include "connected.h"

#include "softrdma/engine/links.h"

/* --- creating --- */

static struct softrdma_qp *
create(struct ibv_qp_init_attr_ex *attr)
{
	return softrdma_qp_new(the_pd, attr);
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

/* numbers whose lower bits are the same are found apart, whichever of them is given back */
static void
test_numbers_alike(void **state)
{
	(void)state;
	enum { ALIKE = 3 };
	struct ibv_qp_init_attr_ex attr = qp_attr();
	struct softrdma_qp *qps[ALIKE];
	for (int gone = 0; gone < ALIKE; gone++) {
		for (unsigned i = 0; i < ALIKE; i++) {
			qps[i] = softrdma_qp_new_by_hand(the_pd, &attr, i << 20 | 5, NULL);
			assert_non_null(qps[i]);
		}
		assert_false(softrdma_links_have_qp_num(ALIKE << 20 | 5));
		softrdma_qp_delete(qps[gone]);
		for (int i = 0; i < ALIKE; i++)
			assert_int_equal(softrdma_links_have_qp_num((uint32_t)i << 20 | 5), i != gone);
		for (int i = 0; i < ALIKE; i++)
			if (i != gone)
				softrdma_qp_delete(qps[i]);
		for (uint32_t i = 0; i < ALIKE; i++)
			assert_false(softrdma_links_have_qp_num(i << 20 | 5));
	}
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
	struct softrdma_qp *qp = softrdma_qp_new(pd, &attr);
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

/* --- posting --- */

static struct ibv_sge
sge_of(size_t len)
{
	return (struct ibv_sge){ .addr = (uintptr_t)the_mem, .length = (uint32_t)len, .lkey = the_mr->lkey };
}

static void
refuse_send(struct ibv_qp *qp, struct ibv_send_wr *wr, int error)
{
	struct ibv_send_wr *bad = NULL;
	assert_int_equal(ibv_post_send(qp, wr, &bad), error);
	assert_ptr_equal(bad, wr);
}

static void
expect_flushed(uint64_t wr_id)
{
	struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

static void
expect_nothing(void)
{
	struct ibv_wc wc;
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
}

/* before it is connected, receives may be posted, but not requests */
static void
test_not_connected(void **state)
{
	(void)state;
	struct ibv_qp_init_attr_ex attr = qp_attr();
	struct softrdma_qp *qp = create(&attr);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .wr_id = 1 };
	refuse_send(&qp->qp, &wr, EINVAL);
	uint64_t value = 1;
	assert_int_equal(post_atomic_write(&qp->qp, 1, 0, 1, 8, &value), EINVAL);
	assert_int_equal(post_flush(&qp->qp, 1, 0, 1, 8, 8, SOFTRDMA_FLUSH_GLOBAL), EINVAL);

	struct ibv_sge sge[3] = { sge_of(1), sge_of(1), sge_of(1) };
	struct ibv_recv_wr second = { .wr_id = 3, .sg_list = sge, .num_sge = 3 };
	struct ibv_recv_wr first = { .wr_id = 2, .sg_list = sge, .num_sge = 2, .next = &second };
	struct ibv_recv_wr *bad = NULL;
	assert_int_equal(ibv_post_recv(&qp->qp, &first, &bad), EINVAL);
	assert_ptr_equal(bad, &second);

	/* the application moves it to error: posted requests are flushed, and so are later ones */
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	assert_int_equal(softrdma_ibv_modify_qp(&qp->qp, &error, IBV_QP_STATE), 0);
	expect_flushed(2);
	second.num_sge = 1;
	assert_int_equal(ibv_post_recv(&qp->qp, &second, &bad), 0);
	expect_flushed(3);
	wr.send_flags = 0; /* unsignaled too: in error every request has a completion */
	struct ibv_send_wr *bad_send;
	assert_int_equal(ibv_post_send(&qp->qp, &wr, &bad_send), 0);
	expect_flushed(1);
	expect_nothing();
	softrdma_qp_delete(qp);
}

static void
test_send_arguments(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct ibv_qp *qp = p.active->qp;
	struct ibv_sge sge[3] = { sge_of(40), sge_of(25), sge_of(0) };
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .sg_list = sge, .num_sge = 3 };

	refuse_send(qp, &wr, EINVAL); /* more SGEs than the queue pair was created for */
	wr.num_sge = -1;
	refuse_send(qp, &wr, EINVAL);
	wr.num_sge = 2;
	wr.send_flags = IBV_SEND_INLINE;
	refuse_send(qp, &wr, EINVAL); /* 65 bytes; the maximum is 64 */
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_READ;
	refuse_send(qp, &wr, EINVAL); /* without memory for the result */
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	refuse_send(qp, &wr, EINVAL);
	wr.send_flags = 0;
	sge[0].length = 7;
	refuse_send(qp, &wr, EINVAL);
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	refuse_send(qp, &wr, EINVAL);
	wr.opcode = IBV_WR_LOCAL_INV;
	refuse_send(qp, &wr, EOPNOTSUPP);
	expect_nothing();

	uint8_t both = SOFTRDMA_FLUSH_GLOBAL | SOFTRDMA_FLUSH_PERSISTENT;
	assert_int_equal(post_flush(qp, 1, 0, the_mr->rkey, 0, 0, both), EINVAL);
	assert_int_equal(post_flush(qp, 1, 0, the_mr->rkey, 0, 0, 0), EINVAL);

	/* the first request of a list is accepted, the second is not and is returned */
	struct ibv_send_wr good = { .wr_id = 9,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.next = &wr };
	struct ibv_send_wr *bad = NULL;
	assert_int_equal(ibv_post_send(qp, &good, &bad), EOPNOTSUPP);
	assert_ptr_equal(bad, &wr);
	struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, 9);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	pair_fini(&p);
}

/* one of each accepted kind, and its completion */
static void
test_each_opcode(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct ibv_qp *qp = p.active->qp;
	struct ibv_sge sge[2] = { sge_of(8), sge_of(0) };
	/* not at the source, which would be written while the socket may still read it */
	struct ibv_sge recv_sge = { .addr = (uintptr_t)the_mem + 128, .length = 8, .lkey = the_mr->lkey };
	struct ibv_recv_wr recv_wr = { .wr_id = 100, .sg_list = &recv_sge, .num_sge = 1 }, *bad_recv;
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		struct ibv_send_wr wr = { .wr_id = 1 + i,
			.opcode = opcodes[i],
			.sg_list = sge,
			.num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE | IBV_SEND_SOLICITED };
		struct ibv_send_wr *bad;
		bool atomic = opcodes[i] >= IBV_WR_ATOMIC_CMP_AND_SWP;
		if (opcodes[i] <= IBV_WR_RDMA_WRITE_WITH_IMM) {
			wr.send_flags |= IBV_SEND_INLINE;
			wr.num_sge = 2;
		}
		if (atomic) {
			wr.wr.atomic.remote_addr = (uintptr_t)the_mem + 64;
			wr.wr.atomic.rkey = the_mr->rkey;
		} else {
			wr.wr.rdma.remote_addr = (uintptr_t)the_mem + 64;
			wr.wr.rdma.rkey = the_mr->rkey;
		}
		bool receives = opcodes[i] == IBV_WR_SEND || opcodes[i] == IBV_WR_SEND_WITH_IMM ||
			opcodes[i] == IBV_WR_RDMA_WRITE_WITH_IMM;
		if (receives)
			assert_int_equal(ibv_post_recv(p.passive->qp, &recv_wr, &bad_recv), 0);
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
		unsigned seen = 0;
		for (int n = receives ? 2 : 1; n > 0; n--) {
			struct ibv_wc wc = next_wc();
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			seen += (unsigned)wc.wr_id;
		}
		assert_int_equal(seen, 1 + i + (receives ? 100 : 0));
	}
	uint64_t value = 0x1122334455667788u;
	uint64_t addr = (uintptr_t)the_mem + 64;
	assert_int_equal(post_atomic_write(qp, 50, IBV_SEND_SIGNALED, the_mr->rkey, addr, &value), 0);
	assert_int_equal(next_wc().wr_id, 50);
	assert_memory_equal(the_mem + 64, &value, 8);
	assert_int_equal(post_flush(qp, 51, IBV_SEND_SIGNALED, the_mr->rkey, addr, 8, SOFTRDMA_FLUSH_GLOBAL),
		0);
	struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, 51);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	pair_fini(&p);
}

#define WRITES 60

/*
 * Writes that are posted one by one leave together when responses come. Nothing waits for the program: it never polls, and
 * all of them arrive.
 */
static void
test_posted_one_by_one(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init_depth(&p, WRITES);
	unsigned char *to = the_mem + 4096;
	memset(to, 0, WRITES);
	for (unsigned i = 0; i < WRITES; i++) {
		the_mem[i] = (unsigned char)(i + 1);
		struct ibv_sge sge = { .addr = (uintptr_t)&the_mem[i], .length = 1, .lkey = the_mr->lkey };
		struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 }, *bad;
		wr.wr.rdma.remote_addr = (uintptr_t)&to[i];
		wr.wr.rdma.rkey = the_mr->rkey;
		assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	}
	wait_until(__atomic_load_n(&to[WRITES - 1], __ATOMIC_ACQUIRE) == WRITES);
	assert_memory_equal(to, the_mem, WRITES);
	expect_nothing();
	pair_fini(&p);
}

/* the peer has posted no receive, so the queue stays full */
static void
test_full_queue(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND }, *bad;
	for (int i = 0; i < 8; i++)
		assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	refuse_send(p.active->qp, &wr, ENOMEM);
	uint64_t value = 0;
	assert_int_equal(post_atomic_write(p.active->qp, 2, 0, 1, 8, &value), ENOMEM);
	pair_fini(&p);
	expect_nothing(); /* destroying a queue pair discards its requests */
}

/* longer than any message: a completion reports it, as on hardware, and the connection fails */
static void
test_too_long(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct ibv_sge sge[2] = { sge_of(SOFTRDMA_MSG_MAX), sge_of(1) };
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 2 }, *bad;
	assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.status, IBV_WC_LOC_LEN_ERR);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	assert_int_equal(softrdma_ibv_query_qp(p.active->qp, &attr, 0, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_ERR);
	pair_fini(&p);
}

static void
test_signals_all(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	softrdma_qp_of(p.active->qp)->sq_sig_all = true;
	struct ibv_send_wr wr = { .wr_id = 5, .opcode = IBV_WR_RDMA_WRITE }, *bad;
	assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	assert_int_equal(next_wc().wr_id, 5);
	pair_fini(&p);
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
		device_test(test_numbers_alike),
		device_test(test_uses),
		device_test(test_not_connected),
		device_test(test_send_arguments),
		device_test(test_each_opcode),
		device_test(test_posted_one_by_one),
		device_test(test_full_queue),
		device_test(test_too_long),
		device_test(test_signals_all),
		device_test(test_modify),
		device_test(test_query),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
