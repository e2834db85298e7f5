/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* stream_ledger.h -- each work request of the stream's target, and what became of it */

#ifndef TEST_FUZZ_STREAM_LEDGER_H
#define TEST_FUZZ_STREAM_LEDGER_H

#include "fuzz.h"
#include "softrdma/cq.h"

#define LEDGER_MAX 96

/* of one queue: requests are numbered from 0 on, and complete in that order */
struct ledger {
	bool signaled[LEDGER_MAX];
	unsigned posted;
	unsigned next;    /* the oldest that has not completed */
	bool failed;      /* one has */
	unsigned reasons; /* that have failed with another status than "flushed" */
};

/* the number of a new request, which is its wr_id; false: enough of them */
bool ledger_room(const struct ledger *l);
unsigned ledger_post(struct ledger *l, bool signaled);

/* takes what is in the queue: in order, each once, nothing but errors behind the first error, one reason */
void ledger_collect(struct ledger *l, struct softrdma_cq *cq);

/* nothing may be left but, of the last ones, requests that have succeeded and were not to say so */
void ledger_check_complete(const struct ledger *l);

#endif /* TEST_FUZZ_STREAM_LEDGER_H */
