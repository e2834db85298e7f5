/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* ledger.c -- a stream of operations of which each completion is accounted for */

#include <string.h>

#include "ledger.h"
#include "role.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS

void
ledger_open(struct ledger *l, struct role *r, struct mem *m, enum ledger_op op, uint64_t in_flight_max)
{
	memset(l, 0, sizeof(*l));
	l->role = r;
	l->m = m;
	l->op = op;
	l->in_flight_max = in_flight_max;
	l->remote = remote_take(r);
	if (!r->soft)
		declare_direct_write(r);
}

void
ledger_close(struct ledger *l)
{
	CHECK_OK(rpma_mr_remote_delete(&l->remote));
}

static int
post(struct ledger *l)
{
	struct rpma_conn *conn = l->role->conn;
	const void *ctx = CTX(l->posted);
	size_t len = l->m->len;

	switch (l->op) {
	case LEDGER_WRITE:
		return rpma_write(conn, l->remote, GUARD, l->m->mr, GUARD, len, ALWAYS, ctx);
	case LEDGER_READ:
		return rpma_read(conn, l->m->mr, GUARD, l->remote, GUARD, len, ALWAYS, ctx);
	case LEDGER_FLUSH:
		return rpma_flush(conn, l->remote, GUARD, len, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, ctx);
	case LEDGER_SEND:
		return rpma_send(conn, NULL, 0, 0, ALWAYS, ctx);
	}
	return RPMA_E_INVAL;
}

/* a post may be refused after the connection has ended; the completions then tell that it ended */
static void
post_next(struct ledger *l)
{
	int ret = post(l);

	if (ret == RPMA_E_NOSUPP && !l->role->soft)
		check_skip(l->role, "no such flush on this device");
	if (ret) {
		CHECK_RET(ret, RPMA_E_PROVIDER);
		l->refused = true;
		return;
	}
	l->posted++;
}

void
ledger_fill(struct ledger *l)
{
	while (!l->refused && l->posted - l->completed < l->in_flight_max)
		post_next(l);
}

static void
account(struct ledger *l)
{
	struct ibv_wc wc = next_wc(l->role->cq);

	CHECK_EQ(wc.wr_id, l->completed);
	l->completed++;
	if (wc.status == IBV_WC_SUCCESS) {
		CHECK(!l->failed);
		return;
	}
	if (l->failed)
		CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	else
		l->first_error = wc.status;
	l->failed = true;
}

void
ledger_run(struct ledger *l, uint64_t completions)
{
	for (uint64_t i = 0; i < completions; i++) {
		ledger_fill(l);
		CHECK(!l->refused);
		account(l);
		CHECK(!l->failed);
	}
}

void
ledger_run_until_error(struct ledger *l)
{
	while (!l->failed) {
		ledger_fill(l);
		if (l->posted == l->completed)
			return; /* the post was refused, and everything before it had succeeded */
		account(l);
	}
}

void
ledger_run_until_gone(struct ledger *l)
{
	if (l->role->soft)
		ledger_run_until_error(l);
	else
		ledger_fill(l);
}

void
ledger_drain(struct ledger *l)
{
	while (l->completed < l->posted)
		account(l);
	expect_none(l->role->cq);
}
