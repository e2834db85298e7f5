/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conf_queue.c -- how much fits in the queues, and what waits for what
 *
 * The software device takes exactly as many operations as were asked for; hardware may round up.
 */

#include <string.h>

#include "groups.h"
#include "pattern.h"
#include "role.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
#define SQ 8
#define RQ 8
/* hardware rounds the depth up, but not above this */
#define ROUNDED_MAX 1024
#define LEN ((size_t)4096)

/* ---- the send queue: messages that cannot be sent because there is no receive ---- */

static void
late_recv_target(struct role *r)
{
	struct mem m;
	uint64_t count;

	role_connect(r, NULL);
	count = ctl_get_u64(r);
	mem_new(r, &m, 8 * DEPTH, RPMA_MR_USAGE_RECV);
	for (uint64_t i = 0; i < count; i++) {
		CHECK_OK(rpma_recv(r->conn, m.mr, GUARD + i % DEPTH * 8, 8, CTX(i)));
		expect_recv(r->cq, i, 8);
		CHECK_EQ(pattern_check(m.data + i % DEPTH * 8, 8, 7, 0), -1);
	}
	expect_none(r->cq);
	ctl_sync(r);
	mem_delete(&m);
	role_close(r);
}

static int
post_send(struct role *r, struct mem *m, uint64_t ctx)
{
	/* every second one is unsignaled, and takes a place in the queue like the others */
	return rpma_send(r->conn, m->mr, GUARD, 8, ctx % 2 ? ON_ERROR : ALWAYS, CTX(ctx));
}

static void
full_sq_initiator(struct role *r)
{
	const struct conn_opts opts = { .sq = SQ };
	uint64_t posted = 0;
	struct mem m;
	int ret;

	role_connect(r, &opts);
	mem_new(r, &m, 8, RPMA_MR_USAGE_SEND);
	pattern_fill(m.data, 8, 7, 0);
	for (ret = 0; !ret && posted <= ROUNDED_MAX; posted += !ret)
		ret = post_send(r, &m, posted);
	CHECK_RET(ret, RPMA_E_PROVIDER);
	CHECK(r->soft ? posted == SQ : posted >= SQ);
	expect_none(r->cq);
	ctl_put_u64(r, posted);
	for (uint64_t i = 0; i < posted; i += 2)
		expect_ok(r->cq, i);
	ctl_sync(r);
	expect_none(r->cq);
	mem_delete(&m);
	role_close(r);
}

/* places are freed when operations complete, so a full queue can be filled again */
static void
refilled_sq_initiator(struct role *r)
{
	const struct conn_opts opts = { .sq = SQ };
	/*
	 * on hardware a send that came before its receive is retried after 655 ms, which the kernel's
	 * connection manager sets
	 */
	uint64_t count = (r->soft ? 20 : 2) * SQ;
	struct mem m;

	role_connect(r, &opts);
	mem_new(r, &m, 8, RPMA_MR_USAGE_SEND);
	pattern_fill(m.data, 8, 7, 0);
	for (uint64_t i = 0; i < SQ; i++)
		CHECK_OK(rpma_send(r->conn, m.mr, GUARD, 8, ALWAYS, CTX(i)));
	ctl_put_u64(r, count);
	for (uint64_t i = 0; i < count; i++) {
		expect_ok(r->cq, i);
		if (i + SQ < count)
			CHECK_OK(rpma_send(r->conn, m.mr, GUARD, 8, ALWAYS, CTX(i + SQ)));
	}
	ctl_sync(r);
	expect_none(r->cq);
	mem_delete(&m);
	role_close(r);
}

/* ---- the receive queue ---- */

static void
full_rq_target(struct role *r)
{
	const struct conn_opts opts = { .rq = RQ };
	uint64_t posted = 0;
	int ret;

	role_connect(r, &opts);
	for (ret = 0; !ret && posted <= ROUNDED_MAX; posted += !ret)
		ret = rpma_recv(r->conn, NULL, 0, 0, CTX(posted));
	CHECK_RET(ret, RPMA_E_PROVIDER);
	CHECK(r->soft ? posted == RQ : posted >= RQ);
	/* each message frees one place */
	for (uint64_t i = 0; i < 3 * RQ; i++) {
		ctl_put(r, "one");
		expect_recv(r->cq, i, 0);
		CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(posted + i)));
		if (r->soft)
			CHECK_RET(rpma_recv(r->conn, NULL, 0, 0, NULL), RPMA_E_PROVIDER);
	}
	role_close(r);
}

static void
full_rq_initiator(struct role *r)
{
	role_connect(r, NULL);
	for (uint64_t i = 0; i < 3 * RQ; i++) {
		ctl_expect(r, "one");
		CHECK_OK(rpma_send(r->conn, NULL, 0, 0, ALWAYS, CTX(i)));
		expect_ok(r->cq, i);
	}
	role_close(r);
}

/* ---- much traffic through small queues ---- */

#define TINY 4
#define TRAFFIC 10000

static void
region_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC);
	desc_put(r, &m);
	ctl_expect(r, "done");
	mem_check(&m, 3);
	mem_delete(&m);
	role_close(r);
}

static void
tiny_initiator(struct role *r)
{
	const struct conn_opts opts = { .sq = TINY, .cq = TINY, .rq = 1 };
	struct rpma_mr_remote *dst;
	struct mem m;

	role_connect(r, &opts);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, 3);
	dst = remote_take(r);
	for (uint64_t i = 0; i < TRAFFIC; i++) {
		size_t at = GUARD + (size_t)(i * 8 % LEN);

		if (i >= TINY)
			expect_ok(r->cq, i - TINY);
		CHECK_OK(rpma_write(r->conn, dst, at, m.mr, at, 8, ALWAYS, CTX(i)));
	}
	for (uint64_t i = TRAFFIC - TINY; i < TRAFFIC; i++)
		expect_ok(r->cq, i);
	expect_none(r->cq);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

/* one operation at a time through queues of one */
static void
one_initiator(struct role *r)
{
	const struct conn_opts opts = { .sq = 1, .cq = 1, .rq = 1 };
	struct rpma_mr_remote *dst;
	struct mem m;

	role_connect(r, &opts);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, 3);
	dst = remote_take(r);
	for (uint64_t i = 0; i < LEN / 8; i++) {
		CHECK_OK(rpma_write(r->conn, dst, GUARD + i * 8, m.mr, GUARD + i * 8, 8, ALWAYS, CTX(i)));
		expect_ok(r->cq, i);
	}
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

/* deep queues: thousands outstanding before the first completion is collected */
#define DEEP 4096

static void
deep_initiator(struct role *r)
{
	const struct conn_opts opts = { .sq = DEEP, .cq = DEEP, .rq = 1 };
	struct rpma_mr_remote *dst;
	struct mem m;

	role_connect(r, &opts);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_SRC);
	mem_fill(&m, 3);
	dst = remote_take(r);
	for (uint64_t i = 0; i < DEEP; i++)
		CHECK_OK(rpma_write(r->conn, dst, GUARD + i % LEN, m.mr, GUARD + i % LEN, 1, ALWAYS, CTX(i)));
	for (uint64_t i = 0; i < DEEP; i++)
		expect_ok(r->cq, i);
	expect_none(r->cq);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

/* more reads outstanding than a responder keeps state for: the others wait their turn */
#define READS 600

static void
reads_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_READ_SRC);
	mem_fill(&m, 3);
	desc_put(r, &m);
	ctl_expect(r, "done");
	mem_delete(&m);
	role_close(r);
}

static void
reads_initiator(struct role *r)
{
	const struct conn_opts opts = { .sq = READS, .cq = READS };
	struct rpma_mr_remote *src;
	struct mem m;

	role_connect(r, &opts);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_READ_DST);
	src = remote_take(r);
	for (uint64_t i = 0; i < READS; i++) {
		size_t at = GUARD + i * 8 % LEN;

		CHECK_OK(rpma_read(r->conn, m.mr, at, src, at, 8, ALWAYS, CTX(i)));
	}
	for (uint64_t i = 0; i < READS; i++)
		expect_ok(r->cq, i);
	expect_none(r->cq);
	mem_check(&m, 3);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&src));
	mem_delete(&m);
	role_close(r);
}

/* ---- a send that waits for a receive does not hold up the other direction ---- */

static void
busy_target(struct role *r)
{
	struct rpma_mr_remote *remote;
	struct mem src, dst;

	role_connect(r, NULL);
	mem_new(r, &src, LEN, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_SEND);
	mem_new(r, &dst, LEN, RPMA_MR_USAGE_READ_DST);
	mem_fill(&src, 3);
	remote = remote_take(r);
	/* the initiator's message waits now; all of these operations overtake it */
	for (uint64_t i = 0; i < 50; i++) {
		CHECK_OK(rpma_write(r->conn, remote, GUARD, src.mr, GUARD, LEN, ON_ERROR, NULL));
		post_flush(r, remote, GUARD, LEN, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, 1);
		expect_ok(r->cq, 1);
		CHECK_OK(rpma_read(r->conn, dst.mr, GUARD, remote, GUARD, LEN, ALWAYS, CTX(2)));
		expect_ok(r->cq, 2);
		mem_check(&dst, 3);
		CHECK_OK(rpma_send(r->conn, src.mr, GUARD, 8, ALWAYS, CTX(3)));
		expect_ok(r->cq, 3);
	}
	expect_none(r->cq);
	CHECK_OK(rpma_recv(r->conn, dst.mr, GUARD, LEN, CTX(4)));
	expect_recv(r->cq, 4, LEN);
	mem_check(&dst, 4);
	CHECK_OK(rpma_mr_remote_delete(&remote));
	ctl_sync(r);
	mem_delete(&src);
	mem_delete(&dst);
	role_close(r);
}

static void
busy_initiator(struct role *r)
{
	struct mem region, src;

	role_connect(r, NULL);
	mem_new(r, &region, LEN,
		RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
			RPMA_MR_USAGE_RECV);
	mem_new(r, &src, LEN, RPMA_MR_USAGE_SEND);
	mem_fill(&src, 4);
	for (uint64_t i = 0; i < 50; i++)
		CHECK_OK(rpma_recv(r->conn, region.mr, 0, 8, CTX(i)));
	CHECK_OK(rpma_send(r->conn, src.mr, GUARD, LEN, ALWAYS, CTX(99)));
	desc_put(r, &region);
	for (uint64_t i = 0; i < 50; i++)
		expect_recv(r->cq, i, 8);
	expect_ok(r->cq, 99);
	CHECK_EQ(pattern_check(region.data, LEN, 3, 0), -1);
	ctl_sync(r);
	mem_delete(&region);
	mem_delete(&src);
	role_close(r);
}

/* operations posted after the waiting message wait with it, and are then done in order */
static void
behind_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_RECV);
	desc_put(r, &m);
	ctl_expect(r, "posted");
	mem_check_untouched(&m);
	CHECK_OK(rpma_recv(r->conn, m.mr, GUARD, LEN, CTX(1)));
	expect_recv(r->cq, 1, 8);
	ctl_expect(r, "done");
	mem_check(&m, 3);
	mem_delete(&m);
	role_close(r);
}

static void
behind_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_SEND);
	mem_fill(&m, 3);
	dst = remote_take(r);
	CHECK_OK(rpma_send(r->conn, m.mr, 0, 8, ALWAYS, CTX(1)));
	CHECK_OK(rpma_write(r->conn, dst, GUARD, m.mr, GUARD, LEN, ALWAYS, CTX(2)));
	expect_none(r->cq);
	ctl_put(r, "posted");
	expect_ok(r->cq, 1);
	expect_ok(r->cq, 2);
	ctl_put(r, "done");
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	role_close(r);
}

static const struct scenario list[] = {
	{ "smoke-queue-full-of-sends", late_recv_target, full_sq_initiator, 0, 0, NULL },
	{ "queue-of-sends-refilled", late_recv_target, refilled_sq_initiator, 0, 0, NULL },
	{ "queue-full-of-receives", full_rq_target, full_rq_initiator, 0, 0, NULL },
	{ "queue-tiny-much-traffic", region_target, tiny_initiator, LEN, 0, NULL },
	{ "queue-of-one", region_target, one_initiator, LEN, 0, NULL },
	{ "queue-many-reads", reads_target, reads_initiator, LEN, 0, NULL },
	{ "queue-deep", region_target, deep_initiator, LEN, 0, NULL },
	{ "queue-waiting-send-and-other-direction", busy_target, busy_initiator, LEN, 0, NULL },
	{ "queue-waiting-send-and-what-is-behind", behind_target, behind_initiator, LEN, 0, NULL },
};

const struct scenario_group group_queue = { list, sizeof(list) / sizeof(list[0]) };
