/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * datagrams.h -- shared by the tests of queue pairs of unreliable datagrams (UD)
 *
 * All are in this process, and their GIDs are those of the machine's loopback. Each test includes it once.
 */

#ifndef TEST_SOFTRDMA_DATAGRAMS_H
#define TEST_SOFTRDMA_DATAGRAMS_H

#include "by_hand.h"
#include "pattern.h"
#include "softrdma/base/valgrind.h"
#include "softrdma/core/datagram.h"
#include "softrdma/faults/fault_plan.h"

#define GRH SOFTRDMA_GRH_SIZE
#define QKEY 0x1234567

#define UD_INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define UD_RTS_MASK (IBV_QP_STATE | IBV_QP_SQ_PSN)

/* where payloads begin, and where they are received */
#define OUT 0
#define IN (MEM_SIZE / 2)

static inline struct ibv_qp_init_attr_ex
ud_attr(void)
{
	struct ibv_qp_init_attr_ex attr = qp_attr();
	attr.qp_type = IBV_QPT_UD;
	attr.cap.max_send_wr = attr.cap.max_recv_wr = 64;
	return attr;
}

static inline struct ibv_qp *
ud_with(struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = softrdma_ibv_create_qp_ex(softrdma_context(), attr);
	assert_non_null(qp);
	return qp;
}

static inline struct ibv_qp *
ud_new(void)
{
	struct ibv_qp_init_attr_ex attr = ud_attr();
	return ud_with(&attr);
}

/* attributes that are valid for any transition */
static inline struct ibv_qp_attr
ud_all(enum ibv_qp_state to)
{
	return (struct ibv_qp_attr){ .qp_state = to, .port_num = 1, .qkey = QKEY, .sq_psn = 7 };
}

static inline int
ud_modify(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = ud_all(to);
	return softrdma_ibv_modify_qp(qp, &attr, mask);
}

static inline void
ud_to_init(struct ibv_qp *qp)
{
	assert_int_equal(ud_modify(qp, IBV_QPS_INIT, UD_INIT_MASK), 0);
}

/* from RESET */
static inline void
ud_to_rtr(struct ibv_qp *qp)
{
	ud_to_init(qp);
	assert_int_equal(ud_modify(qp, IBV_QPS_RTR, IBV_QP_STATE), 0);
}

static inline void
ud_to_rts(struct ibv_qp *qp)
{
	ud_to_rtr(qp);
	assert_int_equal(ud_modify(qp, IBV_QPS_RTS, UD_RTS_MASK), 0);
}

static inline struct ibv_qp *
ud_ready(void)
{
	struct ibv_qp *qp = ud_new();
	ud_to_rts(qp);
	return qp;
}

/* an address handle for this GID, from the GID that the_gid() has found last */
static inline struct ibv_ah_attr
ah_attr(const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	attr.grh.dgid = *gid;
	attr.grh.sgid_index = (uint8_t)gid_index;
	return attr;
}

static inline struct ibv_ah *
new_ah(const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = ah_attr(gid);
	struct ibv_ah *ah = softrdma_ibv_create_ah(the_pd, &attr);
	assert_non_null(ah);
	return ah;
}

/* a receive of this number of bytes, including those of the GRH */
static inline void
ud_post_recv(struct ibv_qp *qp, uint64_t wr_id, size_t offset, size_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem + offset,
		.length = (uint32_t)len,
		.lkey = the_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

/* a signaled SEND to a queue pair with the usual Q_Key */
static inline struct ibv_send_wr
ud_wr(uint64_t wr_id, struct ibv_ah *ah, uint32_t to, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = { .wr_id = wr_id,
		.opcode = IBV_WR_SEND,
		.sg_list = sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED };
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = to;
	wr.wr.ud.remote_qkey = QKEY;
	return wr;
}

/* sends that number of bytes from OUT */
static inline void
ud_send(struct ibv_qp *qp, uint64_t wr_id, struct ibv_ah *ah, const struct ibv_qp *to, size_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem + OUT,
		.length = (uint32_t)len,
		.lkey = the_mr->lkey };
	struct ibv_send_wr wr = ud_wr(wr_id, ah, to->qp_num, &sge), *bad;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

/* the next completions: of the SEND and of the receive, which may come in any order; returns that of the receive */
static inline struct ibv_wc
expect_passage(uint64_t send_id, uint64_t recv_id)
{
	struct ibv_wc received = { .status = IBV_WC_GENERAL_ERR };
	for (int i = 0; i < 2; i++) {
		const struct ibv_wc wc = next_wc();
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_RECV)
			received = wc;
		else
			assert_int_equal(wc.wr_id, send_id);
	}
	assert_int_equal(received.status, IBV_WC_SUCCESS);
	assert_int_equal(received.wr_id, recv_id);
	return received;
}

/* sends a pattern from one queue pair to another, or to itself, and checks what comes, and the bytes around it */
static inline struct ibv_wc
expect_datagram(struct ibv_qp *from, struct ibv_ah *ah, struct ibv_qp *to, size_t len)
{
	static uint64_t seed;
	seed++;
	pattern_fill(the_mem + OUT, len, seed, 0);
	memset(the_mem + IN, 0xee, 8 + GRH + len + 8);
	ud_post_recv(to, 1000 + seed, IN + 8, GRH + len);
	ud_send(from, 2000 + seed, ah, to, len);
	const struct ibv_wc wc = expect_passage(2000 + seed, 1000 + seed);
	assert_int_equal(wc.byte_len, GRH + len);
	assert_int_equal(wc.qp_num, to->qp_num);
	assert_int_equal(wc.src_qp, from->qp_num);
	assert_true(wc.wc_flags & IBV_WC_GRH);
	assert_int_equal(pattern_check(the_mem + IN + 8 + GRH, len, seed, 0), -1);
	assert_int_equal(pattern_check_byte(the_mem + IN, 8, 0xee), -1);
	assert_int_equal(pattern_check_byte(the_mem + IN + 8 + GRH + len, 8, 0xee), -1);
	return wc;
}

/* for tests of memory that is not there */
static inline void
skip_under_valgrind(void)
{
	if (softrdma_under_valgrind()) {
		print_message("skipped: valgrind reports each access to memory that is not there\n");
		skip();
	}
}

static inline uint64_t
dropped(struct ibv_qp *qp, enum softrdma_stats_drop why)
{
	struct softrdma_link *link = softrdma_qp_of(qp)->link;
	struct softrdma_stats stats = { 0 };
	softrdma_counters_sum(&link->responder.counters, &stats);
	return stats.dropped[why];
}

static inline void
expect_no_completion(void)
{
	struct ibv_wc wc;
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
}

static inline void
destroy_qp(struct ibv_qp *qp)
{
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
}

static inline void
destroy_ah(struct ibv_ah *ah)
{
	assert_int_equal(softrdma_ibv_destroy_ah(ah), 0);
}

/* a program's setting, for one test: the teardown takes it back */
static inline int
teardown_setting(void **state)
{
	unsetenv("SOFTRDMA_CRC");
	unsetenv("SOFTRDMA_FAULTS");
	assert_int_equal(softrdma_fault_plan_read(), 0);
	unsetenv("SOFTRDMA_UD");
	unsetenv("SOFTRDMA_TLS_CA");
	unsetenv("SOFTRDMA_TLS_CERT");
	unsetenv("SOFTRDMA_TLS_KEY");
	unsetenv("SOFTRDMA_TLS_PSK");
	return teardown_test(state);
}

#define setting_test(function) cmocka_unit_test_setup_teardown(function, setup_test, teardown_setting)

#endif /* TEST_SOFTRDMA_DATAGRAMS_H */
