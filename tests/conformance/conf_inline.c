/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conf_inline.c -- inline data, copied from any memory before the call returns */

#include <arpa/inet.h>
#include <string.h>

#include "groups.h"
#include "pattern.h"
#include "role.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
/* bytes that SoftRoCE supports as well */
#define SIZE 256
/* the place for one size: its bytes, and more that must stay as they are */
#define SLOT ((size_t)SIZE + 16)
#define SLOTS ((size_t)SIZE + 1)

static const struct conn_opts with_inline = { .inline_size = SIZE };

static void
check_slot(const struct mem *m, size_t len)
{
	const uint8_t *slot = m->data + len * SLOT;

	CHECK_EQ(pattern_check(slot, len, len, 0), -1);
	CHECK_EQ(pattern_check_byte(slot + len, SLOT - len, GUARD_BYTE), -1);
}

/* ---- every size from 0 to the limit, from one buffer that is overwritten at once ---- */

static void
write_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, SLOTS * SLOT, RPMA_MR_USAGE_WRITE_DST);
	desc_put(r, &m);
	ctl_expect(r, "written");
	for (size_t len = 0; len < SLOTS; len++)
		check_slot(&m, len);
	CHECK_EQ(pattern_check_byte(m.data - GUARD, GUARD, GUARD_BYTE), -1);
	mem_delete(&m);
	role_close(r);
}

/* scenario->arg: batched, and submitted by every 16th */
static void
write_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	uint8_t buf[SIZE];

	role_connect(r, &with_inline);
	dst = remote_take(r);
	for (size_t len = 0; len < SLOTS; len++) {
		int flags = r->scenario->arg && len % 16 != 0 && len != SIZE ? ALWAYS | RPMA_F_MORE : ALWAYS;

		if (len >= DEPTH)
			expect_ok(r->cq, len - DEPTH);
		pattern_fill(buf, len, len, 0);
		CHECK_OK(rpma_write_inline(r->conn, dst, GUARD + len * SLOT, len ? buf : NULL, len, flags,
			CTX(len)));
		memset(buf, 0xee, sizeof(buf));
	}
	for (size_t len = SLOTS - DEPTH; len < SLOTS; len++)
		expect_ok(r->cq, len);
	expect_none(r->cq);
	ctl_put(r, "written");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	role_close(r);
}

static void
imm_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, SLOTS * SLOT, RPMA_MR_USAGE_WRITE_DST);
	CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(0)));
	desc_put(r, &m);
	for (size_t len = 0; len < SLOTS; len++) {
		struct ibv_wc wc = expect_recv(r->cq, len, len);

		CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		CHECK(wc.wc_flags & IBV_WC_WITH_IMM);
		CHECK_EQ(ntohl(wc.imm_data), 0xf0000000u + len);
		check_slot(&m, len);
		if (len + 1 < SLOTS)
			CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(len + 1)));
		ctl_put(r, "next");
	}
	expect_none(r->cq);
	mem_delete(&m);
	role_close(r);
}

static void
imm_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	uint8_t buf[SIZE];

	role_connect(r, &with_inline);
	dst = remote_take(r);
	for (size_t len = 0; len < SLOTS; len++) {
		pattern_fill(buf, len, len, 0);
		CHECK_OK(rpma_write_inline_with_imm(r->conn, dst, GUARD + len * SLOT, buf, len, ALWAYS,
			0xf0000000u + (uint32_t)len, CTX(len)));
		memset(buf, 0xee, sizeof(buf));
		CHECK_EQ(expect_ok(r->cq, len).opcode, IBV_WC_RDMA_WRITE);
		ctl_expect(r, "next");
	}
	expect_none(r->cq);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	role_close(r);
}

static void
send_target(struct role *r)
{
	const struct conn_opts opts = { .rq = SLOTS, .cq = 2 * SLOTS };
	struct mem m;

	role_connect(r, &opts);
	mem_new(r, &m, SLOTS * SLOT, RPMA_MR_USAGE_RECV);
	for (size_t len = 0; len < SLOTS; len++)
		CHECK_OK(rpma_recv(r->conn, m.mr, GUARD + len * SLOT, SLOT, CTX(len)));
	ctl_put(r, "ready");
	for (size_t len = 0; len < SLOTS; len++) {
		struct ibv_wc wc = expect_recv(r->cq, len, len);

		CHECK_EQ(wc.opcode, IBV_WC_RECV);
		CHECK(!(wc.wc_flags & IBV_WC_WITH_IMM));
		check_slot(&m, len);
	}
	expect_none(r->cq);
	mem_delete(&m);
	role_close(r);
}

static void
send_initiator(struct role *r)
{
	uint8_t buf[SIZE];

	role_connect(r, &with_inline);
	ctl_expect(r, "ready");
	for (size_t len = 0; len < SLOTS; len++) {
		if (len >= DEPTH)
			expect_ok(r->cq, len - DEPTH);
		pattern_fill(buf, len, len, 0);
		CHECK_OK(rpma_send_inline(r->conn, len ? buf : NULL, len, ALWAYS, CTX(len)));
		memset(buf, 0xee, sizeof(buf));
	}
	for (size_t len = SLOTS - DEPTH; len < SLOTS; len++)
		CHECK_EQ(expect_ok(r->cq, len).opcode, IBV_WC_SEND);
	expect_none(r->cq);
	role_close(r);
}

/* ---- many to one place: the last one wins, whatever the buffer holds meanwhile ---- */

#define TURNS 20

static void
same_place_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 64, RPMA_MR_USAGE_WRITE_DST);
	desc_put(r, &m);
	for (uint64_t turn = 1; turn <= TURNS; turn++) {
		ctl_expect(r, "turn");
		mem_check(&m, turn * DEPTH);
		ctl_put(r, "seen");
	}
	mem_delete(&m);
	role_close(r);
}

static void
same_place_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	uint8_t buf[64];

	role_connect(r, &with_inline);
	dst = remote_take(r);
	for (uint64_t i = 1; i <= (uint64_t)TURNS * DEPTH; i++) {
		int flags = i % DEPTH == 0 ? ALWAYS : ON_ERROR;

		pattern_fill(buf, sizeof(buf), i, 0);
		CHECK_OK(rpma_write_inline(r->conn, dst, GUARD, buf, sizeof(buf), flags, CTX(i)));
		if (flags == ON_ERROR)
			continue;
		expect_ok(r->cq, i);
		ctl_put(r, "turn");
		ctl_expect(r, "seen");
	}
	expect_none(r->cq);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	role_close(r);
}

/* ---- refused when posted ---- */

static void
refused_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 64, RPMA_MR_USAGE_WRITE_DST);
	desc_put(r, &m);
	ctl_expect(r, "done");
	mem_check_untouched(&m);
	mem_delete(&m);
	role_close(r);
}

static void
refuse_all(struct role *r, struct rpma_mr_remote *dst, const uint8_t *buf, size_t len, size_t offset,
	int flags)
{
	struct rpma_conn *conn = r->conn;

	CHECK_RET(rpma_write_inline(conn, dst, offset, buf, len, flags, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_write_inline_with_imm(conn, dst, offset, buf, len, flags, 1, NULL), RPMA_E_INVAL);
}

static void
refused_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	uint8_t buf[SIZE + 1] = { 0 };

	role_connect(r, &with_inline);
	dst = remote_take(r);
	refuse_all(r, dst, buf, SIZE + 1, 0, ALWAYS);
	refuse_all(r, dst, buf, SIZE_MAX, 0, ALWAYS);
	refuse_all(r, dst, NULL, 1, 0, ALWAYS);
	refuse_all(r, dst, buf, 8, GUARD + 64 + GUARD - 7, ALWAYS);
	refuse_all(r, dst, buf, 8, SIZE_MAX, ALWAYS);
	refuse_all(r, dst, buf, 8, GUARD, 0);
	refuse_all(r, dst, buf, 8, GUARD, ALWAYS | 1 << 4);
	refuse_all(r, dst, buf, 8, GUARD, RPMA_F_MORE | RPMA_F_FENCE);
	refuse_all(r, NULL, buf, 8, GUARD, ALWAYS);
	CHECK_RET(rpma_send_inline(r->conn, buf, SIZE + 1, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_send_inline(r->conn, NULL, 1, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_send_inline(r->conn, buf, 1, RPMA_F_MORE, NULL), RPMA_E_INVAL);
	CHECK_OK(rpma_conn_submit(r->conn));
	expect_none(r->cq);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	role_close(r);
}

/* a connection made for fewer bytes still takes 8 */
static void
least_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 64, RPMA_MR_USAGE_WRITE_DST);
	desc_put(r, &m);
	ctl_expect(r, "done");
	mem_check_head(&m, 8, 3);
	mem_delete(&m);
	role_close(r);
}

static void
least_initiator(struct role *r)
{
	const struct conn_opts opts = { .inline_size = 1 };
	struct rpma_mr_remote *dst;
	uint8_t buf[9];

	role_connect(r, &opts);
	dst = remote_take(r);
	pattern_fill(buf, sizeof(buf), 3, 0);
	CHECK_RET(rpma_write_inline(r->conn, dst, GUARD, buf, 9, ALWAYS, CTX(1)), RPMA_E_INVAL);
	CHECK_OK(rpma_write_inline(r->conn, dst, GUARD, buf, 8, ALWAYS, CTX(2)));
	expect_ok(r->cq, 2);
	expect_none(r->cq);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	role_close(r);
}

/* ---- more than the device takes ---- */

static void
limit_target(struct role *r)
{
	role_connect(r, NULL);
	role_close(r);
}

static void
limit_initiator(struct role *r)
{
	const struct conn_opts opts = { .inline_size = 1 << 20 };
	struct rpma_conn_cfg *cfg = cfg_new(&opts);
	struct rpma_conn_req *req = NULL;

	role_open(r);
	role_listen(r);
	CHECK_RET(rpma_conn_req_new(r->peer, r->addr, r->port, cfg, &req), RPMA_E_NOSUPP);
	CHECK(req == NULL);
	CHECK(strstr(rpma_errormsg(), "inline") != NULL);
	CHECK_OK(rpma_conn_cfg_delete(&cfg));
	r->conn = conn_connect(r, NULL);
	role_close(r);
}

static const struct scenario list[] = {
	{ "smoke-inline-write-every-size", write_target, write_initiator, SIZE, 0, NULL },
	{ "inline-write-every-size-held", write_target, write_initiator, SIZE, 0, "more" },
	{ "inline-write-imm-every-size", imm_target, imm_initiator, SIZE, 0, NULL },
	{ "smoke-inline-send-every-size", send_target, send_initiator, SIZE, 0, NULL },
	{ "inline-to-one-place", same_place_target, same_place_initiator, 64, 0, NULL },
	{ "inline-refused", refused_target, refused_initiator, 64, 0, NULL },
	{ "inline-at-least-8", least_target, least_initiator, 64, 0, NULL },
	{ "inline-beyond-the-device", limit_target, limit_initiator, 0, 0, NULL },
};

const struct scenario_group group_inline = { list, sizeof(list) / sizeof(list[0]) };
