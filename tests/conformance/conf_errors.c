/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conf_errors.c -- each error completion
 *
 * A failed operation completes with its own status, whether a completion of success was asked for or not. The
 * queue pair enters the error state, and everything posted after the failed operation is flushed, each
 * exactly once and in order. An operation that the target refused has not touched its memory.
 */

#include <string.h>

#include "groups.h"
#include "pattern.h"
#include "role.h"

#define LEN ((size_t)4096)
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define READ_SRC RPMA_MR_USAGE_READ_SRC
#define WRITE_DST RPMA_MR_USAGE_WRITE_DST
#define FLUSH RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY
#define EVERY_USAGE (READ_SRC | WRITE_DST | FLUSH)
/* operations posted after the one that fails */
#define BEHIND 5

enum operation { WRITE, WRITE_IMM, READ, ATOMIC, FLUSH_IT };

/* what is wrong with the descriptor that the initiator uses */
enum alteration { NO_ALTERATION, KEY, SIZE, BASE, USAGE_BITS };

struct error_case {
	enum operation op;
	enum alteration alteration;
	int usage;         /* of the target's region */
	bool foreign;      /* the region belongs to another protection domain */
	bool deregistered; /* the region is gone before the operation */
	bool may_succeed;  /* on hardware */
};

/* ---- the end of a broken connection: without a final sync; the initiator disconnects ---- */

static void
close_broken(struct role *r)
{
	if (!r->is_target)
		CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	conn_delete(&r->conn);
	ctl_sync(r);
}

/* ---- remote access ---- */

static void
remote_target(struct role *r)
{
	const struct error_case *c = r->scenario->arg;
	struct rpma_peer *other = role_new_peer(r);
	struct mem m, good;
	struct desc d;

	role_connect(r, NULL);
	mem_new_with(c->foreign ? other : r->peer, &m, LEN, c->usage);
	mem_new(r, &good, LEN, EVERY_USAGE);
	desc_get(&m, &d);
	if (c->deregistered)
		mem_dereg(&m);
	CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(1)));
	ctl_send(r, d.bytes, d.len);
	desc_put(r, &good);
	close_broken(r);
	if (r->soft || !c->may_succeed)
		mem_check_untouched(&m);
	mem_check_untouched(&good);
	mem_delete(&m);
	mem_delete(&good);
	CHECK_OK(rpma_peer_delete(&other));
	role_delete(r);
}

static struct rpma_mr_remote *
take_altered(struct role *r, enum alteration alteration)
{
	struct desc d;

	desc_take(r, &d);
	desc_alter_usage(&d, EVERY_USAGE);
	if (alteration == KEY)
		desc_alter_key(&d);
	if (alteration == SIZE)
		desc_alter_size(&d, LEN);
	if (alteration == BASE)
		desc_alter_base(&d, -8);
	return desc_import(&d);
}

static void
post_bad(struct role *r, const struct error_case *c, struct rpma_mr_remote *bad, struct mem *m, int flags)
{
	/* the last bytes of the region and one page after them, or its first bytes and those before */
	size_t at = c->alteration == SIZE ? GUARD + LEN : 0;

	switch (c->op) {
	case WRITE:
		CHECK_OK(rpma_write(r->conn, bad, at, m->mr, GUARD, LEN, flags, CTX(1)));
		break;
	case WRITE_IMM:
		CHECK_OK(rpma_write_with_imm(r->conn, bad, at, m->mr, GUARD, LEN, flags, 1, CTX(1)));
		break;
	case READ:
		CHECK_OK(rpma_read(r->conn, m->mr, GUARD, bad, at, LEN, flags, CTX(1)));
		break;
	case ATOMIC:
		/* wholly after the end: an aligned 8-byte word cannot lie across it */
		at = c->alteration == SIZE ? GUARD + LEN + GUARD : 0;
		CHECK_OK(rpma_atomic_write(r->conn, bad, at, "12345678", flags, CTX(1)));
		break;
	case FLUSH_IT:
		/* likewise: hardware without FLUSH only reads the first bytes of the range */
		if (!r->soft && c->alteration == SIZE)
			at = GUARD + LEN + GUARD;
		post_flush(r, bad, at, LEN, RPMA_FLUSH_TYPE_VISIBILITY, flags, 1);
		break;
	}
}

static void
remote_initiator(struct role *r)
{
	const struct error_case *c = r->scenario->arg;
	struct rpma_mr_remote *bad, *good;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST);
	bad = take_altered(r, c->alteration);
	good = remote_take(r);
	post_bad(r, c, bad, &m, ON_ERROR);
	for (uint64_t i = 0; i < BEHIND; i++)
		CHECK_OK(rpma_write(r->conn, good, GUARD, m.mr, GUARD, 8, i % 2 ? ALWAYS : ON_ERROR,
			CTX(2 + i)));
	expect_wc(r->cq, 1, IBV_WC_REM_ACCESS_ERR);
	for (uint64_t i = 0; i < BEHIND; i++)
		expect_wc(r->cq, 2 + i, IBV_WC_WR_FLUSH_ERR);
	expect_none(r->cq);
	mem_check_untouched(&m);
	close_broken(r);
	CHECK_OK(rpma_mr_remote_delete(&bad));
	CHECK_OK(rpma_mr_remote_delete(&good));
	mem_delete(&m);
	role_delete(r);
}

/* posts to a queue pair in the error state are flushed, on both queues */
static void
after_error_initiator(struct role *r)
{
	struct rpma_mr_remote *bad, *good;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_SRC);
	bad = take_altered(r, KEY);
	good = remote_take(r);
	CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(9)));
	CHECK_OK(rpma_write(r->conn, bad, GUARD, m.mr, GUARD, 8, ON_ERROR, CTX(1)));
	expect_wc(r->cq, 1, IBV_WC_REM_ACCESS_ERR);
	expect_wc(r->cq, 9, IBV_WC_WR_FLUSH_ERR);
	CHECK_OK(rpma_write(r->conn, good, GUARD, m.mr, GUARD, 8, ON_ERROR, CTX(2)));
	expect_wc(r->cq, 2, IBV_WC_WR_FLUSH_ERR);
	/*
	 * posting a receive does not reach SoftRoCE in the kernel, which would see it only at the next
	 * message
	 */
	if (r->soft) {
		CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(3)));
		expect_wc(r->cq, 3, IBV_WC_WR_FLUSH_ERR);
	}
	CHECK_OK(rpma_send(r->conn, NULL, 0, 0, ALWAYS, CTX(4)));
	expect_wc(r->cq, 4, IBV_WC_WR_FLUSH_ERR);
	expect_none(r->cq);
	close_broken(r);
	CHECK_OK(rpma_mr_remote_delete(&bad));
	CHECK_OK(rpma_mr_remote_delete(&good));
	mem_delete(&m);
	role_delete(r);
}

/* an operation posted before the failure succeeds, even if its completion is collected later */
static void
before_error_initiator(struct role *r)
{
	struct rpma_mr_remote *bad, *good;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_READ_DST);
	bad = take_altered(r, KEY);
	good = remote_take(r);
	for (uint64_t i = 0; i < 8; i++)
		CHECK_OK(rpma_read(r->conn, m.mr, GUARD, good, GUARD, LEN, ALWAYS, CTX(i)));
	CHECK_OK(rpma_read(r->conn, m.mr, GUARD, bad, GUARD, LEN, ALWAYS, CTX(8)));
	for (uint64_t i = 0; i < 8; i++)
		expect_ok(r->cq, i);
	expect_wc(r->cq, 8, IBV_WC_REM_ACCESS_ERR);
	close_broken(r);
	CHECK_OK(rpma_mr_remote_delete(&bad));
	CHECK_OK(rpma_mr_remote_delete(&good));
	mem_delete(&m);
	role_delete(r);
}

/* an error on one connection does not affect another one of the same peer */
static void
other_conn_target(struct role *r)
{
	struct rpma_conn *other;
	struct mem m;

	role_connect(r, NULL);
	other = conn_accept(r, NULL);
	mem_new(r, &m, LEN, EVERY_USAGE);
	desc_put(r, &m);
	desc_put(r, &m);
	close_broken(r);
	expect_end(other);
	mem_check(&m, 5);
	mem_delete(&m);
	conn_delete(&other);
	role_delete(r);
}

static void
other_conn_initiator(struct role *r)
{
	struct rpma_mr_remote *bad, *good;
	struct rpma_conn *other;
	struct mem m;

	role_connect(r, NULL);
	other = conn_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, 5);
	bad = take_altered(r, KEY);
	good = remote_take(r);
	CHECK_OK(rpma_write(r->conn, bad, GUARD, m.mr, GUARD, LEN, ON_ERROR, CTX(1)));
	expect_wc(r->cq, 1, IBV_WC_REM_ACCESS_ERR);
	CHECK_OK(rpma_write(other, good, GUARD, m.mr, GUARD, LEN, ALWAYS, CTX(2)));
	expect_ok(conn_cq(other), 2);
	close_broken(r);
	CHECK_OK(rpma_conn_disconnect(other));
	expect_end(other);
	CHECK_OK(rpma_mr_remote_delete(&bad));
	CHECK_OK(rpma_mr_remote_delete(&good));
	mem_delete(&m);
	conn_delete(&other);
	role_delete(r);
}

/* an atomic write to an address that is not a multiple of 8, although the offset is */
static void
misaligned_initiator(struct role *r)
{
	struct rpma_mr_remote *bad, *good;
	struct desc d;
	int ret;

	role_connect(r, NULL);
	desc_take(r, &d);
	desc_alter_base(&d, 4);
	desc_alter_size(&d, -4);
	bad = desc_import(&d);
	good = remote_take(r);
	ret = rpma_atomic_write(r->conn, bad, 0, "12345678", ALWAYS, CTX(1));
	/*
	 * the library may refuse it; a device must refuse it if it cannot be atomic, but need not refuse an
	 * inline write
	 */
	if (ret != RPMA_E_INVAL) {
		struct ibv_wc wc;

		CHECK_OK(ret);
		wc = next_wc(r->cq);
		CHECK(wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_REM_ACCESS_ERR || !r->soft);
	}
	close_broken(r);
	CHECK_OK(rpma_mr_remote_delete(&bad));
	CHECK_OK(rpma_mr_remote_delete(&good));
	role_delete(r);
}

/* ---- messages that do not fit ---- */

static void
short_recv_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_RECV);
	CHECK_OK(rpma_recv(r->conn, m.mr, GUARD, 32, CTX(1)));
	CHECK_OK(rpma_recv(r->conn, m.mr, GUARD, LEN, CTX(2)));
	ctl_put(r, "posted");
	expect_local_error(r, 1, IBV_WC_LOC_LEN_ERR);
	expect_wc(r->cq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_none(r->cq);
	ctl_sync(r);
	close_broken(r);
	/* the 32 bytes that fit may have been written, but no others */
	CHECK_EQ(pattern_check_byte(m.data + 32, LEN - 32 + GUARD, GUARD_BYTE), -1);
	mem_delete(&m);
	role_delete(r);
}

static void
long_send_initiator(struct role *r)
{
	struct ibv_wc wc;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_SEND);
	ctl_expect(r, "posted");
	CHECK_OK(rpma_send(r->conn, m.mr, GUARD, 33, ON_ERROR, CTX(1)));
	CHECK_OK(rpma_send(r->conn, m.mr, GUARD, 8, ALWAYS, CTX(2)));
	/* SoftRoCE reports a failed remote operation, not an invalid request */
	wc = next_wc(r->cq);
	CHECK_EQ(wc.wr_id, 1);
	CHECK(wc.status == IBV_WC_REM_INV_REQ_ERR || (!r->soft && wc.status == IBV_WC_REM_OP_ERR));
	expect_wc(r->cq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_none(r->cq);
	ctl_sync(r);
	close_broken(r);
	mem_delete(&m);
	role_delete(r);
}

/* ---- local memory without the rights for the operation ---- */

/* receives nothing; the connection ends */
static void
idle_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, EVERY_USAGE);
	desc_put(r, &m);
	close_broken(r);
	mem_check_untouched(&m);
	mem_delete(&m);
	role_delete(r);
}

/*
 * the library may refuse the operation when it is posted; otherwise the device completes it with a local
 * error
 */
static void
expect_refusal(struct role *r, int ret, uint64_t ctx)
{
	if (ret == RPMA_E_INVAL)
		return;
	CHECK_OK(ret);
	expect_local_error(r, ctx, IBV_WC_LOC_PROT_ERR);
}

/* a write from memory of another protection domain */
static void
foreign_source_initiator(struct role *r)
{
	struct rpma_peer *other = role_new_peer(r);
	struct rpma_mr_remote *dst;
	struct mem m;

	role_connect(r, NULL);
	mem_new_with(other, &m, LEN, RPMA_MR_USAGE_WRITE_SRC);
	dst = remote_take(r);
	expect_refusal(r, rpma_write(r->conn, dst, GUARD, m.mr, GUARD, LEN, ON_ERROR, CTX(1)), 1);
	close_broken(r);
	mem_delete(&m);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	role_delete(r);
	CHECK_OK(rpma_peer_delete(&other));
}

/* a read into memory that the device may not write to */
static void
unwritable_destination_initiator(struct role *r)
{
	struct rpma_mr_remote *src;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_SEND);
	src = remote_take(r);
	expect_refusal(r, rpma_read(r->conn, m.mr, GUARD, src, GUARD, LEN, ON_ERROR, CTX(1)), 1);
	close_broken(r);
	mem_check_untouched(&m);
	mem_delete(&m);
	CHECK_OK(rpma_mr_remote_delete(&src));
	role_delete(r);
}

/* a receive into memory that the device may not write to: both sides see the error */
static void
unwritable_recv_target(struct role *r)
{
	struct mem m;
	int ret;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_SEND);
	ret = rpma_recv(r->conn, m.mr, GUARD, LEN, CTX(1));
	if (ret == RPMA_E_INVAL)
		check_skip(r, "the library refuses such a receive");
	CHECK_OK(ret);
	ctl_put(r, "posted");
	expect_local_error(r, 1, IBV_WC_LOC_PROT_ERR);
	ctl_sync(r);
	close_broken(r);
	mem_check_untouched(&m);
	mem_delete(&m);
	role_delete(r);
}

static void
unwritable_recv_initiator(struct role *r)
{
	struct mem m;
	struct ibv_wc wc;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_SEND);
	ctl_expect(r, "posted");
	CHECK_OK(rpma_send(r->conn, m.mr, GUARD, LEN, ALWAYS, CTX(1)));
	wc = next_wc(r->cq);
	CHECK_EQ(wc.wr_id, 1);
	CHECK(wc.status == IBV_WC_REM_OP_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR);
	ctl_sync(r);
	close_broken(r);
	mem_delete(&m);
	role_delete(r);
}

#define CASE_OF(name, initiator, ...) \
	{ \
		"error-" name, remote_target, initiator, LEN, 0, &(const struct error_case) \
		{ \
			__VA_ARGS__ \
		} \
	}
#define CASE(name, which, what, granted) \
	CASE_OF(name, remote_initiator, .op = which, .alteration = what, .usage = granted)
#define FOREIGN(name, which) \
	CASE_OF("domain-" name, remote_initiator, .op = which, .usage = EVERY_USAGE, .foreign = true)
#define DEREGISTERED(name, which) \
	CASE_OF("deregistered-" name, remote_initiator, .op = which, .usage = EVERY_USAGE, \
		.deregistered = true)

static const struct scenario list[] = {
	CASE("key-write", WRITE, KEY, EVERY_USAGE),
	CASE("key-write-imm", WRITE_IMM, KEY, EVERY_USAGE),
	CASE("key-read", READ, KEY, EVERY_USAGE),
	CASE("key-atomic-write", ATOMIC, KEY, EVERY_USAGE),
	CASE("key-flush", FLUSH_IT, KEY, EVERY_USAGE),
	CASE("right-write", WRITE, USAGE_BITS, READ_SRC),
	CASE("right-write-imm", WRITE_IMM, USAGE_BITS, READ_SRC),
	CASE("right-read", READ, USAGE_BITS, WRITE_DST),
	CASE("right-atomic-write", ATOMIC, USAGE_BITS, READ_SRC),
	CASE("right-flush", FLUSH_IT, USAGE_BITS, WRITE_DST),
	CASE("range-end-write", WRITE, SIZE, EVERY_USAGE),
	CASE("range-end-read", READ, SIZE, EVERY_USAGE),
	CASE("range-end-atomic-write", ATOMIC, SIZE, EVERY_USAGE),
	CASE("range-end-flush", FLUSH_IT, SIZE, EVERY_USAGE),
	CASE("range-begin-write", WRITE, BASE, EVERY_USAGE),
	CASE("range-begin-read", READ, BASE, EVERY_USAGE),
	CASE("range-begin-flush", FLUSH_IT, BASE, EVERY_USAGE),
	FOREIGN("write", WRITE),
	FOREIGN("read", READ),
	FOREIGN("flush", FLUSH_IT),
	DEREGISTERED("write", WRITE),
	DEREGISTERED("read", READ),
	DEREGISTERED("flush", FLUSH_IT),
	CASE_OF("post-behind", after_error_initiator, .usage = EVERY_USAGE),
	CASE_OF("success-before", before_error_initiator, .usage = EVERY_USAGE),
	CASE_OF("misaligned-atomic-write", misaligned_initiator, .usage = EVERY_USAGE, .may_succeed = true),
	{ "error-leaves-other-connection", other_conn_target, other_conn_initiator, LEN, 0, NULL },
	{ "smoke-error-recv-too-short", short_recv_target, long_send_initiator, LEN, 0, NULL },
	{ "error-local-foreign-source", idle_target, foreign_source_initiator, LEN, 0, NULL },
	{ "error-local-unwritable-destination", idle_target, unwritable_destination_initiator, LEN, 0, NULL },
	{ "error-local-unwritable-recv", unwritable_recv_target, unwritable_recv_initiator, LEN, 0, NULL },
};

const struct scenario_group group_errors = { list, sizeof(list) / sizeof(list[0]) };
