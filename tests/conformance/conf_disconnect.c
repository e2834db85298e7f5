/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conf_disconnect.c -- the end of a connection in the middle of traffic, from either side
 *
 * Every accepted operation completes exactly once: successes first, then errors. On the software device an
 * orderly disconnect of the peer ends outstanding sends at once. On hardware they may end only after this
 * side's own rpma_conn_disconnect.
 */

#include <string.h>

#include "groups.h"
#include "ledger.h"
#include "role.h"

#define LEN ((size_t)256 << 10)
#define IN_FLIGHT 32
#define RECVS 8
#define FIRST_RECV 1000
#define ALWAYS RPMA_F_COMPLETION_ALWAYS

/* ---- messages that wait for a receive that never comes ---- */

static void
no_recv_target(struct role *r)
{
	role_connect(r, NULL);
	ctl_expect(r, "posted");
	/* scenario->arg: not NULL if the target disconnects */
	if (r->scenario->arg)
		CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	ctl_sync(r);
	conn_delete(&r->conn);
	role_delete(r);
}

/*
 * everything in both queues is flushed, each queue in its order; the order between the queues is not defined
 */
static void
expect_flushed(struct role *r, uint64_t sends, uint64_t recvs)
{
	uint64_t next_send = 0;
	uint64_t next_recv = 0;

	while (next_send < sends || next_recv < recvs) {
		struct ibv_wc wc = next_wc(r->cq);

		CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
		if (wc.wr_id >= FIRST_RECV)
			CHECK_EQ(wc.wr_id - FIRST_RECV, next_recv++);
		else
			CHECK_EQ(wc.wr_id, next_send++);
	}
	CHECK_EQ(next_send, sends);
	CHECK_EQ(next_recv, recvs);
	expect_none(r->cq);
}

static void
waiting_sends_initiator(struct role *r)
{
	role_connect(r, NULL);
	for (uint64_t i = 0; i < IN_FLIGHT; i++)
		CHECK_OK(rpma_send(r->conn, NULL, 0, 0, i % 2 ? ALWAYS : RPMA_F_COMPLETION_ON_ERROR, CTX(i)));
	for (uint64_t i = 0; i < RECVS; i++)
		CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(FIRST_RECV + i)));
	expect_none(r->cq);
	ctl_put(r, "posted");
	if (!r->scenario->arg || !r->soft)
		CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	/* receives stay until this side's own disconnect */
	if (r->scenario->arg && r->soft) {
		expect_flushed(r, IN_FLIGHT, 0);
		CHECK_OK(rpma_conn_disconnect(r->conn));
		expect_flushed(r, 0, RECVS);
	} else {
		expect_flushed(r, IN_FLIGHT, RECVS);
	}
	ctl_sync(r);
	conn_delete(&r->conn);
	role_delete(r);
}

/* ---- a connection ends in the middle of a stream of operations ---- */

enum who { INITIATOR, TARGET };

struct stream_case {
	enum ledger_op op;
	enum who who;
};

static void
stream_target(struct role *r)
{
	const struct stream_case *c = r->scenario->arg;
	struct mem m;

	role_connect(r, NULL);
	mem_new_file(r, &m, LEN, LEDGER_REGION_USAGE);
	desc_put(r, &m);
	ctl_expect(r, "running");
	if (c->who == TARGET)
		CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	ctl_sync(r);
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

static void
stream_initiator(struct role *r)
{
	const struct stream_case *c = r->scenario->arg;
	struct ledger l;
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST);
	ledger_open(&l, r, &m, c->op, IN_FLIGHT);
	ledger_run(&l, 3 * IN_FLIGHT);
	ctl_put(r, "running");
	if (c->who == INITIATOR) {
		ledger_fill(&l);
		CHECK_OK(rpma_conn_disconnect(r->conn));
	} else {
		ledger_run_until_gone(&l);
	}
	expect_end(r->conn);
	ledger_drain(&l);
	/* an orderly end is not a failure of an operation, whichever side began it */
	if (l.failed)
		CHECK_EQ(l.first_error, IBV_WC_WR_FLUSH_ERR);
	ctl_sync(r);
	ledger_close(&l);
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

/* ---- both sides disconnect at the same moment, twice ---- */

static void
both_sides(struct role *r)
{
	role_connect(r, NULL);
	CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(1)));
	ctl_sync(r);
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_wc(r->cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_none(r->cq);
	ctl_sync(r);
	conn_delete(&r->conn);
	role_delete(r);
}

/* ---- deleted without a disconnect: the peer sees the end ---- */

static void
deleting(struct role *r, bool deletes)
{
	role_connect(r, NULL);
	CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(1)));
	ctl_sync(r);
	if (!deletes)
		expect_end(r->conn);
	conn_delete(&r->conn);
	ctl_sync(r);
	role_delete(r);
}

static void
deleting_target(struct role *r)
{
	deleting(r, r->scenario->arg != NULL);
}

static void
deleting_initiator(struct role *r)
{
	deleting(r, r->scenario->arg == NULL);
}

/* ---- posts and calls after the end ---- */

static void
after_end_target(struct role *r)
{
	struct mem m;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, LEDGER_REGION_USAGE & ~RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
	desc_put(r, &m);
	role_disconnect(r);
	mem_check_untouched(&m);
	mem_delete(&m);
	role_delete(r);
}

static void
after_end_initiator(struct role *r)
{
	struct rpma_mr_remote *dst;
	struct mem m;
	int ret;

	role_connect(r, NULL);
	mem_new(r, &m, LEN, RPMA_MR_USAGE_WRITE_SRC);
	dst = remote_take(r);
	ctl_sync(r);
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	/* either refused or flushed, never lost */
	ret = rpma_write(r->conn, dst, GUARD, m.mr, GUARD, 8, ALWAYS, CTX(1));
	if (ret)
		CHECK_RET(ret, RPMA_E_PROVIDER);
	else
		expect_wc(r->cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_none(r->cq);
	CHECK_OK(rpma_mr_remote_delete(&dst));
	mem_delete(&m);
	conn_delete(&r->conn);
	role_delete(r);
}

#define STREAM(name, which, side) \
	{ \
		"disconnect-" name, stream_target, stream_initiator, LEN, 0, &(const struct stream_case) \
		{ \
			which, side \
		} \
	}

static const struct scenario list[] = {
	{ "disconnect-own-with-waiting-sends", no_recv_target, waiting_sends_initiator, 0, 0, NULL },
	{ "disconnect-peer-with-waiting-sends", no_recv_target, waiting_sends_initiator, 0, 0, "peer" },
	STREAM("own-under-writes", LEDGER_WRITE, INITIATOR),
	STREAM("own-under-reads", LEDGER_READ, INITIATOR),
	STREAM("own-under-flushes", LEDGER_FLUSH, INITIATOR),
	STREAM("peer-under-writes", LEDGER_WRITE, TARGET),
	STREAM("peer-under-reads", LEDGER_READ, TARGET),
	STREAM("peer-under-flushes", LEDGER_FLUSH, TARGET),
	{ "disconnect-both-sides-twice", both_sides, both_sides, 0, 0, NULL },
	{ "disconnect-by-delete-initiator", deleting_target, deleting_initiator, 0, 0, NULL },
	{ "disconnect-by-delete-target", deleting_target, deleting_initiator, 0, 0, "target" },
	{ "disconnect-posts-behind", after_end_target, after_end_initiator, LEN, 0, NULL },
};

const struct scenario_group group_disconnect = { list, sizeof(list) / sizeof(list[0]) };
