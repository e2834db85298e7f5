/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* initiator.h -- the client's side of the connections of one step */

#ifndef PERF_INITIATOR_H
#define PERF_INITIATOR_H

#include "control.h"
#include "load.h"
#include "why.h"

struct initiator;

/* one connection, used by one thread */
struct lane {
	struct initiator *initiator;
	uint32_t index;
	struct rpma_conn *conn;
	struct rpma_cq *cq;
	struct rpma_mr_remote *dst;
	int cq_fd;
	uint64_t posted;     /* operations, also the number of the next */
	uint64_t done;       /* of them completed: in their order */
	uint64_t signaled;   /* the number of the last that asked for a completion, plus 1 */
	uint64_t limit;      /* none is posted from this number on */
	uint64_t *posted_at; /* ns, per slot */
};

struct initiator {
	struct load load;
	struct rpma_peer *peer;
	uint8_t *mem;
	size_t mem_size;
	struct rpma_mr_local *mr;
	uint64_t piece_size;   /* the last one may be shorter */
	uint64_t piece_stride; /* bytes from one piece of a slot to the next */
	uint64_t slot_stride;
	struct lane *lanes; /* load.connections of them */
};

/*
 * Connects all of them to the port that the server told; false: nothing is left behind. It is for one
 * step; the peer lives on.
 */
bool initiator_open(struct initiator *initiator, const struct load *load, struct rpma_peer *peer,
	const char *addr, const struct control_ready *ready, char why[static WHY_MAX]);
void initiator_close(struct initiator *initiator);

/* where the slot of an operation begins, in bytes from the beginning of the local memory */
uint64_t initiator_slot(const struct lane *lane, uint64_t sequence);
/* puts the pattern of the operation into its slot */
void initiator_stamp(const struct lane *lane, uint64_t sequence);
/* zeros the slot, so that what arrives can be told from what was there */
void initiator_clear(const struct lane *lane, uint64_t sequence);
/* did the operation bring what it should have? */
bool initiator_check(const struct lane *lane, uint64_t sequence, char why[static WHY_MAX]);

#endif /* PERF_INITIATOR_H */
