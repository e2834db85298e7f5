/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_post.c -- posting: which requests and receives are accepted, and when
 *
 * Other tests check the effects of requests.
 */

#include "extended.h"
#include "connected.h"

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
	struct softrdma_qp *qp = softrdma_qp_new(the_pd, &attr, &softrdma_managed_qp, 0);
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
	struct ibv_qp_init_attr_ex attr = qp_attr();
	attr.sq_sig_all = 1;
	pair_init_as(&p, attr, 7);
	struct ibv_send_wr wr = { .wr_id = 5, .opcode = IBV_WR_RDMA_WRITE }, *bad;
	assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	assert_int_equal(next_wc().wr_id, 5);
	pair_fini(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_not_connected),
		device_test(test_send_arguments),
		device_test(test_each_opcode),
		device_test(test_posted_one_by_one),
		device_test(test_full_queue),
		device_test(test_too_long),
		device_test(test_signals_all),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
