/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conf_write_flush.c -- durable writes: one post, one completion, and the data is as durable as promised */

#include <string.h>
#include <unistd.h>

#include "groups.h"
#include "pattern.h"
#include "role.h"

#define SEED 0xdf
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
#define USAGE (RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)
#define USAGE_PERSISTENT (USAGE | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)

/* scenario->arg points to the type */
static const enum rpma_flush_type visibility = RPMA_FLUSH_TYPE_VISIBILITY;
static const enum rpma_flush_type persistent = RPMA_FLUSH_TYPE_PERSISTENT;

static enum rpma_flush_type
type_of(const struct role *r)
{
	return *(const enum rpma_flush_type *)r->scenario->arg;
}

/* memory that supports this type of flush: a file if it is to be durable */
static void
mem_new_for(struct role *r, struct mem *m, size_t len)
{
	if (type_of(r) == RPMA_FLUSH_TYPE_PERSISTENT)
		mem_new_file(r, m, len, USAGE_PERSISTENT);
	else
		mem_new(r, m, len, USAGE);
}

/* the file, read through its descriptor */
static void
check_file(const struct mem *m, uint64_t seed)
{
	uint8_t buf[64 * KIB];

	for (size_t done = 0; m->fd >= 0 && done < m->len; done += sizeof(buf)) {
		size_t n = m->len - done < sizeof(buf) ? m->len - done : sizeof(buf);

		mem_read_file(m, buf, n, GUARD + done);
		CHECK_EQ(pattern_check(buf, n, seed, done), -1);
	}
}

static void
initiator_open(struct role *r, const struct conn_opts *opts, struct mem *m, size_t len)
{
	role_connect(r, opts);
	if (!r->soft)
		declare_direct_write(r);
	mem_new(r, m, len, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(m, SEED);
}

/* ---- each size on its own ---- */

static void
target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new_for(r, &m, r->scenario->size);
	desc_put(r, &m);
	ctl_expect(r, "flushed");
	mem_check(&m, SEED);
	check_file(&m, SEED);
	mem_check_durable(r, &m, SEED);
	mem_delete(&m);
	role_close(r);
}

static void
one_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct ibv_wc wc;
	struct mem m;

	initiator_open(r, NULL, &m, r->scenario->size);
	dst = remote_take(r);
	post_write_flush(r, dst, &m, GUARD, m.len, type_of(r), ALWAYS, 9);
	wc = expect_ok(r->cq, 9);
	CHECK(wc_is_flush(r, &wc));
	expect_none(r->cq);
	ctl_put(r, "flushed");
	mem_check(&m, SEED);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

/* ---- many, in flight together, among other operations and in batches ---- */

#define MANY 256
/* a durable write takes two places in the queue */
#define WINDOW ((uint64_t)DEPTH / 4)

static void
many_initiator(struct role *r)
{
	const size_t piece = r->scenario->size / MANY;
	struct rpma_mr_remote *dst;
	uint64_t done = 0;
	struct mem m;

	initiator_open(r, NULL, &m, r->scenario->size);
	dst = remote_take(r);
	for (uint64_t i = 0; i < MANY; i++) {
		size_t at = GUARD + i * piece;
		bool last = i % WINDOW == WINDOW - 1;

		if (i % 3 == 0)
			CHECK_OK(rpma_write(r->conn, dst, at, m.mr, at, piece, ON_ERROR | RPMA_F_MORE, NULL));
		/* every fourth is unsignaled, and every second is batched with the next ones */
		post_write_flush(r, dst, &m, at, piece, type_of(r),
			(i % 4 == 1 ? ON_ERROR : ALWAYS) | (i % 2 && !last ? RPMA_F_MORE : 0), i);
		for (; last && done <= i; done++) {
			if (done % 4 != 1)
				expect_ok(r->cq, done);
		}
	}
	expect_none(r->cq);
	ctl_put(r, "flushed");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

/* ---- refused when posted ---- */

static void
refused_target(struct role *r)
{
	struct mem visible, none;

	role_connect(r, NULL);
	mem_new(r, &visible, 64, USAGE);
	mem_new(r, &none, 64, RPMA_MR_USAGE_WRITE_DST);
	desc_put(r, &visible);
	desc_put(r, &none);
	ctl_expect(r, "done");
	mem_check_untouched(&visible);
	mem_check_untouched(&none);
	mem_delete(&visible);
	mem_delete(&none);
	role_close(r);
}

static void
refuse(struct role *r, struct rpma_mr_remote *dst, size_t dst_at, const struct mem *m, size_t src_at,
	size_t len, int type, int expected)
{
	const int flags[] = { ALWAYS, ALWAYS | RPMA_F_MORE };

	for (int i = 0; i < 2; i++)
		CHECK_RET(rpma_write_flush(r->conn, dst, dst_at, m ? m->mr : NULL, src_at, len,
				  (enum rpma_flush_type)type, flags[i], CTX(i)),
			expected);
}

static void
refused_initiator(struct role *r)
{
	const int seen = RPMA_FLUSH_TYPE_VISIBILITY;
	struct rpma_mr_remote *visible, *none;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 64, RPMA_MR_USAGE_WRITE_SRC);
	visible = remote_take(r);
	none = remote_take(r);
	refuse(r, visible, m.mapped - 7, &m, 0, 8, seen, RPMA_E_INVAL);
	refuse(r, visible, 0, &m, m.mapped - 7, 8, seen, RPMA_E_INVAL);
	refuse(r, visible, SIZE_MAX, &m, 0, 8, seen, RPMA_E_INVAL);
	refuse(r, visible, 0, &m, 0, SIZE_MAX, seen, RPMA_E_INVAL);
	refuse(r, visible, 0, &m, 0, 8, 2, RPMA_E_INVAL);
	refuse(r, visible, 0, NULL, 0, 0, seen, RPMA_E_INVAL);
	refuse(r, NULL, 0, &m, 0, 8, seen, RPMA_E_INVAL);
	refuse(r, none, 0, &m, 0, 8, seen, RPMA_E_NOSUPP);
	refuse(r, visible, 0, &m, 0, 8, RPMA_FLUSH_TYPE_PERSISTENT, RPMA_E_NOSUPP);
	CHECK_OK(rpma_conn_submit(r->conn));
	expect_none(r->cq);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&visible));
	CHECK_OK(rpma_mr_remote_delete(&none));
	mem_delete(&m);
	role_close(r);
}

/* ---- the region is deregistered: one completion for each, the first one with the reason ---- */

#define ENDING 20
#define BAD 7

static void
gone_target(struct role *r)
{
	struct mem m, gone;

	role_connect(r, NULL);
	mem_new(r, &m, ENDING * 8, USAGE);
	mem_new(r, &gone, 8, USAGE);
	desc_put(r, &m);
	desc_put(r, &gone);
	mem_dereg(&gone);
	ctl_put(r, "gone");
	expect_end(r->conn);
	ctl_expect(r, "broken there"); /* not before that: fewer bytes may have arrived */
	mem_check_head(&m, BAD * 8, SEED);
	mem_check_untouched(&gone);
	mem_delete(&m);
	mem_delete(&gone);
	conn_delete(&r->conn);
	role_delete(r);
}

struct ending {
	bool on_error;     /* a success raises no completion */
	bool same_context; /* the same for all operations */
	bool held;
};

static const struct ending plain = { 0 };
static const struct ending quiet = { .on_error = true };
static const struct ending same = { .same_context = true };
static const struct ending held = { .held = true };

static uint64_t
ctx_of(const struct ending *e, uint64_t i)
{
	return e->same_context ? 0 : i;
}

static void
gone_initiator(struct role *r)
{
	const struct ending *e = r->scenario->arg;
	const int flags = (e->on_error ? ON_ERROR : ALWAYS) | (e->held ? RPMA_F_MORE : 0);
	struct rpma_mr_remote *dst, *gone;
	struct mem m;

	role_connect(r, NULL);
	if (!r->soft)
		declare_direct_write(r);
	mem_new(r, &m, ENDING * 8, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, SEED);
	dst = remote_take(r);
	gone = remote_take(r);
	ctl_expect(r, "gone");
	for (uint64_t i = 0; i < ENDING; i++) {
		size_t at = GUARD + i * 8;

		CHECK_OK(rpma_write_flush(r->conn, i == BAD ? gone : dst, i == BAD ? GUARD : at, m.mr, at, 8,
			RPMA_FLUSH_TYPE_VISIBILITY, flags, CTX(ctx_of(e, i))));
	}
	CHECK_OK(rpma_conn_submit(r->conn));
	for (uint64_t i = 0; i < BAD && !e->on_error; i++)
		expect_ok(r->cq, ctx_of(e, i));
	expect_wc(r->cq, ctx_of(e, BAD), IBV_WC_REM_ACCESS_ERR);
	for (uint64_t i = BAD + 1; i < ENDING; i++)
		expect_wc(r->cq, ctx_of(e, i), IBV_WC_WR_FLUSH_ERR);
	expect_none(r->cq);
	ctl_put(r, "broken there");
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	expect_none(r->cq);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	CHECK_OK(rpma_mr_remote_delete(&gone));
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

/* ---- the flush fails although the write did not: the file is now shorter than the region ---- */

static void
truncated_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new_file(r, &m, MIB, USAGE_PERSISTENT);
	desc_put(r, &m);
	CHECK_EQ(ftruncate(m.fd, 4096), 0);
	ctl_put(r, "truncated");
	expect_end(r->conn);
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

static void
truncated_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct ibv_wc wc;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 4096, RPMA_MR_USAGE_WRITE_SRC);
	dst = remote_take(r);
	ctl_expect(r, "truncated");
	for (uint64_t i = 1; i <= 3; i++)
		CHECK_OK(rpma_write_flush(r->conn, dst, MIB / 2, m.mr, 0, m.len, RPMA_FLUSH_TYPE_PERSISTENT,
			ALWAYS, CTX(i)));
	wc = next_wc(r->cq);
	CHECK_EQ(wc.wr_id, 1);
	CHECK(wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR);
	expect_wc(r->cq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_wc(r->cq, 3, IBV_WC_WR_FLUSH_ERR);
	expect_none(r->cq);
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

/* ---- a queue with room for only one of its two operations: neither of them is posted alone ---- */

static void
half_target(struct role *r)
{
	uint64_t count;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 8, USAGE);
	desc_put(r, &m);
	count = ctl_get_u64(r);
	for (uint64_t i = 0; i < count; i++) {
		CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(i)));
		expect_recv(r->cq, i, 0);
	}
	ctl_expect(r, "flushed");
	mem_check(&m, SEED);
	mem_delete(&m);
	role_close(r);
}

static void
half_initiator(struct role *r)
{
	const struct conn_opts opts = { .sq = 8, .cq = 2048 };
	struct rpma_mr_remote *dst;
	uint64_t posted = 0;
	struct mem m;
	int ret;

	initiator_open(r, &opts, &m, 8);
	dst = remote_take(r);
	/* messages without a receive, as many as leave one place free */
	for (ret = 0; !ret && posted <= 1024; posted += !ret)
		ret = rpma_send(r->conn, NULL, 0, 0, ALWAYS, CTX(posted));
	CHECK_RET(ret, RPMA_E_PROVIDER);
	ctl_put_u64(r, posted);
	for (uint64_t i = 0; i < posted; i++)
		expect_ok(r->cq, i);
	for (uint64_t i = 0; i + 1 < posted; i++)
		CHECK_OK(rpma_write(r->conn, dst, GUARD, m.mr, GUARD, 8, ALWAYS | RPMA_F_MORE, CTX(100 + i)));
	ret = rpma_write_flush(r->conn, dst, GUARD, m.mr, GUARD, 8, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS,
		CTX(7));
	/* there is room for it now, or it is not posted, and the others stay held back */
	for (uint64_t i = 0; i + 1 < posted; i++) {
		if (ret)
			(void)rpma_conn_submit(r->conn);
		expect_ok(r->cq, 100 + i);
	}
	CHECK(ret == 0 || ret == RPMA_E_PROVIDER);
	if (ret)
		CHECK_OK(rpma_write_flush(r->conn, dst, GUARD, m.mr, GUARD, 8, RPMA_FLUSH_TYPE_VISIBILITY,
			ALWAYS, CTX(7)));
	expect_ok(r->cq, 7);
	expect_none(r->cq);
	ctl_put(r, "flushed");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

/* clang-format off */
#define IN_SIZES(op, arg) \
	{ op "-0", target, one_initiator, 0, 0, arg }, \
	{ op "-1", target, one_initiator, 1, 0, arg }, \
	{ op "-7", target, one_initiator, 7, 0, arg }, \
	{ op "-4KiB", target, one_initiator, 4 * KIB, 0, arg }, \
	{ op "-1MiB", target, one_initiator, MIB, 0, arg }, \
	{ op "-interleaved-64KiB", target, many_initiator, 64 * KIB, 0, arg }, \
	{ op "-interleaved-1MiB", target, many_initiator, MIB, 0, arg }
/* clang-format on */

static const struct scenario list[] = {
	IN_SIZES("smoke-write-visible", &visibility),
	IN_SIZES("smoke-write-durable", &persistent),
	{ "write-flush-refused", refused_target, refused_initiator, 64, 0, NULL },
	{ "write-flush-region-gone", gone_target, gone_initiator, 64, 0, &plain },
	{ "write-flush-region-gone-on-error", gone_target, gone_initiator, 64, 0, &quiet },
	{ "write-flush-region-gone-same-context", gone_target, gone_initiator, 64, 0, &same },
	{ "write-flush-region-gone-held", gone_target, gone_initiator, 64, 0, &held },
	{ "write-flush-truncated-file", truncated_target, truncated_initiator, MIB, SOFT_ONLY, NULL },
	{ "write-flush-no-room-for-both", half_target, half_initiator, 64, 0, NULL },
};

const struct scenario_group group_write_flush = { list, sizeof(list) / sizeof(list[0]) };
