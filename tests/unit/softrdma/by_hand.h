/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * by_hand.h -- shared by the tests of queue pairs that are connected without the connection manager
 *
 * The GIDs are those of the machine's loopback. An application would have to send the other side its numbers
 * and GIDs; here this is an assignment. Each test includes it once.
 */

#ifndef TEST_SOFTRDMA_BY_HAND_H
#define TEST_SOFTRDMA_BY_HAND_H

#include "connected.h"
#include "softrdma/cm/qp_connect.h"
#include "softrdma/verbs/gid.h"
#include "softrdma/wire/cm_msg.h"

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_MASK \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK \
	(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | \
		IBV_QP_MAX_QP_RD_ATOMIC)

#define ALL_RIGHTS \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
		SOFTRDMA_ACCESS_FLUSH_GLOBAL)

/* index of the GID of a loopback address in the device's table */
static unsigned gid_index;

/* instead of a family: the IPv4 address in the form of RoCE devices */
#define MAPPED (-1)

static inline union ibv_gid
the_gid(int family)
{
	union ibv_gid gid = { 0 };
	const uint8_t v4[] = { 127, 0, 0, 1 };
	for (unsigned i = 0; i < softrdma_gid_count(); i++) {
		assert_int_equal(softrdma_gid_get(i, &gid), 0);
		bool is_v4 = gid.raw[0] == 0xfc && memcmp(gid.raw + 4, v4, 4) == 0;
		bool is_v6 = memcmp(gid.raw, &in6addr_loopback, 16) == 0;
		bool is_mapped = memcmp(gid.raw + 10, "\xff\xff\x7f\0\0\1", 6) == 0;
		if (family == AF_INET ? is_v4 : family == MAPPED ? is_mapped : is_v6) {
			gid_index = i;
			return gid;
		}
	}
	skip(); /* the machine does not support it */
	return gid;
}

static inline struct ibv_qp *
new_qp(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
		.send_cq = the_cq,
		.recv_cq = the_cq,
		.cap = { .max_send_wr = 8,
			.max_recv_wr = 8,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64 } };
	struct ibv_qp *qp = softrdma_ibv_create_qp(the_pd, &init);
	assert_non_null(qp);
	return qp;
}

static inline struct ibv_qp_attr
init_attr(void)
{
	return (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL_RIGHTS };
}

static inline struct ibv_qp_attr
rtr_attr(const union ibv_gid *gid, uint32_t dest_qp_num, uint32_t rq_psn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qp_num,
		.rq_psn = rq_psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1 } };
	attr.ah_attr.grh.dgid = *gid;
	attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
	attr.ah_attr.grh.hop_limit = 1;
	return attr;
}

static inline struct ibv_qp_attr
rts_attr(uint32_t sq_psn)
{
	return (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.sq_psn = sq_psn,
		.max_rd_atomic = 4 };
}

static inline void
to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = init_attr();
	assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, INIT_MASK), 0);
}

static inline void
to_rtr(struct ibv_qp *qp, const union ibv_gid *gid, uint32_t dest_qp_num, uint32_t rq_psn)
{
	struct ibv_qp_attr attr = rtr_attr(gid, dest_qp_num, rq_psn);
	assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, RTR_MASK), 0);
}

static inline void
to_rts(struct ibv_qp *qp, uint32_t sq_psn)
{
	struct ibv_qp_attr attr = rts_attr(sq_psn);
	assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, RTS_MASK), 0);
}

static inline void
move_to(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

static inline enum softrdma_link_state
link_state(struct ibv_qp *qp)
{
	struct softrdma_link *link = softrdma_qp_of(qp)->link;
	return locked(link, link->state);
}

#define PSN_A 0x100
#define PSN_B 0xfffffe

/* two queue pairs that know each other's attributes; neither is in RTR yet */
struct hands {
	union ibv_gid gid;
	struct ibv_qp *a, *b;
};

static inline void
hands_init(struct hands *h, int family)
{
	h->gid = the_gid(family);
	h->a = new_qp();
	h->b = new_qp();
	to_init(h->a);
	to_init(h->b);
}

static inline void
hands_meet(struct hands *h)
{
	to_rtr(h->a, &h->gid, h->b->qp_num, PSN_B);
	to_rtr(h->b, &h->gid, h->a->qp_num, PSN_A);
	to_rts(h->a, PSN_A);
	to_rts(h->b, PSN_B);
	wait_until(link_state(h->a) == SOFTRDMA_LINK_UP && link_state(h->b) == SOFTRDMA_LINK_UP);
}

static inline void
hands_fini(struct hands *h)
{
	assert_int_equal(softrdma_ibv_destroy_qp(h->a), 0);
	assert_int_equal(softrdma_ibv_destroy_qp(h->b), 0);
}

/* posts a write of the first 64 bytes of the shared memory region to the target */
static inline void
post_write_to(struct ibv_qp *qp, uint64_t wr_id, void *target)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 64, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id,
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)target;
	wr.wr.rdma.rkey = the_mr->rkey;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

/* to the middle of that region */
static inline void
post_write(struct ibv_qp *qp, uint64_t wr_id)
{
	post_write_to(qp, wr_id, the_mem + MEM_SIZE / 2);
}

static inline void
expect_wc(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

/* writes from the start of the region to its middle, and checks it; the pattern differs from call to call */
static inline void
expect_write(struct ibv_qp *qp)
{
	static uint8_t round;
	round++;
	for (unsigned i = 0; i < 64; i++)
		the_mem[i] = (uint8_t)(i + round);
	post_write(qp, 1000u + round);
	expect_wc(1000u + round, IBV_WC_SUCCESS);
	assert_memory_equal(the_mem, the_mem + MEM_SIZE / 2, 64);
}

/* opens the sockets of the GIDs, which stay open between tests */
static inline int
open_gids(void)
{
	union ibv_gid gid;
	int ret = 0;
	for (unsigned i = 0; ret == 0 && i < softrdma_gid_count(); i++)
		ret = softrdma_gid_get(i, &gid);
	uint32_t qp_num;
	if (ret == 0 && softrdma_gid_take_qp_num(&qp_num) == 0)
		softrdma_gid_put_qp_num(qp_num);
	return ret;
}

static inline int
setup_by_hand(void **state)
{
	int ret = setup_device(state);
	return ret ? ret : open_gids();
}

static inline int
teardown_by_hand(void **state)
{
	softrdma_release_gids();
	return teardown_device(state);
}

#endif /* TEST_SOFTRDMA_BY_HAND_H */
