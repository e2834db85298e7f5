/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * oracle.h -- the required results of requests, from a model that does not know how the device works
 *
 * The requests of one side are executed in order, so the other side's memory goes through a known sequence of
 * images. At any time it is one of these, or one with the beginning of the next write. The completions tell
 * which image it must have reached at least.
 */

#ifndef TEST_SIMULATION_ORACLE_H
#define TEST_SIMULATION_ORACLE_H

#include "side.h"

/* events that allow more results than an undisturbed connection may have */
struct troubles {
	bool power;       /* a machine has lost its power */
	bool rnr_limited; /* a receiver may be late for longer than the sender retries */
	bool bad_recvs;   /* receives that are too short, or in memory that is not registered */
};

extern struct troubles troubles;

/* checks a completion that was taken from a queue */
void oracle_completion(struct side *side, const struct ibv_wc *wc);

/* checks that the other side's memory is the result of this side's requests */
void oracle_check_target(struct side *side);
/* a region of this side was deregistered: its content must not change from now on */
void oracle_region_gone(struct side *side, struct region *region);

/* true if all requests that must complete have completed */
bool oracle_is_complete(const struct side *side);
/* checks at the end of a connection that nothing is missing and nothing else has changed */
void oracle_check_end(struct side *side);

/* fills in the content of a request */
void op_fill(const struct side *side, const struct op *op, uint8_t *to, size_t len);

#endif /* TEST_SIMULATION_ORACLE_H */
