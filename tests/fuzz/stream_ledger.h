/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* stream_ledger.h -- each work request of the stream's target and its completion */

#ifndef TEST_FUZZ_STREAM_LEDGER_H
#define TEST_FUZZ_STREAM_LEDGER_H

#include "fuzz.h"
#include "softrdma/core/cq.h"

#define LEDGER_MAX 96

/* The requests of one queue. They are numbered from 0 on, and complete in that order. */
struct ledger {
	bool signaled[LEDGER_MAX];
	unsigned posted;
	unsigned next;    /* the oldest that has not completed */
	bool failed;      /* one of them has failed */
	unsigned reasons; /* requests with an error other than IBV_WC_WR_FLUSH_ERR */
};

/*
 * ledger_room() is true if another request can be recorded; ledger_post() returns its number, which is its
 * wr_id
 */
bool ledger_room(const struct ledger *l);
unsigned ledger_post(struct ledger *l, bool signaled);

/*
 * Takes the completions out of the queue. They must be in order, each once; only errors may follow the first
 * error, and at most one of these is not IBV_WC_WR_FLUSH_ERR.
 */
void ledger_collect(struct ledger *l, struct softrdma_cq *cq);

/* only unsignaled requests at the end, which have succeeded, may be left without a completion */
void ledger_check_complete(const struct ledger *l);

#endif /* TEST_FUZZ_STREAM_LEDGER_H */
