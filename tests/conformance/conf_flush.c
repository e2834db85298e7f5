/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conf_flush.c -- flushes of memory that can be flushed and of memory that cannot */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "groups.h"
#include "pattern.h"
#include "role.h"

#define SEED 0xf1
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define FOUR_GIB ((size_t)1 << 32)
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define USAGE (RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)
#define USAGE_PERSISTENT (USAGE | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)

/* the file has the content of the mapping: read through a descriptor */
static void
check_file(const struct mem *m, uint64_t seed)
{
	static const size_t step = 65536;
	uint8_t buf[65536];

	for (size_t done = 0; done < m->len; done += step) {
		size_t n = m->len - done < step ? m->len - done : step;

		mem_read_file(m, buf, n, GUARD + done);
		CHECK_EQ(pattern_check(buf, n, seed, done), -1);
	}
}

static void
visibility_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, r->scenario->size, USAGE);
	desc_put(r, &m);
	ctl_expect(r, "flushed");
	mem_check(&m, SEED);
	mem_delete(&m);
	role_close(r);
}

static void
persistent_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new_file(r, &m, r->scenario->size, USAGE_PERSISTENT);
	desc_put(r, &m);
	ctl_expect(r, "flushed");
	mem_check(&m, SEED);
	check_file(&m, SEED);
	mem_check_durable(r, &m, SEED);
	mem_delete(&m);
	role_close(r);
}

static void
memfd_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new_memfd(r, &m, r->scenario->size, USAGE_PERSISTENT);
	desc_put(r, &m);
	ctl_expect(r, "flushed");
	check_file(&m, SEED);
	mem_delete(&m);
	role_close(r);
}

/* scenario->arg points to the type */
static const enum rpma_flush_type visibility = RPMA_FLUSH_TYPE_VISIBILITY;
static const enum rpma_flush_type persistent = RPMA_FLUSH_TYPE_PERSISTENT;

static void
flush_initiator(struct role *r)
{
	enum rpma_flush_type type = *(const enum rpma_flush_type *)r->scenario->arg;
	struct rpma_mr_remote *dst;
	struct ibv_wc wc;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, r->scenario->size, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, SEED);
	dst = remote_take(r);
	if (!r->soft)
		declare_direct_write(r);
	CHECK_OK(rpma_write(r->conn, dst, GUARD, m.mr, GUARD, m.len, ON_ERROR, NULL));
	post_flush(r, dst, GUARD, m.len, type, ALWAYS, 9);
	wc = expect_ok(r->cq, 9);
	CHECK(wc_is_flush(r, &wc));
	expect_none(r->cq);
	ctl_put(r, "flushed");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

/* many small durable writes, in flight together */
static void
many_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	size_t piece = r->scenario->size / 16;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, r->scenario->size, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, SEED);
	dst = remote_take(r);
	if (!r->soft)
		declare_direct_write(r);
	for (uint64_t i = 0; i < 16; i++) {
		size_t at = GUARD + i * piece;

		CHECK_OK(rpma_write(r->conn, dst, at, m.mr, at, piece, ON_ERROR, NULL));
		post_flush(r, dst, at, piece, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, 2 * i);
		post_flush(r, dst, at, piece, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, 2 * i + 1);
	}
	for (uint64_t i = 0; i < 32; i++)
		expect_ok(r->cq, i);
	ctl_put(r, "flushed");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

/* ---- what must be refused when it is posted ---- */

/*
 * Anonymous memory registered for both types. That is allowed, but a device with a flush operation grants
 * only visibility. A device without one reads instead, and cannot tell what kind of memory it is.
 */
static void
anonymous_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 4 * KIB, USAGE_PERSISTENT);
	desc_put(r, &m);
	ctl_expect(r, "flushed");
	mem_check(&m, SEED);
	mem_delete(&m);
	role_close(r);
}

static void
anonymous_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct ibv_wc wc;
	struct mem m;
	int type = 0;

	role_connect(r, NULL);
	mem_new(r, &m, 4 * KIB, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, SEED);
	dst = remote_take(r);
	CHECK_OK(rpma_write(r->conn, dst, GUARD, m.mr, GUARD, m.len, ON_ERROR, NULL));
	post_flush(r, dst, GUARD, m.len, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, 1);
	wc = expect_ok(r->cq, 1);
	if (!r->soft && wc.opcode == IBV_WC_RDMA_READ)
		check_skip(r, "this device flushes by reading");
	CHECK_OK(rpma_mr_remote_get_flush_type(dst, &type));
	CHECK_EQ(type, RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
	CHECK_RET(rpma_flush(r->conn, dst, GUARD, m.len, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, NULL),
		RPMA_E_NOSUPP);
	/* a declaration of direct write does not change that */
	declare_direct_write(r);
	CHECK_RET(rpma_flush(r->conn, dst, GUARD, m.len, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, NULL),
		RPMA_E_NOSUPP);
	expect_none(r->cq);
	ctl_put(r, "flushed");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

/* a region that was registered for no flush, or for the other type */
static void
unasked_target(struct role *r)
{
	struct mem none, only_persistent;

	role_connect(r, NULL);
	mem_new(r, &none, 64, RPMA_MR_USAGE_WRITE_DST);
	mem_new_file(r, &only_persistent, 64, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
	desc_put(r, &none);
	desc_put(r, &only_persistent);
	ctl_expect(r, "done");
	mem_delete(&none);
	mem_delete(&only_persistent);
	role_close(r);
}

static void
unasked_initiator(struct role *r)
{
	struct rpma_mr_remote *none, *only_persistent;

	role_connect(r, NULL);
	none = remote_take(r);
	only_persistent = remote_take(r);
	declare_direct_write(r);
	CHECK_RET(rpma_flush(r->conn, none, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, NULL), RPMA_E_NOSUPP);
	CHECK_RET(rpma_flush(r->conn, none, 0, 8, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, NULL), RPMA_E_NOSUPP);
	CHECK_RET(rpma_flush(r->conn, only_persistent, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, NULL),
		RPMA_E_NOSUPP);
	CHECK_RET(rpma_flush(r->conn, only_persistent, 0, 8, (enum rpma_flush_type)2, ALWAYS, NULL),
		RPMA_E_INVAL);
	expect_none(r->cq);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&none));
	CHECK_OK(rpma_mr_remote_delete(&only_persistent));
	role_close(r);
}

/*
 * A region as the original library registers it: its descriptor does not say what the device can do, and it may be
 * written and flushed by reading, or (scenario->arg) not even be read
 */
static int
usage_of_original(const struct role *r)
{
	return RPMA_MR_USAGE_WRITE_DST | (r->scenario->arg ? 0 : RPMA_MR_USAGE_READ_SRC);
}

static void
original_target(struct role *r)
{
	struct mem m;
	struct desc d;

	role_connect(r, NULL);
	mem_new(r, &m, r->scenario->size, usage_of_original(r));
	desc_get(&m, &d);
	d.len = 21;
	desc_alter_usage(&d, usage_of_original(r) | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
	ctl_send(r, d.bytes, d.len);
	ctl_expect(r, "flushed");
	mem_check(&m, SEED);
	ctl_put(r, "seen");
	ctl_expect(r, "flushed");
	mem_check(&m, SEED + 1);
	mem_delete(&m);
	role_close(r);
}

static void
original_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, r->scenario->size, RPMA_MR_USAGE_WRITE_SRC);
	dst = remote_take(r);
	pattern_fill(m.data, m.len, SEED, 0);
	CHECK_OK(rpma_write(r->conn, dst, GUARD, m.mr, GUARD, m.len, ON_ERROR, NULL));
	CHECK_OK(rpma_flush(r->conn, dst, GUARD, m.len, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, CTX(1)));
	CHECK_EQ(expect_ok(r->cq, 1).opcode, IBV_WC_RDMA_READ);
	ctl_put(r, "flushed");
	ctl_expect(r, "seen");
	pattern_fill(m.data, m.len, SEED + 1, 0);
	CHECK_OK(rpma_write_flush(r->conn, dst, GUARD, m.mr, GUARD, m.len, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS,
		CTX(2)));
	expect_ok(r->cq, 2);
	expect_none(r->cq);
	ctl_put(r, "flushed");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

/* a range outside the region, by means of a descriptor with a wrong size */
static void
beyond_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 64, USAGE);
	desc_put(r, &m);
	ctl_expect(r, "done");
	expect_end(r->conn);
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

/*
 * A flush of this length must fail when it is posted or when the target checks it. Over hardware the length
 * travels in 32 bits; cut to these it would lie within the region and be acknowledged.
 */
static void
beyond_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct ibv_wc wc;
	struct desc d;
	int ret;

	role_connect(r, NULL);
	desc_take(r, &d);
	desc_alter_size(&d, (int64_t)(2 * FOUR_GIB));
	dst = desc_import(&d);
	ret = rpma_flush(r->conn, dst, 0, FOUR_GIB + 8, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, CTX(1));
	if (ret == 0) {
		wc = next_wc(r->cq);
		if (!r->soft && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_READ)
			check_skip(r, "this device flushes by reading, which has no range");
		CHECK(wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_OP_ERR);
	} else {
		CHECK(!r->soft);
		CHECK_RET(ret, RPMA_E_INVAL);
	}
	expect_none(r->cq);
	ctl_put(r, "done");
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	conn_delete(&r->conn);
	role_delete(r);
}

/*
 * ---- a file truncated under its mapping, or a mapping replaced by another: an error for the initiator, and
 * the target survives ----
 */

/* maps other memory at the same address: a flush of it must not count as a flush of the file */
static void
replace_mapping(struct mem *m)
{
	CHECK(mmap(m->base, m->mapped, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED | MAP_ANONYMOUS, -1,
		      0) == m->base);
}

/* scenario->arg: not NULL if replaced instead of truncated */
static void
truncated_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new_file(r, &m, MIB, USAGE_PERSISTENT);
	desc_put(r, &m);
	ctl_expect(r, "flushed");
	mem_check_durable_untouched(r, &m);
	if (r->scenario->arg)
		replace_mapping(&m);
	else
		CHECK_EQ(ftruncate(m.fd, 4096), 0);
	ctl_put(r, "truncated");
	ctl_expect(r, "failed");
	mem_dereg(&m);
	mem_delete(&m);
	expect_end(r->conn);
	conn_delete(&r->conn);
	role_delete(r);
}

static void
truncated_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct ibv_wc wc;

	role_connect(r, NULL);
	dst = remote_take(r);
	post_flush(r, dst, GUARD, MIB, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, 1);
	expect_ok(r->cq, 1);
	ctl_put(r, "flushed");
	ctl_expect(r, "truncated");
	post_flush(r, dst, 0, MIB, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, 2);
	post_flush(r, dst, 0, 8, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, 3);
	wc = next_wc(r->cq);
	CHECK_EQ(wc.wr_id, 2);
	CHECK(wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR);
	expect_wc(r->cq, 3, IBV_WC_WR_FLUSH_ERR);
	expect_none(r->cq);
	ctl_put(r, "failed");
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	conn_delete(&r->conn);
	role_delete(r);
}

/* a write or read of the missing part must not kill the target either */
static void
truncated_write_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct ibv_wc wc;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 4096, RPMA_MR_USAGE_WRITE_SRC);
	dst = remote_take(r);
	post_flush(r, dst, GUARD, MIB, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, 2);
	expect_ok(r->cq, 2);
	ctl_put(r, "flushed");
	ctl_expect(r, "truncated");
	CHECK_OK(rpma_write(r->conn, dst, MIB / 2, m.mr, 0, m.len, ALWAYS, CTX(1)));
	wc = next_wc(r->cq);
	CHECK_EQ(wc.wr_id, 1);
	CHECK(wc.status != IBV_WC_SUCCESS);
	ctl_put(r, "failed");
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

/* clang-format off */
#define IN_SIZES(op, target, arg) \
	{ op "-0", target, flush_initiator, 0, 0, arg }, \
	{ op "-1", target, flush_initiator, 1, 0, arg }, \
	{ op "-7", target, flush_initiator, 7, 0, arg }, \
	{ op "-8", target, flush_initiator, 8, 0, arg }, \
	{ op "-4KiB", target, flush_initiator, 4 * KIB, 0, arg }, \
	{ op "-1MiB", target, flush_initiator, MIB, 0, arg }, \
	{ op "-64MiB", target, flush_initiator, 64 * MIB, 0, arg }
/* clang-format on */

static const struct scenario list[] = {
	IN_SIZES("flush-visibility", visibility_target, &visibility),
	IN_SIZES("flush-persistent", persistent_target, &persistent),
	{ "smoke-flush-many", persistent_target, many_initiator, 64 * KIB, 0, NULL },
	{ "smoke-flush-anonymous-memory", anonymous_target, anonymous_initiator, 4 * KIB, 0, NULL },
	{ "flush-type-not-registered", unasked_target, unasked_initiator, 64, 0, NULL },
	{ "flush-original-readable", original_target, original_initiator, 64 * KIB, 0, NULL },
	{ "flush-original-without-rights", original_target, original_initiator, 64 * KIB, SOFT_ONLY, "none" },
	{ "flush-beyond-4GiB", beyond_target, beyond_initiator, 64, 0, NULL },
	{ "flush-truncated-file", truncated_target, truncated_initiator, MIB, SOFT_ONLY, NULL },
	{ "flush-replaced-mapping", truncated_target, truncated_initiator, MIB, SOFT_ONLY, "replaced" },
	{ "flush-memfd", memfd_target, flush_initiator, MIB, SOFT_ONLY, &persistent },
	{ "write-truncated-file", truncated_target, truncated_write_initiator, MIB, SOFT_ONLY, NULL },
};

const struct scenario_group group_flush = { list, sizeof(list) / sizeof(list[0]) };
