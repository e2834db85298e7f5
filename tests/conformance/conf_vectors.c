/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conf_vectors.c -- reads and writes with several SGEs: of several regions, of no bytes, of too many */

#include <string.h>

#include "groups.h"
#include "pattern.h"
#include "role.h"

#define SEED 0x5e
#define KIB ((size_t)1 << 10)
#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define PIECES 16
/* bytes between segments, which show a segment that is too long */
#define GAP ((size_t)3)

/* two regions hold the segments, in turn, the last segment first */
struct pieces {
	struct mem at[2];
	struct rpma_sge sge[PIECES];
	int count;
	size_t total;
};

/* every third segment is empty, from the second on; the others have odd lengths of about `unit` */
static size_t
piece_len(int i, size_t unit)
{
	return i % 3 == 1 ? 0 : unit + (size_t)i;
}

static size_t
room(size_t unit)
{
	return (PIECES / 2) * (unit + PIECES + GAP);
}

static void
pieces_open(struct role *r, struct pieces *p, size_t unit, int usage)
{
	for (int i = 0; i < 2; i++)
		mem_new(r, &p->at[i], room(unit), usage);
}

static void
pieces_close(struct pieces *p)
{
	for (int i = 0; i < 2; i++)
		mem_delete(&p->at[i]);
}

static void
lay_out(struct pieces *p, int count, size_t unit)
{
	size_t end[2] = { GUARD + room(unit), GUARD + room(unit) };

	p->count = count;
	p->total = 0;
	for (int i = 0; i < count; i++) {
		size_t len = piece_len(i, unit);

		end[i % 2] -= len;
		p->sge[i] = (struct rpma_sge){ p->at[i % 2].mr, end[i % 2], len };
		end[i % 2] -= GAP;
		p->total += len;
	}
}

static uint8_t *
piece_data(struct pieces *p, int i)
{
	return p->at[i % 2].base + p->sge[i].offset;
}

/* the segments, one after the other, get the pattern from this place on */
static void
pieces_fill(struct pieces *p, size_t from)
{
	for (int i = 0; i < 2; i++)
		memset(p->at[i].base, GUARD_BYTE, p->at[i].mapped);
	for (int i = 0; i < p->count; i++) {
		pattern_fill(piece_data(p, i), p->sge[i].len, SEED, from);
		from += p->sge[i].len;
	}
}

/* checks the same, and that the bytes between segments are untouched */
static void
pieces_check(struct pieces *p, size_t from)
{
	for (int i = 0; i < p->count; i++) {
		CHECK_EQ(pattern_check(piece_data(p, i), p->sge[i].len, SEED, from), -1);
		from += p->sge[i].len;
		memset(piece_data(p, i), GUARD_BYTE, p->sge[i].len);
	}
	for (int i = 0; i < 2; i++)
		mem_check_untouched(&p->at[i]);
}

/* the total bytes of 1, 2, ... PIECES segments */
static size_t
all_totals(size_t unit)
{
	size_t sum = 0;

	for (int n = 1; n <= PIECES; n++) {
		for (int i = 0; i < n; i++)
			sum += piece_len(i, unit);
	}
	return sum;
}

static const struct conn_opts with_pieces = { .max_sge = PIECES };

/* ---- one to PIECES segments ---- */

static void
writev_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, all_totals(r->scenario->size), RPMA_MR_USAGE_WRITE_DST);
	desc_put(r, &m);
	ctl_expect(r, "written");
	mem_check(&m, SEED);
	mem_delete(&m);
	role_close(r);
}

static void
writev_initiator(struct role *r)
{
	const size_t unit = r->scenario->size;
	struct rpma_mr_remote *dst;
	struct pieces p;
	size_t at = 0;

	role_connect(r, &with_pieces);
	pieces_open(r, &p, unit, RPMA_MR_USAGE_WRITE_SRC);
	dst = remote_take(r);
	for (int n = 1; n <= PIECES; n++) {
		lay_out(&p, n, unit);
		pieces_fill(&p, at);
		CHECK_OK(rpma_writev(r->conn, dst, GUARD + at, p.sge, n, ALWAYS, CTX(n)));
		CHECK_EQ(expect_ok(r->cq, (uint64_t)n).opcode, IBV_WC_RDMA_WRITE);
		at += p.total;
	}
	expect_none(r->cq);
	ctl_put(r, "written");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	pieces_close(&p);
	role_close(r);
}

static void
readv_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, all_totals(r->scenario->size), RPMA_MR_USAGE_READ_SRC);
	mem_fill(&m, SEED);
	desc_put(r, &m);
	ctl_expect(r, "read");
	mem_check(&m, SEED);
	mem_delete(&m);
	role_close(r);
}

static void
readv_initiator(struct role *r)
{
	const size_t unit = r->scenario->size;
	struct rpma_mr_remote *src;
	struct pieces p;
	size_t at = 0;

	role_connect(r, &with_pieces);
	pieces_open(r, &p, unit, RPMA_MR_USAGE_READ_DST);
	src = remote_take(r);
	for (int n = 1; n <= PIECES; n++) {
		lay_out(&p, n, unit);
		CHECK_OK(rpma_readv(r->conn, p.sge, n, src, GUARD + at, ALWAYS, CTX(n)));
		CHECK_EQ(expect_ok(r->cq, (uint64_t)n).opcode, IBV_WC_RDMA_READ);
		pieces_check(&p, at);
		at += p.total;
	}
	expect_none(r->cq);
	ctl_put(r, "read");
	CHECK_OK(rpma_mr_remote_delete(&src));
	pieces_close(&p);
	role_close(r);
}

/* ---- the SGEs are the caller's again when the call returns ---- */

#define REUSED ((size_t)32)

static void
reused_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, REUSED * 2 * 5, RPMA_MR_USAGE_WRITE_DST);
	desc_put(r, &m);
	ctl_expect(r, "written");
	mem_check(&m, SEED);
	mem_delete(&m);
	role_close(r);
}

/* one array for all posts, rewritten while they are batched or under way */
static void
reused_initiator(struct role *r)
{
	const struct conn_opts opts = { .max_sge = 2 };
	const int more = r->scenario->arg ? RPMA_F_MORE : 0;
	struct rpma_mr_remote *dst;
	struct rpma_sge sge[2];
	struct mem m;

	role_connect(r, &opts);
	mem_new(r, &m, REUSED * 2 * 5, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, SEED);
	dst = remote_take(r);
	for (size_t i = 0; i < REUSED; i++) {
		sge[0] = (struct rpma_sge){ m.mr, GUARD + i * 10, 3 };
		sge[1] = (struct rpma_sge){ m.mr, GUARD + i * 10 + 3, 7 };
		CHECK_OK(rpma_writev(r->conn, dst, GUARD + i * 10, sge, 2,
			i + 1 < REUSED ? ALWAYS | more : ALWAYS, CTX(i)));
		memset(sge, 0xff, sizeof(sge));
	}
	for (uint64_t i = 0; i < REUSED; i++)
		expect_ok(r->cq, i);
	expect_none(r->cq);
	ctl_put(r, "written");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

/* ---- no bytes, in any number of SGEs ---- */

#define RIGHTS (RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC)

static void
untouched_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 4 * KIB, RIGHTS);
	desc_put(r, &m);
	ctl_expect(r, "done");
	mem_check_untouched(&m);
	mem_delete(&m);
	role_close(r);
}

static void
nothing_initiator(struct role *r)
{
	const struct conn_opts opts = { .max_sge = 4 };
	struct rpma_mr_remote *remote;
	struct rpma_sge sge[4];
	struct mem m;

	role_connect(r, &opts);
	mem_new(r, &m, KIB, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST);
	mem_fill(&m, SEED);
	remote = remote_take(r);
	for (size_t i = 0; i < 4; i++)
		sge[i] = (struct rpma_sge){ m.mr, GUARD + i, 0 };
	CHECK_OK(rpma_writev(r->conn, remote, GUARD, NULL, 0, ALWAYS, CTX(1)));
	CHECK_OK(rpma_readv(r->conn, NULL, 0, remote, GUARD, ALWAYS, CTX(2)));
	for (int n = 1; n <= 4; n++) {
		CHECK_OK(rpma_writev(r->conn, remote, GUARD, sge, n, ALWAYS, CTX(2 * n + 1)));
		CHECK_OK(rpma_readv(r->conn, sge, n, remote, GUARD, ALWAYS, CTX(2 * n + 2)));
	}
	for (uint64_t i = 1; i <= 10; i++)
		expect_ok(r->cq, i);
	expect_none(r->cq);
	mem_check(&m, SEED);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&remote));
	mem_delete(&m);
	role_close(r);
}

/* ---- refused when posted, leaving nothing behind ---- */

struct refused {
	struct role *r;
	struct rpma_mr_remote *remote;
	struct mem m;
};

/* as a write, as a read, and as a batched post */
static void
expect_refused(struct refused *f, const struct rpma_sge *sge, int count, size_t remote_offset)
{
	struct rpma_conn *conn = f->r->conn;

	CHECK_RET(rpma_writev(conn, f->remote, remote_offset, sge, count, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_readv(conn, sge, count, f->remote, remote_offset, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_writev(conn, f->remote, remote_offset, sge, count, ALWAYS | RPMA_F_MORE, NULL),
		RPMA_E_INVAL);
}

static void
refuse_pieces(struct refused *f)
{
	const struct rpma_mr_local *mr = f->m.mr;
	const size_t end = f->m.mapped;
	struct rpma_sge one = { mr, 0, 8 };
	struct rpma_sge two[2] = { { mr, 0, 8 }, { mr, end - 7, 8 } };
	struct rpma_sge three[3] = { { mr, 0, 8 }, { mr, 0, 8 }, { mr, 0, 8 } };

	expect_refused(f, three, 3, 0); /* the connection was made for two */
	expect_refused(f, &one, -1, 0);
	expect_refused(f, NULL, 1, 0);
	expect_refused(f, two, 2, 0); /* the second ends one byte too late */
	two[1] = (struct rpma_sge){ mr, end + 1, 0 };
	expect_refused(f, two, 2, 0);
	two[1] = (struct rpma_sge){ mr, SIZE_MAX, 8 };
	expect_refused(f, two, 2, 0);
	two[1] = (struct rpma_sge){ mr, 8, SIZE_MAX - 7 };
	expect_refused(f, two, 2, 0);
	two[1] = (struct rpma_sge){ NULL, 0, 8 };
	expect_refused(f, two, 2, 0);
	/* the sum ends one byte after the remote region */
	two[1] = (struct rpma_sge){ mr, 8, 9 };
	expect_refused(f, two, 2, GUARD + 4 * KIB + GUARD - 16);
}

static void
refused_initiator(struct role *r)
{
	const struct conn_opts opts = { .max_sge = 2 };
	struct refused f = { .r = r };
	struct rpma_sge sge[2];

	role_connect(r, &opts);
	mem_new(r, &f.m, KIB, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST);
	mem_fill(&f.m, SEED);
	f.remote = remote_take(r);
	refuse_pieces(&f);
	CHECK_RET(rpma_writev(r->conn, NULL, 0, NULL, 0, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_RET(rpma_readv(r->conn, NULL, 0, NULL, 0, ALWAYS, NULL), RPMA_E_INVAL);
	CHECK_OK(rpma_conn_submit(r->conn));
	expect_none(r->cq);
	mem_check(&f.m, SEED);
	/* the last bytes of both regions are still allowed */
	sge[0] = (struct rpma_sge){ f.m.mr, f.m.mapped - 8, 8 };
	sge[1] = (struct rpma_sge){ f.m.mr, f.m.mapped - 8, 8 };
	CHECK_OK(rpma_readv(r->conn, sge, 2, f.remote, GUARD + 4 * KIB + GUARD - 16, ALWAYS, CTX(1)));
	expect_ok(r->cq, 1);
	expect_none(r->cq);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&f.remote));
	mem_delete(&f.m);
	role_close(r);
}

/* a connection that was made without a number of SGEs takes one */
static void
default_initiator(struct role *r)
{
	struct rpma_mr_remote *remote;
	struct rpma_sge sge[2];
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 16, RPMA_MR_USAGE_READ_DST);
	remote = remote_take(r);
	sge[0] = (struct rpma_sge){ m.mr, GUARD, 8 };
	sge[1] = (struct rpma_sge){ m.mr, GUARD + 8, 8 };
	CHECK_RET(rpma_readv(r->conn, sge, 2, remote, 0, ALWAYS, CTX(1)), RPMA_E_INVAL);
	CHECK_OK(rpma_readv(r->conn, sge, 1, remote, 0, ALWAYS, CTX(2)));
	expect_ok(r->cq, 2);
	expect_none(r->cq);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&remote));
	mem_delete(&m);
	role_close(r);
}

/* ---- more SGEs than any device has: refused with a sentence before anything is made ---- */

static void
plain_target(struct role *r)
{
	role_connect(r, NULL);
	role_close(r);
}

static void
limit_initiator(struct role *r)
{
	const struct conn_opts opts = { .max_sge = 1 << 20 };
	struct rpma_conn_cfg *cfg = cfg_new(&opts);
	struct rpma_conn_req *req = NULL;

	role_open(r);
	role_listen(r);
	CHECK_RET(rpma_conn_req_new(r->peer, r->addr, r->port, cfg, &req), RPMA_E_NOSUPP);
	CHECK(req == NULL);
	CHECK(strstr(rpma_errormsg(), "1048576 segments") != NULL);
	CHECK_OK(rpma_conn_cfg_delete(&cfg));
	r->conn = conn_connect(r, NULL);
	role_close(r);
}

/* ---- a segment that must not be written ---- */

static void
protected_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, 64, RPMA_MR_USAGE_READ_SRC);
	mem_fill(&m, SEED);
	desc_put(r, &m);
	expect_end(r->conn);
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

static void
protected_initiator(struct role *r)
{
	const struct conn_opts opts = { .max_sge = 2 };
	struct rpma_mr_remote *src;
	struct rpma_sge sge[2];
	struct mem good, bad;

	role_connect(r, &opts);
	mem_new(r, &good, 32, RPMA_MR_USAGE_READ_DST);
	mem_new(r, &bad, 32, RPMA_MR_USAGE_SEND);
	src = remote_take(r);
	sge[0] = (struct rpma_sge){ good.mr, GUARD, 32 };
	sge[1] = (struct rpma_sge){ bad.mr, GUARD, 32 };
	CHECK_OK(rpma_readv(r->conn, sge, 2, src, GUARD, ALWAYS, CTX(1)));
	CHECK_OK(rpma_readv(r->conn, sge, 1, src, GUARD, ALWAYS, CTX(2)));
	expect_local_error(r, 1, IBV_WC_LOC_PROT_ERR);
	expect_wc(r->cq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_none(r->cq);
	mem_check_untouched(&bad);
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	CHECK_OK(rpma_mr_remote_delete(&src));
	mem_delete(&good);
	mem_delete(&bad);
	conn_delete(&r->conn);
	role_delete(r);
}

static const struct scenario list[] = {
	{ "smoke-vector-write-1-to-16-pieces", writev_target, writev_initiator, 40, 0, NULL },
	{ "smoke-vector-read-1-to-16-pieces", readv_target, readv_initiator, 40, 0, NULL },
	{ "vector-write-large-pieces", writev_target, writev_initiator, 64 * KIB, 0, NULL },
	{ "vector-read-large-pieces", readv_target, readv_initiator, 64 * KIB, 0, NULL },
	{ "vector-array-reused", reused_target, reused_initiator, 64, 0, NULL },
	{ "vector-array-reused-while-held", reused_target, reused_initiator, 64, 0, "more" },
	{ "vector-of-nothing", untouched_target, nothing_initiator, 4 * KIB, 0, NULL },
	{ "vector-refused", untouched_target, refused_initiator, 4 * KIB, 0, NULL },
	{ "vector-on-a-plain-connection", untouched_target, default_initiator, 4 * KIB, 0, NULL },
	{ "vector-beyond-the-device", plain_target, limit_initiator, 0, 0, NULL },
	{ "vector-piece-that-is-read-only", protected_target, protected_initiator, 64, 0, NULL },
};

const struct scenario_group group_vectors = { list, sizeof(list) / sizeof(list[0]) };
