/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* stream_ledger.c -- each work request of the stream's target and its completion */

#include "stream_ledger.h"

bool
ledger_room(const struct ledger *l)
{
	return l->posted < LEDGER_MAX;
}

unsigned
ledger_post(struct ledger *l, bool signaled)
{
	FUZZ_CHECK(l->posted < LEDGER_MAX);
	l->signaled[l->posted] = signaled;
	return l->posted++;
}

static void
collect_one(struct ledger *l, const struct ibv_wc *wc)
{
	bool success = wc->status == IBV_WC_SUCCESS;

	/* the unsignaled requests before this one have succeeded, and have no completion */
	while (l->next < wc->wr_id && l->next < l->posted)
		FUZZ_CHECK(!l->signaled[l->next++] && !l->failed);
	FUZZ_CHECK(wc->wr_id == l->next && l->next < l->posted);
	FUZZ_CHECK(success ? !l->failed && l->signaled[l->next] : true);
	/*
	 * a request before the one that failed may be flushed as well: whether it was executed is not known
	 */
	if (!success && wc->status != IBV_WC_WR_FLUSH_ERR)
		FUZZ_CHECK(l->reasons++ == 0);
	l->failed = l->failed || !success;
	l->next++;
}

void
ledger_collect(struct ledger *l, struct softrdma_cq *cq)
{
	struct ibv_wc wc[16];
	int n;

	while ((n = softrdma_cq_pop(cq, 16, wc)) > 0) {
		for (int i = 0; i < n; i++)
			collect_one(l, &wc[i]);
	}
}

void
ledger_check_complete(const struct ledger *l)
{
	for (unsigned i = l->next; i < l->posted; i++)
		FUZZ_CHECK(!l->signaled[i] && !l->failed);
}
