/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* op.h -- the kinds of operations that can be measured, and how one is posted */

#ifndef PERF_OP_H
#define PERF_OP_H

#include "load.h"

struct lane;

struct op_kind {
	const char *name; /* as users write it */
	bool is_word;     /* its size is 8 bytes and nothing else */
	bool can_inline;
	bool has_pieces;       /* its local memory may be in several pieces */
	bool flushes;          /* needs a region that can be flushed */
	bool needs_receives;   /* each consumes a receive of the target */
	bool fills_target;     /* leaves the pattern of its number in the slot of the target */
	bool reads_target;     /* brings the target's pattern here */
	uint32_t sends_per_op; /* places of the send queue */
	/* posts operation number sequence of the lane; an RPMA_E_* value */
	int (*post)(const struct lane *lane, uint64_t sequence, int flags);
};

extern const struct op_kind op_kinds[OP_COUNT];

/* OP_COUNT: there is none of this name */
enum op op_parse(const char *name);

#endif /* PERF_OP_H */
