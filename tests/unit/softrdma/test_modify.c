/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_modify.c -- queue pairs that applications create, move through their states, and query */

#include "by_hand.h"
#include "softrdma/verbs/completion.h"
#include "softrdma/verbs/srq.h"

/* --- creating --- */

static void
test_create(void **state)
{
	(void)state;
	struct ibv_qp_init_attr init = { .qp_context = the_mem,
		.qp_type = IBV_QPT_RC,
		.send_cq = the_cq,
		.recv_cq = the_cq,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 3, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 2 } };
	struct ibv_qp *qp = softrdma_ibv_create_qp(the_pd, &init);
	assert_non_null(qp);
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_ptr_equal(qp->qp_context, the_mem);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr got;
	assert_int_equal(softrdma_ibv_query_qp(qp, &attr, IBV_QP_STATE, &got), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RESET);
	assert_int_equal(got.sq_sig_all, 1);
	assert_memory_equal(&got.cap, &init.cap, sizeof(got.cap));
	assert_int_equal(init.cap.max_send_wr, 4); /* the granted values */
	assert_int_equal(init.cap.max_inline_data, 64);
	assert_int_equal(init.cap.max_recv_wr, 4);
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
	init.cap.max_send_wr = SOFTRDMA_WR_MAX;
	init.cap.max_inline_data = 65;
	qp = softrdma_ibv_create_qp(the_pd, &init);
	assert_non_null(qp);
	assert_int_equal(init.cap.max_send_wr, SOFTRDMA_WR_MAX);
	assert_int_equal(init.cap.max_inline_data, 65);
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
	init.cap.max_send_wr = 0;
	qp = softrdma_ibv_create_qp(the_pd, &init);
	assert_non_null(qp);
	assert_int_equal(init.cap.max_send_wr, 0);
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
	init.cap.max_send_wr = 1;
	init.qp_type = IBV_QPT_UC;
	assert_null(softrdma_ibv_create_qp(the_pd, &init));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* by the inline function, which reaches the device through its context */
static void
test_create_ex(void **state)
{
	(void)state;
	struct ibv_qp_init_attr_ex good = qp_attr();
	good.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	good.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | 1 << 11 | 1 << 12;
	struct ibv_qp *qp = ibv_create_qp_ex(softrdma_context(), &good);
	assert_non_null(qp);
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);

	struct ibv_qp_init_attr_ex bad = good;
	bad.send_ops_flags |= IBV_QP_EX_WITH_BIND_MW;
	assert_null(ibv_create_qp_ex(softrdma_context(), &bad));
	assert_int_equal(errno, EOPNOTSUPP);
	bad = good;
	bad.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	qp = ibv_create_qp_ex(softrdma_context(), &bad); /* without any of the flags */
	assert_non_null(qp);
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
	bad.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	assert_null(ibv_create_qp_ex(softrdma_context(), &bad));
	assert_int_equal(errno, EOPNOTSUPP);
	bad = good;
	bad.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH;
	assert_null(ibv_create_qp_ex(softrdma_context(), &bad));
	assert_int_equal(errno, EOPNOTSUPP);
	bad = good;
	bad.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	assert_null(ibv_create_qp_ex(softrdma_context(), &bad));
	assert_int_equal(errno, EINVAL);
	struct ibv_pd foreign = { .context = NULL };
	bad = good;
	bad.pd = &foreign;
	assert_null(ibv_create_qp_ex(softrdma_context(), &bad));
	assert_int_equal(errno, EINVAL);
	bad = good;
	bad.qp_type = IBV_QPT_UC;
	assert_null(ibv_create_qp_ex(softrdma_context(), &bad));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void
test_create_fails(void **state)
{
	(void)state;
	struct ibv_qp_init_attr_ex attr = qp_attr();
	for (unsigned skip = 0;; skip++) {
		fail_call(FAIL_MINE, "calloc", skip, 1, ENOMEM);
		struct ibv_qp *qp = softrdma_ibv_create_qp_ex(softrdma_context(), &attr);
		if (fail_nothing() == 0) {
			assert_true(skip > 4);
			assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
			break;
		}
		assert_null(qp);
		assert_int_equal(errno, ENOMEM);
	}
	random_error = EIO;
	assert_null(softrdma_ibv_create_qp_ex(softrdma_context(), &attr));
	assert_int_equal(errno, EIO);
	random_error = 0;
}

static int
setup_without_port(void **state)
{
	softrdma_release_gids();
	return setup_test(state);
}

/* the number needs a port first, whose numbers are in random order */
static void
test_create_without_port(void **state)
{
	(void)state;
	struct ibv_qp_init_attr_ex attr = qp_attr();
	random_error = EIO;
	assert_null(softrdma_ibv_create_qp_ex(softrdma_context(), &attr));
	assert_int_equal(errno, EIO);
}

/*
 * A number is used once at a time. Some of these queue pairs share a slot in every table; the
 * first is destroyed first.
 */
static void
test_many(void **state)
{
	(void)state;
	enum { MANY = 1100 };
	static struct ibv_qp *qps[MANY];
	for (int i = 0; i < MANY; i++) {
		qps[i] = new_qp();
		for (int k = 0; k < i; k++)
			assert_true(qps[k]->qp_num != qps[i]->qp_num);
	}
	for (int i = 0; i < MANY; i++)
		assert_int_equal(softrdma_ibv_destroy_qp(qps[i]), 0);
	softrdma_release_gids(); /* and the ports that the numbers needed */
	assert_int_equal(open_gids(), 0);
}

/* --- masks --- */

static union ibv_gid gid;

/* a queue pair in this state; its peer does not exist */
static struct ibv_qp *
qp_in(enum ibv_qp_state state)
{
	struct ibv_qp *qp = new_qp();
	if (state != IBV_QPS_RESET)
		to_init(qp);
	if (state == IBV_QPS_RTR || state == IBV_QPS_RTS)
		to_rtr(qp, &gid, 0x123456, 1);
	if (state == IBV_QPS_RTS)
		to_rts(qp, 2);
	if (state == IBV_QPS_ERR)
		move_to(qp, IBV_QPS_ERR);
	return qp;
}

/* attributes that are valid for any transition */
static struct ibv_qp_attr
all_attr(enum ibv_qp_state from, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = rtr_attr(&gid, 0x123456, 1), rts = rts_attr(2);
	attr.qp_state = to;
	attr.cur_qp_state = from;
	attr.port_num = 1;
	attr.qp_access_flags = ALL_RIGHTS;
	attr.timeout = rts.timeout;
	attr.retry_cnt = rts.retry_cnt;
	attr.rnr_retry = rts.rnr_retry;
	attr.sq_psn = rts.sq_psn;
	attr.max_rd_atomic = rts.max_rd_atomic;
	return attr;
}

static int
try_mask(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	struct ibv_qp *qp = qp_in(from);
	struct ibv_qp_attr attr = all_attr(from, to);
	int ret = softrdma_ibv_modify_qp(qp, &attr, mask);
	enum ibv_qp_state now = locked(softrdma_qp_of(qp)->link, qp->state);
	assert_int_equal(now, ret == 0 && (mask & IBV_QP_STATE) ? to : from);
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
	return ret;
}

/* for each transition: with all required bits, without each of them, and with each bit that is not allowed */
static void
test_masks(void **state)
{
	(void)state;
	static const struct {
		enum ibv_qp_state from, to;
		int needs, may;
	} table[] = {
		{ IBV_QPS_RESET, IBV_QPS_INIT, INIT_MASK, 0 },
		{ IBV_QPS_INIT, IBV_QPS_INIT, 0,
			IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
		{ IBV_QPS_INIT, IBV_QPS_RTR, RTR_MASK, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
		{ IBV_QPS_RTR, IBV_QPS_RTS, RTS_MASK,
			IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
		{ IBV_QPS_RTS, IBV_QPS_RTS, 0,
			IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
		{ IBV_QPS_INIT, IBV_QPS_ERR, IBV_QP_STATE, 0 },
		{ IBV_QPS_RTS, IBV_QPS_RESET, IBV_QP_STATE, 0 },
		{ IBV_QPS_ERR, IBV_QPS_ERR, 0, IBV_QP_STATE },
	};
	gid = the_gid(AF_INET);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		enum ibv_qp_state from = table[i].from, to = table[i].to;
		assert_int_equal(try_mask(from, to, table[i].needs), 0);
		assert_int_equal(try_mask(from, to, table[i].needs | table[i].may), 0);
		for (int bit = 1; bit <= IBV_QP_RATE_LIMIT; bit <<= 1) {
			if (table[i].needs == bit)
				continue; /* then the call changes nothing */
			if (table[i].needs & bit) {
				/* without the state it is another transition, and still not allowed */
				assert_int_equal(try_mask(from, to, table[i].needs & ~bit), EINVAL);
			} else if (table[i].may & bit) {
				assert_int_equal(try_mask(from, to, table[i].needs | bit), 0);
			} else {
				int ret = try_mask(from, to, table[i].needs | bit);
				assert_true(ret == EINVAL || ret == EOPNOTSUPP);
			}
		}
	}
}

static void
test_transitions(void **state)
{
	(void)state;
	static const enum ibv_qp_state states[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
		IBV_QPS_ERR };
	static const int masks[] = { IBV_QP_STATE, INIT_MASK, RTR_MASK, RTS_MASK };
	gid = the_gid(AF_INET);
	for (int from = 0; from < 5; from++) {
		for (int to = 0; to < 5; to++) {
			bool is_end = states[to] == IBV_QPS_RESET ||
				(states[to] == IBV_QPS_ERR && states[from] != IBV_QPS_RESET);
			bool is_next = to == from + 1 && to < 4;
			bool is_same = to == from && (to == 1 || to == 3);
			int mask = is_end || is_same ? IBV_QP_STATE : masks[to < 4 ? to : 0];
			assert_int_equal(try_mask(states[from], states[to], mask),
				is_end || is_next || is_same ? 0 : EINVAL);
		}
	}
	assert_int_equal(try_mask(IBV_QPS_RTS, IBV_QPS_SQD, IBV_QP_STATE), EOPNOTSUPP);
	assert_int_equal(try_mask(IBV_QPS_INIT, IBV_QPS_SQD, IBV_QP_STATE), EINVAL);
	assert_int_equal(try_mask(IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_ALT_PATH), EOPNOTSUPP);
	assert_int_equal(try_mask(IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_RATE_LIMIT), EOPNOTSUPP);

	/* the current state that the program names must be right */
	struct ibv_qp *qp = qp_in(IBV_QPS_RTS);
	struct ibv_qp_attr attr = all_attr(IBV_QPS_RTR, IBV_QPS_RTS);
	assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
}

static void
test_values(void **state)
{
	(void)state;
	gid = the_gid(AF_INET);
	const struct ibv_qp_attr init = all_attr(IBV_QPS_RESET, IBV_QPS_INIT);
	const struct ibv_qp_attr rtr = all_attr(IBV_QPS_INIT, IBV_QPS_RTR);
	const struct ibv_qp_attr rts = all_attr(IBV_QPS_RTR, IBV_QPS_RTS);
	struct {
		enum ibv_qp_state from;
		struct ibv_qp_attr attr;
		int mask;
	} bad[24];
	unsigned n = 0;
#define BAD(which, from_state, set_mask, field, value) \
	bad[n].from = from_state; \
	bad[n].attr = which; \
	bad[n].attr.field = value; \
	bad[n++].mask = set_mask
	BAD(init, IBV_QPS_RESET, INIT_MASK, pkey_index, 1);
	BAD(init, IBV_QPS_RESET, INIT_MASK, port_num, 0);
	BAD(init, IBV_QPS_RESET, INIT_MASK, port_num, 2);
	BAD(init, IBV_QPS_RESET, INIT_MASK, qp_access_flags, 1u << 20);
	BAD(rtr, IBV_QPS_INIT, RTR_MASK, path_mtu, 0);
	BAD(rtr, IBV_QPS_INIT, RTR_MASK, path_mtu, 6);
	BAD(rtr, IBV_QPS_INIT, RTR_MASK, dest_qp_num, 0x1000000);
	BAD(rtr, IBV_QPS_INIT, RTR_MASK, max_dest_rd_atomic, SOFTRDMA_RD_ATOM_MAX + 1);
	BAD(rtr, IBV_QPS_INIT, RTR_MASK, min_rnr_timer, 32);
	BAD(rtr, IBV_QPS_INIT, RTR_MASK, ah_attr.is_global, 0);
	BAD(rtr, IBV_QPS_INIT, RTR_MASK, ah_attr.port_num, 2);
	BAD(rtr, IBV_QPS_INIT, RTR_MASK, ah_attr.grh.sgid_index, 255);
	BAD(rtr, IBV_QPS_INIT, RTR_MASK, ah_attr.grh.dgid.raw[2], 99);
	BAD(rts, IBV_QPS_RTR, RTS_MASK, timeout, 32);
	BAD(rts, IBV_QPS_RTR, RTS_MASK, retry_cnt, 8);
	BAD(rts, IBV_QPS_RTR, RTS_MASK, rnr_retry, 8);
	BAD(rts, IBV_QPS_RTR, RTS_MASK, max_rd_atomic, SOFTRDMA_RD_ATOM_MAX + 1);
	for (unsigned i = 0; i < n; i++) {
		struct ibv_qp *qp = qp_in(bad[i].from);
		assert_int_equal(softrdma_ibv_modify_qp(qp, &bad[i].attr, bad[i].mask), EINVAL);
		assert_int_equal(qp->state, bad[i].from);
		assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
	}

	/* an unreachable address is refused, as the kernel's drivers do */
	struct ibv_qp_attr nowhere = rtr;
	inet_pton(AF_INET6, "fe80::dead:beef", nowhere.ah_attr.grh.dgid.raw);
	struct ibv_qp *qp = qp_in(IBV_QPS_INIT);
	assert_int_equal(softrdma_ibv_modify_qp(qp, &nowhere, RTR_MASK), EHOSTUNREACH);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
}

/* --- what was set --- */

static void
test_query(void **state)
{
	(void)state;
	gid = the_gid(AF_INET);
	struct ibv_qp *qp = qp_in(IBV_QPS_INIT);
	struct ibv_qp_attr attr, set = rtr_attr(&gid, 0x123456, 0xff000007);
	struct ibv_qp_init_attr init;
	assert_int_equal(softrdma_ibv_query_qp(qp, &attr, 0, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_INIT);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.qp_access_flags, ALL_RIGHTS);
	assert_int_equal(softrdma_ibv_modify_qp(qp, &set, RTR_MASK), 0);
	to_rts(qp, 0xff000009);
	struct ibv_qp_attr more = { .qp_access_flags = IBV_ACCESS_REMOTE_READ, .min_rnr_timer = 31 };
	assert_int_equal(softrdma_ibv_modify_qp(qp, &more, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER), 0);
	assert_int_equal(softrdma_ibv_query_qp(qp, &attr, 0, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.cur_qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.dest_qp_num, 0x123456);
	assert_int_equal(attr.rq_psn, 7); /* 24 bits */
	assert_int_equal(attr.sq_psn, 9);
	assert_int_equal(attr.max_dest_rd_atomic, 4);
	assert_int_equal(attr.max_rd_atomic, 4);
	assert_int_equal(attr.min_rnr_timer, 31);
	assert_int_equal(attr.timeout, 14);
	assert_int_equal(attr.retry_cnt, 7);
	assert_int_equal(attr.rnr_retry, 7);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_REMOTE_READ);
	assert_memory_equal(&attr.ah_attr, &set.ah_attr, sizeof(attr.ah_attr));
	assert_int_equal(attr.cap.max_send_wr, 8);
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
}

/* --- the end --- */

static void
post_recv(struct ibv_qp *qp, uint64_t wr_id)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

static void
test_error_flushes(void **state)
{
	(void)state;
	struct hands h;
	hands_init(&h, AF_INET);
	post_recv(h.a, 1);
	hands_meet(&h);
	struct ibv_send_wr wr = { .wr_id = 2, .opcode = IBV_WR_SEND }, *bad;
	assert_int_equal(ibv_post_send(h.a, &wr, &bad), 0); /* the other side has no receive */
	move_to(h.a, IBV_QPS_ERR);
	uint64_t seen = 0;
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = next_wc();
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		seen += wc.wr_id;
	}
	assert_int_equal(seen, 3);
	post_write(h.b, 5);
	expect_wc(5, IBV_WC_RETRY_EXC_ERR); /* no queue pair is there */
	expect_state(h.b, IBV_QPS_ERR);
	hands_fini(&h);
}

/* a receive needs INIT at least; one of a shared queue does not, because it is of no queue pair */
static void
test_receives_in_reset(void **state)
{
	(void)state;
	struct ibv_recv_wr wr[2] = { { .wr_id = 1, .next = &wr[1] }, { .wr_id = 2 } }, *bad = NULL;
	struct ibv_qp *qp = new_qp();
	for (int round = 0; round < 2; round++) {
		assert_int_equal(ibv_post_recv(qp, wr, &bad), EINVAL);
		assert_ptr_equal(bad, wr);
		to_init(qp);
		assert_int_equal(ibv_post_recv(qp, wr, &bad), 0);
		move_to(qp, IBV_QPS_RESET);
	}
	to_init(qp);
	move_to(qp, IBV_QPS_ERR);
	assert_int_equal(ibv_post_recv(qp, wr, &bad), 0);
	expect_wc(1, IBV_WC_WR_FLUSH_ERR);
	expect_wc(2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
}

/*
 * RESET discards everything without completions; then the queue pair can be connected again, to another one. A batch that
 * began before cannot be posted, neither while the queue pair is reset nor when it is connected again.
 */
static void
test_reset(void **state)
{
	(void)state;
	struct hands h;
	hands_init(&h, AF_INET);
	struct ibv_qp *other = new_qp();
	struct ibv_qp_ex *ex = softrdma_ibv_qp_to_qp_ex(h.a);
	for (int round = 0; round < 3; round++) {
		struct ibv_qp *peer = round == 1 ? other : h.b;
		if (round > 0)
			to_init(h.a);
		if (round == 1)
			to_init(other);
		to_rtr(h.a, &h.gid, peer->qp_num, PSN_B);
		to_rtr(peer, &h.gid, h.a->qp_num, PSN_A);
		to_rts(h.a, PSN_A);
		to_rts(peer, PSN_B);
		if (round == 2)
			assert_int_equal(ibv_wr_complete(ex), EINVAL);
		expect_write(h.a);
		expect_write(peer);
		post_recv(h.a, 1);
		struct ibv_send_wr wr = { .wr_id = 2, .opcode = IBV_WR_SEND }, *bad;
		assert_int_equal(ibv_post_send(h.a, &wr, &bad), 0);
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		move_to(h.a, IBV_QPS_RESET);
		if (round != 1)
			assert_int_equal(ibv_wr_complete(ex), EINVAL);
		struct ibv_qp_attr attr;
		struct ibv_qp_init_attr init;
		assert_int_equal(softrdma_ibv_query_qp(h.a, &attr, 0, &init), 0);
		assert_int_equal(attr.qp_state, IBV_QPS_RESET);
		assert_int_equal(attr.dest_qp_num, 0);
		wait_until(link_state(peer) == SOFTRDMA_LINK_DOWN);
		if (round == 0)
			move_to(peer, IBV_QPS_RESET);
		if (round == 0)
			to_init(peer);
	}
	struct ibv_wc wc;
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	assert_int_equal(softrdma_ibv_destroy_qp(other), 0);
	hands_fini(&h);
}

/* --- completions that the program has not collected --- */

/* a queue pair in ERR with queues of its own choice: each receive that is posted completes at once */
static struct ibv_qp *
new_failed_qp(struct ibv_cq *send_cq, struct ibv_cq *recv_cq)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2 } };
	struct ibv_qp *qp = softrdma_ibv_create_qp(the_pd, &init);
	assert_non_null(qp);
	to_init(qp);
	move_to(qp, IBV_QPS_ERR);
	return qp;
}

static void
end_life(struct ibv_qp *qp, bool by_reset)
{
	if (by_reset)
		move_to(qp, IBV_QPS_RESET);
	else
		assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
}

/* they go with a RESET and with the queue pair; those of another one in the same queue stay, in order */
static void
test_completions_end_with_a_life(void **state)
{
	(void)state;
	for (int by_reset = 0; by_reset < 2; by_reset++) {
		struct hands h;
		struct ibv_wc wc;
		hands_init(&h, AF_INET);
		post_recv(h.a, 1);
		hands_meet(&h);
		for (uint64_t i = 10; i < 13; i++) {
			post_write(h.a, i);
			post_write(h.b, i + 10);
		}
		struct ibv_send_wr wr = { .wr_id = 2,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED };
		struct ibv_send_wr *bad;
		assert_int_equal(ibv_post_send(h.b, &wr, &bad), 0);
		wait_until(atomic_load(&softrdma_cq_of(the_cq)->count) == 8);
		move_to(h.a, IBV_QPS_ERR);
		post_recv(h.a, 3);
		assert_int_equal(atomic_load(&softrdma_cq_of(the_cq)->count), 9);
		const uint32_t qp_num = h.a->qp_num;
		end_life(h.a, by_reset);
		for (uint64_t i = 20; i < 23; i++)
			expect_wc(i, IBV_WC_SUCCESS);
		expect_wc(2, IBV_WC_SUCCESS);
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
		if (by_reset) { /* the next life has the number, and its own completions alone */
			assert_int_equal(h.a->qp_num, qp_num);
			to_init(h.a);
			post_recv(h.a, 4);
			move_to(h.a, IBV_QPS_ERR);
			expect_wc(4, IBV_WC_WR_FLUSH_ERR);
			assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
			assert_int_equal(softrdma_ibv_destroy_qp(h.a), 0);
		}
		assert_int_equal(softrdma_ibv_destroy_qp(h.b), 0);
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	}
}

/* also of a queue for receives alone, which other queue pairs use for all, and while a completion is being read */
static void
test_completions_of_extended_queue(void **state)
{
	(void)state;
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 16, .wc_flags = IBV_WC_EX_WITH_QP_NUM };
	for (int by_reset = 0; by_reset < 2; by_reset++) {
		struct ibv_cq_ex *cq = softrdma_ibv_create_cq_ex(softrdma_context(), &cq_attr);
		assert_non_null(cq);
		struct ibv_qp *gone = new_failed_qp(the_cq, ibv_cq_ex_to_cq(cq));
		struct ibv_qp *other = new_failed_qp(ibv_cq_ex_to_cq(cq), ibv_cq_ex_to_cq(cq));
		const uint32_t qp_num = gone->qp_num;
		post_recv(gone, 1);
		post_recv(gone, 2);
		post_recv(other, 3);
		post_recv(gone, 4);
		struct ibv_poll_cq_attr poll_attr = { 0 };
		assert_int_equal(ibv_start_poll(cq, &poll_attr), 0);
		end_life(gone, by_reset);
		/* the program has collected this one already */
		assert_int_equal(cq->wr_id, 1);
		assert_int_equal(ibv_wc_read_qp_num(cq), qp_num);
		assert_int_equal(ibv_next_poll(cq), 0);
		assert_int_equal(cq->wr_id, 3);
		assert_int_equal(ibv_wc_read_qp_num(cq), other->qp_num);
		assert_int_equal(ibv_next_poll(cq), ENOENT);
		ibv_end_poll(cq);
		if (by_reset)
			assert_int_equal(softrdma_ibv_destroy_qp(gone), 0);
		assert_int_equal(softrdma_ibv_destroy_qp(other), 0);
		assert_int_equal(softrdma_ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	}
}

/* the receives that messages have consumed are not given back to the shared queue */
static void
test_completions_of_shared_receives(void **state)
{
	(void)state;
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = softrdma_ibv_create_srq(the_pd, &srq_attr);
	assert_non_null(srq);
	struct ibv_cq *cq = softrdma_ibv_create_cq(softrdma_context(), 16, NULL, NULL, 0);
	assert_non_null(cq);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
		.send_cq = the_cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 } };
	struct hands h[2];
	struct ibv_wc wc;
	for (int i = 0; i < 2; i++) {
		h[i].gid = the_gid(AF_INET);
		h[i].a = softrdma_ibv_create_qp(the_pd, &init);
		h[i].b = new_qp();
		assert_non_null(h[i].a);
		to_init(h[i].a);
		to_init(h[i].b);
		hands_meet(&h[i]);
	}
	for (uint64_t i = 0; i < 6; i++) {
		struct ibv_recv_wr recv = { .wr_id = i }, *bad_recv;
		assert_int_equal(ibv_post_srq_recv(srq, &recv, &bad_recv), 0);
	}
	for (uint64_t i = 0; i < 5; i++) {
		struct ibv_send_wr wr = { .wr_id = i,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED };
		struct ibv_send_wr *bad;
		assert_int_equal(ibv_post_send(h[i % 2].b, &wr, &bad), 0);
		expect_wc(i, IBV_WC_SUCCESS);
	}
	hands_fini(&h[0]);
	assert_int_equal(softrdma_srq_of(srq)->queue.count, 1);
	for (uint64_t i = 1; i < 5; i += 2) {
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.qp_num, h[1].a->qp_num);
	}
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	hands_fini(&h[1]);
	assert_int_equal(softrdma_ibv_destroy_cq(cq), 0);
	assert_int_equal(softrdma_ibv_destroy_srq(srq), 0);
}

#define LIVES 200

static atomic_uint number_of_the_dead; /* 0: polling ends; 1: none is dead yet */
static atomic_uint polls;

/* NULL, or the queue if a poll that began after the end of a queue pair has given a completion of it */
static void *
poll_all_the_time(void *arg)
{
	struct ibv_wc wc[4];
	unsigned dead;
	while ((dead = number_of_the_dead) != 0) {
		int n = ibv_poll_cq(arg, 4, wc);
		if (n < 0)
			return arg;
		for (int i = 0; i < n; i++) {
			if (wc[i].qp_num == dead)
				return arg;
		}
		atomic_fetch_add(&polls, 1);
	}
	return NULL;
}

static void
test_completions_end_while_another_thread_polls(void **state)
{
	(void)state;
	struct ibv_cq *cq = softrdma_ibv_create_cq(softrdma_context(), 4096, NULL, NULL, 0);
	assert_non_null(cq);
	struct ibv_qp *other = new_failed_qp(cq, cq);
	pthread_t poller;
	void *failed;
	number_of_the_dead = 1;
	assert_int_equal(pthread_create(&poller, NULL, poll_all_the_time, cq), 0);
	for (unsigned i = 0; i < LIVES; i++) {
		struct ibv_qp *qp = new_failed_qp(cq, cq);
		const uint32_t qp_num = qp->qp_num;
		for (uint64_t n = 0; n < 8; n++) {
			post_recv(other, 100 + n);
			post_recv(qp, n);
		}
		assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
		number_of_the_dead = qp_num;
		const unsigned before = polls;
		wait_until(polls - before >= 2 || pthread_tryjoin_np(poller, &failed) == 0);
		if (polls - before < 2)
			fail_msg("a completion of a queue pair that was destroyed");
		number_of_the_dead = 1;
	}
	number_of_the_dead = 0;
	assert_int_equal(pthread_join(poller, &failed), 0);
	assert_null(failed);
	assert_int_equal(softrdma_ibv_destroy_qp(other), 0);
	assert_int_equal(softrdma_ibv_destroy_cq(cq), 0);
}

/* without memory it goes to error, and may be reset again */
static void
test_reset_fails(void **state)
{
	(void)state;
	struct hands h;
	hands_init(&h, AF_INET);
	hands_meet(&h);
	static const struct {
		const char *call;
		unsigned skip;
	} faults[] = { { "malloc", 0 }, { "calloc", 0 }, { "calloc", 1 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		fail_call(FAIL_MINE, faults[i].call, faults[i].skip, 1, ENOMEM);
		assert_int_equal(softrdma_ibv_modify_qp(h.a, &attr, IBV_QP_STATE), ENOMEM);
		assert_int_equal(fail_nothing(), 1);
		expect_state(h.a, IBV_QPS_ERR);
	}
	fail_call(FAIL_MINE, "calloc", 2, 1, ENOMEM); /* there are no others */
	assert_int_equal(softrdma_ibv_modify_qp(h.a, &attr, IBV_QP_STATE), 0);
	assert_int_equal(fail_nothing(), 0);
	expect_state(h.a, IBV_QPS_RESET);
	random_error = EIO; /* no random number for the first sequence number */
	assert_int_equal(softrdma_ibv_modify_qp(h.a, &attr, IBV_QP_STATE), EIO);
	random_error = 0;
	expect_state(h.a, IBV_QPS_ERR);
	hands_fini(&h);
}

/* the kernel has no socket, thread or memory left */
static void
test_rtr_fails(void **state)
{
	(void)state;
	static const struct {
		const char *call;
		int error;
	} faults[] = { { "epoll_create1", EMFILE }, { "pthread_create", EAGAIN }, { "socket", EMFILE },
		{ "bind", EADDRINUSE }, { "listen", EADDRINUSE }, { "calloc", ENOMEM } };
	gid = the_gid(AF_INET);
	struct ibv_qp *qp = qp_in(IBV_QPS_INIT);
	struct ibv_qp_attr attr = rtr_attr(&gid, 0x123456, 1);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		fail_call(FAIL_MINE, faults[i].call, 0, 1, faults[i].error);
		assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, RTR_MASK), faults[i].error);
		assert_int_equal(fail_nothing(), 1);
		assert_int_equal(qp->state, IBV_QPS_INIT);
		assert_int_equal(count_settle(count_threads, 1, PATIENCE_MS), 1);
	}
	fail_call(FAIL_MINE, "epoll_ctl", 2, 1, ENOSPC); /* the first two calls are the thread's own */
	assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, RTR_MASK), ENOSPC);
	fail_nothing();
	struct ibv_qp_attr now;
	struct ibv_qp_init_attr init;
	assert_int_equal(softrdma_ibv_query_qp(qp, &now, 0, &init), 0);
	assert_int_equal(now.dest_qp_num, 0);
	assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, RTR_MASK), 0);
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
}

/* rights that the queue pair lacks are refused, even if the memory region has them */
static void
test_rights(void **state)
{
	(void)state;
	static const struct {
		enum ibv_wr_opcode opcode;
		unsigned right;
	} kinds[] = { { IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE },
		{ IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_ACCESS_REMOTE_ATOMIC } };
	for (int given = 0; given < 2; given++) {
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
			struct hands h;
			hands_init(&h, AF_INET);
			struct ibv_qp_attr attr = { .qp_access_flags = given ? kinds[i].right
									     : ALL_RIGHTS & ~kinds[i].right };
			assert_int_equal(softrdma_ibv_modify_qp(h.b, &attr, IBV_QP_ACCESS_FLAGS), 0);
			hands_meet(&h);
			struct ibv_sge sge = { .addr = (uintptr_t)the_mem,
				.length = 8,
				.lkey = the_mr->lkey };
			struct ibv_send_wr wr = { .wr_id = 1,
				.opcode = kinds[i].opcode,
				.sg_list = &sge,
				.num_sge = 1,
				.send_flags = IBV_SEND_SIGNALED };
			struct ibv_send_wr *bad;
			if (kinds[i].right == IBV_ACCESS_REMOTE_ATOMIC) {
				wr.wr.atomic.remote_addr = (uintptr_t)the_mem + 64;
				wr.wr.atomic.rkey = the_mr->rkey;
			} else {
				wr.wr.rdma.remote_addr = (uintptr_t)the_mem + 64;
				wr.wr.rdma.rkey = the_mr->rkey;
			}
			the_mem[0] = 1;
			the_mem[64] = 2;
			assert_int_equal(ibv_post_send(h.a, &wr, &bad), 0);
			expect_wc(1, given ? IBV_WC_SUCCESS : IBV_WC_REM_INV_REQ_ERR);
			if (!given)
				assert_int_equal(the_mem[64], 2);
			hands_fini(&h);
		}
	}
}

/* queue pairs of the connection manager are moved only by it */
static void
test_managed(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	assert_int_equal(softrdma_ibv_modify_qp(p.active->qp, &attr, IBV_QP_STATE), EOPNOTSUPP);
	pair_fini(&p);

	struct ibv_qp_init_attr_ex init = qp_attr();
	struct softrdma_qp *qp = softrdma_qp_new(the_pd, &init, &softrdma_managed_qp, 0);
	assert_int_equal(softrdma_ibv_destroy_qp(&qp->qp), 0);
}

/* --- RESET while other threads post and query: the program's mistake, which must not bring the process down --- */

#define RESETS 300

static atomic_bool resets_are_over;

static void *
post_all_the_time(void *arg)
{
	struct ibv_qp *qp = arg;
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	while (!resets_are_over) {
		int ret = ibv_post_send(qp, &wr, &bad);
		if (ret != 0 && ret != EINVAL && ret != ENOMEM)
			return qp;
	}
	return NULL;
}

static void *
fill_batches(void *arg)
{
	struct ibv_qp_ex *qp = softrdma_ibv_qp_to_qp_ex(arg);
	while (!resets_are_over) {
		ibv_wr_start(qp);
		ibv_wr_send(qp);
		ibv_wr_set_inline_data(qp, the_mem, 8);
		sched_yield(); /* a RESET may come here, or two */
		ibv_wr_send(qp);
		ibv_wr_set_sge(qp, the_mr->lkey, (uintptr_t)the_mem, 8);
		int ret = ibv_wr_complete(qp);
		if (ret != 0 && ret != EINVAL && ret != ENOMEM)
			return qp;
	}
	return NULL;
}

static void *
query_and_receive(void *arg)
{
	struct ibv_qp *qp = arg;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_recv_wr *bad, wr = { 0 };
	while (!resets_are_over) {
		ibv_post_recv(qp, &wr, &bad);
		if (softrdma_ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) || attr.qp_state > IBV_QPS_RTS)
			return qp;
	}
	return NULL;
}

static void
test_reset_while_others_post(void **state)
{
	(void)state;
	void *(*const work[])(void *arg) = { post_all_the_time, fill_batches, query_and_receive };
	pthread_t threads[3];
	void *failed;
	union ibv_gid manager;
	struct ibv_qp *qp = new_qp();
	softrdma_gid_of_manager(&manager); /* no peer is looked for */
	resets_are_over = false;
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work[i], qp), 0);
	for (int i = 0; i < RESETS; i++) {
		to_init(qp);
		to_rtr(qp, &manager, 77, PSN_A);
		to_rts(qp, PSN_B);
		move_to(qp, IBV_QPS_RESET);
		move_to(qp, IBV_QPS_RESET);
		/* what is posted now finds the queue pair in RESET */
		expect_state(qp, IBV_QPS_RESET);
	}
	resets_are_over = true;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
	struct ibv_wc wc;
	/* a RESET drops what was posted, also if that has completed */
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_create),
		device_test(test_create_ex),
		device_test(test_create_fails),
		device_test(test_many),
		device_test(test_masks),
		device_test(test_transitions),
		device_test(test_values),
		device_test(test_query),
		device_test(test_error_flushes),
		device_test(test_receives_in_reset),
		device_test(test_reset),
		device_test(test_completions_end_with_a_life),
		device_test(test_completions_of_extended_queue),
		device_test(test_completions_of_shared_receives),
		device_test(test_completions_end_while_another_thread_polls),
		device_test(test_reset_fails),
		device_test(test_reset_while_others_post),
		one_thread_test(test_rtr_fails),
		device_test(test_rights),
		device_test(test_managed),
		cmocka_unit_test_setup_teardown(test_create_without_port, setup_without_port, teardown_test),
	};
	return cmocka_run_group_tests(tests, setup_by_hand, teardown_by_hand);
}
