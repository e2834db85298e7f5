/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* op.h -- the kinds of operations that can be measured, and how each is posted */

#ifndef PERF_OP_H
#define PERF_OP_H

#include "load.h"

struct lane;

struct op_kind {
	const char *name; /* as users write it */
	bool is_word;     /* true if its size is always 8 bytes */
	bool can_inline;
	bool has_pieces;       /* its local memory may be in several segments */
	bool flushes;          /* needs a region that offers flushing */
	bool needs_receives;   /* each operation consumes a receive of the target */
	bool is_answered;      /* the target answers, and the operation is over when the answer has come */
	bool fills_target;     /* writes the pattern of its number into the target's slot */
	bool reads_target;     /* reads the target's pattern */
	uint32_t sends_per_op; /* entries of the initiator's send queue */
	/* posts operation number sequence of the lane; returns an RPMA_E_* value */
	int (*post)(const struct lane *lane, uint64_t sequence, int flags);
};

extern const struct op_kind op_kinds[OP_COUNT];

/* how the target waits by default: it sleeps elsewhere if it may, and else sleeps if the initiator does */
enum way op_target_waits(const struct load *load);

/* entries of the initiator's send queue; the operations in flight never need more */
uint32_t op_sends(const struct load *load);
/* receives that are posted on a connection of the initiator, for answers */
uint32_t op_answers(const struct load *load);
/* receives that are posted on a connection of the target */
uint32_t op_receives(const struct load *load);

/* OP_COUNT if no operation has this name */
enum op op_parse(const char *name);

#endif /* PERF_OP_H */
