/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conf_ops.c -- each operation in each size: what arrives, what stays unchanged, and what the completions
 * carry
 */

#include <arpa/inet.h>
#include <string.h>

#include "groups.h"
#include "pattern.h"
#include "role.h"

#define SEED 0x1001
#define IMM 0x01020304u
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* ---- one-sided: the target sleeps in ctl_expect() while the initiator works ---- */

static void
write_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, r->scenario->size, RPMA_MR_USAGE_WRITE_DST);
	desc_put(r, &m);
	ctl_expect(r, "written");
	mem_check(&m, SEED);
	mem_delete(&m);
	role_close(r);
}

static void
write_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct ibv_wc wc;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, r->scenario->size, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, SEED);
	dst = remote_take(r);
	CHECK_OK(rpma_write(r->conn, dst, GUARD, m.mr, GUARD, m.len, RPMA_F_COMPLETION_ALWAYS, CTX(1)));
	wc = expect_ok(r->cq, 1);
	CHECK_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
	expect_none(r->cq);
	ctl_put(r, "written");
	mem_check(&m, SEED);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

static void
read_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, r->scenario->size, RPMA_MR_USAGE_READ_SRC);
	mem_fill(&m, SEED);
	desc_put(r, &m);
	ctl_expect(r, "read");
	mem_check(&m, SEED);
	mem_delete(&m);
	role_close(r);
}

static void
read_initiator(struct role *r)
{
	struct rpma_mr_remote *src;
	struct ibv_wc wc;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, r->scenario->size, RPMA_MR_USAGE_READ_DST);
	src = remote_take(r);
	CHECK_OK(rpma_read(r->conn, m.mr, GUARD, src, GUARD, m.len, RPMA_F_COMPLETION_ALWAYS, CTX(2)));
	wc = expect_ok(r->cq, 2);
	CHECK_EQ(wc.opcode, IBV_WC_RDMA_READ);
	/* a hardware provider need not fill in the length of operations of its own side */
	if (r->soft)
		CHECK_EQ(wc.byte_len, m.len);
	expect_none(r->cq);
	mem_check(&m, SEED);
	ctl_put(r, "read");
	CHECK_OK(rpma_mr_remote_delete(&src));
	mem_delete(&m);
	role_close(r);
}

/* ---- write with immediate: one-sided, with a receive that notifies the target ---- */

static void
check_imm(const struct ibv_wc *wc, uint32_t imm)
{
	CHECK(wc->wc_flags & IBV_WC_WITH_IMM);
	CHECK_EQ(ntohl(wc->imm_data), imm);
}

static void
write_imm_target(struct role *r)
{
	struct ibv_wc wc;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, r->scenario->size, RPMA_MR_USAGE_WRITE_DST);
	CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(7)));
	desc_put(r, &m);
	wc = expect_recv(r->cq, 7, r->scenario->size);
	/* when the receive completes, the data is there */
	mem_check(&m, SEED);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	check_imm(&wc, IMM);
	expect_none(r->cq);
	mem_delete(&m);
	role_close(r);
}

static void
write_imm_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct ibv_wc wc;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, r->scenario->size, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, SEED);
	dst = remote_take(r);
	CHECK_OK(rpma_write_with_imm(r->conn, dst, GUARD, m.mr, GUARD, m.len, RPMA_F_COMPLETION_ALWAYS, IMM,
		CTX(3)));
	wc = expect_ok(r->cq, 3);
	CHECK_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
	expect_none(r->cq);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

/* ---- messages ---- */

/* scenario->arg: the immediate value, or NULL for a plain send */
static const uint32_t send_imm = IMM;

static void
send_target(struct role *r)
{
	const uint32_t *imm = r->scenario->arg;
	struct ibv_wc wc;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, r->scenario->size, RPMA_MR_USAGE_RECV);
	CHECK_OK(rpma_recv(r->conn, m.mr, GUARD, m.len, CTX(8)));
	wc = expect_recv(r->cq, 8, m.len);
	mem_check(&m, SEED);
	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK_EQ(wc.qp_num, conn_qp_num(r->conn));
	if (imm)
		check_imm(&wc, *imm);
	else
		CHECK(!(wc.wc_flags & IBV_WC_WITH_IMM));
	expect_none(r->cq);
	mem_delete(&m);
	role_close(r);
}

static void
send_initiator(struct role *r)
{
	const uint32_t *imm = r->scenario->arg;
	int flags = RPMA_F_COMPLETION_ALWAYS;
	struct ibv_wc wc;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, r->scenario->size, RPMA_MR_USAGE_SEND);
	mem_fill(&m, SEED);
	if (imm)
		CHECK_OK(rpma_send_with_imm(r->conn, m.mr, GUARD, m.len, flags, *imm, CTX(4)));
	else
		CHECK_OK(rpma_send(r->conn, m.mr, GUARD, m.len, flags, CTX(4)));
	wc = expect_ok(r->cq, 4);
	CHECK_EQ(wc.opcode, IBV_WC_SEND);
	expect_none(r->cq);
	mem_check(&m, SEED);
	mem_delete(&m);
	role_close(r);
}

/* a message shorter than its receive */
static void
short_send_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 4096, RPMA_MR_USAGE_RECV);
	CHECK_OK(rpma_recv(r->conn, m.mr, GUARD, m.len, CTX(1)));
	expect_recv(r->cq, 1, 100);
	mem_check_head(&m, 100, SEED);
	mem_delete(&m);
	role_close(r);
}

static void
short_send_initiator(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 100, RPMA_MR_USAGE_SEND);
	mem_fill(&m, SEED);
	CHECK_OK(rpma_send(r->conn, m.mr, GUARD, m.len, RPMA_F_COMPLETION_ALWAYS, CTX(1)));
	expect_ok(r->cq, 1);
	mem_delete(&m);
	role_close(r);
}

/* ---- operations without any memory ---- */

static void
null_target(struct role *r)
{
	struct ibv_wc wc;

	role_connect(r, NULL);
	for (uint64_t i = 1; i <= 3; i++)
		CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(i)));
	expect_recv(r->cq, 1, 0);
	wc = expect_recv(r->cq, 2, 0);
	check_imm(&wc, 0);
	wc = expect_recv(r->cq, 3, 0);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	check_imm(&wc, UINT32_MAX);
	role_close(r);
}

static void
null_initiator(struct role *r)
{
	int flags = RPMA_F_COMPLETION_ALWAYS;

	role_connect(r, NULL);
	CHECK_OK(rpma_write(r->conn, NULL, 0, NULL, 0, 0, flags, CTX(1)));
	CHECK_OK(rpma_read(r->conn, NULL, 0, NULL, 0, 0, flags, CTX(2)));
	CHECK_OK(rpma_send(r->conn, NULL, 0, 0, flags, CTX(3)));
	CHECK_OK(rpma_send_with_imm(r->conn, NULL, 0, 0, flags, 0, CTX(4)));
	CHECK_OK(rpma_write_with_imm(r->conn, NULL, 0, NULL, 0, 0, flags, UINT32_MAX, CTX(5)));
	for (uint64_t i = 1; i <= 5; i++)
		expect_ok(r->cq, i);
	expect_none(r->cq);
	role_close(r);
}

/* ---- 8 bytes at once ---- */

#define WORDS 16

static void
atomic_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, WORDS * 8, RPMA_MR_USAGE_WRITE_DST);
	desc_put(r, &m);
	ctl_expect(r, "written");
	mem_check(&m, SEED);
	mem_delete(&m);
	role_close(r);
}

/*
 * from the last word to the first, each from unregistered memory that is overwritten as soon as the call
 * returns
 */
static void
atomic_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;

	role_connect(r, NULL);
	dst = remote_take(r);
	for (size_t i = WORDS; i-- > 0;) {
		char word[8];

		pattern_fill(word, sizeof(word), SEED, i * 8);
		CHECK_OK(rpma_atomic_write(r->conn, dst, GUARD + i * 8, word, RPMA_F_COMPLETION_ALWAYS,
			CTX(i)));
		memset(word, 0, sizeof(word));
	}
	for (size_t i = WORDS; i-- > 0;)
		expect_ok(r->cq, i);
	expect_none(r->cq);
	/* an offset that is not a multiple of 8 is refused at once */
	CHECK_RET(rpma_atomic_write(r->conn, dst, GUARD + 4, "1234567", RPMA_F_COMPLETION_ALWAYS, NULL),
		RPMA_E_INVAL);
	ctl_put(r, "written");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	role_close(r);
}

/* ---- offsets and lengths that are not multiples of anything ---- */

#define ODD_LEN 4099
#define ODD_SRC 13
#define ODD_DST 57

static void
odd_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 8192, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC);
	desc_put(r, &m);
	ctl_expect(r, "done");
	CHECK_EQ(pattern_check_byte(m.data, ODD_DST, GUARD_BYTE), -1);
	CHECK_EQ(pattern_check(m.data + ODD_DST, ODD_LEN, SEED, ODD_SRC), -1);
	CHECK_EQ(pattern_check_byte(m.data + ODD_DST + ODD_LEN, m.len - ODD_DST - ODD_LEN, GUARD_BYTE), -1);
	mem_delete(&m);
	role_close(r);
}

static void
odd_initiator(struct role *r)
{
	int flags = RPMA_F_COMPLETION_ALWAYS;
	struct rpma_mr_remote *remote;
	struct mem src, dst;

	role_connect(r, NULL);
	mem_new(r, &src, 8192, RPMA_MR_USAGE_WRITE_SRC);
	mem_new(r, &dst, 8192, RPMA_MR_USAGE_READ_DST);
	mem_fill(&src, SEED);
	remote = remote_take(r);
	CHECK_OK(rpma_write(r->conn, remote, GUARD + ODD_DST, src.mr, GUARD + ODD_SRC, ODD_LEN, flags,
		CTX(1)));
	CHECK_OK(rpma_read(r->conn, dst.mr, GUARD + 3, remote, GUARD + ODD_DST + 1, ODD_LEN - 2, flags,
		CTX(2)));
	expect_ok(r->cq, 1);
	expect_ok(r->cq, 2);
	CHECK_EQ(pattern_check_byte(dst.data, 3, GUARD_BYTE), -1);
	CHECK_EQ(pattern_check(dst.data + 3, ODD_LEN - 2, SEED, ODD_SRC + 1), -1);
	CHECK_EQ(pattern_check_byte(dst.data + 3 + ODD_LEN - 2, 16, GUARD_BYTE), -1);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&remote));
	mem_delete(&src);
	mem_delete(&dst);
	role_close(r);
}

/* ---- both directions at once ---- */

#define CROSS_COUNT 12

/*
 * each role writes to the other and reads from it without waiting: neither may depend on the other to collect
 * its completions first
 */
static void
cross(struct role *r)
{
	uint64_t mine = r->is_target ? 0xa : 0xb;
	uint64_t theirs = r->is_target ? 0xb : 0xa;
	int flags = RPMA_F_COMPLETION_ALWAYS;
	struct rpma_mr_remote *to, *from;
	struct mem src, in, back;

	role_connect(r, NULL);
	mem_new(r, &src, r->scenario->size, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_SRC);
	mem_new(r, &in, r->scenario->size, RPMA_MR_USAGE_WRITE_DST);
	mem_new(r, &back, r->scenario->size, RPMA_MR_USAGE_READ_DST);
	mem_fill(&src, mine);
	desc_put(r, &in);
	desc_put(r, &src);
	to = remote_take(r);
	from = remote_take(r);
	for (uint64_t i = 0; i < CROSS_COUNT; i++) {
		CHECK_OK(rpma_write(r->conn, to, GUARD, src.mr, GUARD, src.len, flags, CTX(2 * i)));
		CHECK_OK(rpma_read(r->conn, back.mr, GUARD, from, GUARD, back.len, flags, CTX(2 * i + 1)));
	}
	for (uint64_t i = 0; i < (uint64_t)2 * CROSS_COUNT; i++)
		expect_ok(r->cq, i);
	ctl_sync(r);
	mem_check(&in, theirs);
	mem_check(&back, theirs);
	CHECK_OK(rpma_mr_remote_delete(&to));
	CHECK_OK(rpma_mr_remote_delete(&from));
	ctl_sync(r);
	mem_delete(&src);
	mem_delete(&in);
	mem_delete(&back);
	role_close(r);
}

/* clang-format off */
#define IN_SIZES(op, target, initiator, arg) \
	{ op "-0", target, initiator, 0, 0, arg }, \
	{ op "-1", target, initiator, 1, 0, arg }, \
	{ op "-7", target, initiator, 7, 0, arg }, \
	{ op "-8", target, initiator, 8, 0, arg }, \
	{ op "-4KiB", target, initiator, 4 * KIB, 0, arg }, \
	{ op "-1MiB", target, initiator, MIB, 0, arg }, \
	{ op "-64MiB", target, initiator, 64 * MIB, 0, arg }
/* clang-format on */

static const struct scenario list[] = {
	IN_SIZES("write", write_target, write_initiator, NULL),
	IN_SIZES("read", read_target, read_initiator, NULL),
	IN_SIZES("write-imm", write_imm_target, write_imm_initiator, NULL),
	IN_SIZES("send", send_target, send_initiator, NULL),
	IN_SIZES("send-imm", send_target, send_initiator, &send_imm),
	{ "send-shorter-than-recv", short_send_target, short_send_initiator, 4096, 0, NULL },
	{ "no-memory-at-all", null_target, null_initiator, 0, 0, NULL },
	{ "smoke-atomic-write", atomic_target, atomic_initiator, WORDS * 8, 0, NULL },
	{ "smoke-odd-offsets", odd_target, odd_initiator, 8192, 0, NULL },
	{ "crossing-8", cross, cross, 8, 0, NULL },
	{ "crossing-1MiB", cross, cross, MIB, 0, NULL },
	{ "crossing-64MiB", cross, cross, 64 * MIB, 0, NULL },
};

const struct scenario_group group_ops = { list, sizeof(list) / sizeof(list[0]) };
