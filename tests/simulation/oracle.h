/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * oracle.h -- what must come of requests, by a model that knows nothing of how the device does it
 *
 * The requests of one side are executed in their order, so the other side's memory goes through a known row
 * of images: it is one of them at any time, or one with the beginning of the next write. What has completed
 * says how far it must have come.
 */

#ifndef TEST_SIMULATION_ORACLE_H
#define TEST_SIMULATION_ORACLE_H

#include "side.h"

/* what a disturbed connection may come to is wider than what an undisturbed one may */
struct troubles {
	bool power;       /* a machine has lost it */
	bool rnr_limited; /* a receiver may be late for too long */
	bool bad_recvs;   /* too short, or in memory that is none */
};

extern struct troubles troubles;

/* a completion has been taken from a queue */
void oracle_completion(struct side *side, const struct ibv_wc *wc);

/* is the other side's memory what the requests of this one make of it? */
void oracle_check_target(struct side *side);
/* a region of this side has been deregistered: what it holds now it holds from now on */
void oracle_region_gone(struct side *side, struct region *region);

/* has each request completed that must? */
bool oracle_is_complete(const struct side *side);
/* at the end of a connection: nothing is missing, and nothing else has changed */
void oracle_check_end(struct side *side);

/* the content of a request */
void op_fill(const struct side *side, const struct op *op, uint8_t *to, size_t len);

#endif /* TEST_SIMULATION_ORACLE_H */
