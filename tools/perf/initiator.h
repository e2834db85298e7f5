/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* initiator.h -- the client's connections of one step */

#ifndef PERF_INITIATOR_H
#define PERF_INITIATOR_H

#include "control.h"
#include "load.h"
#include "pace.h"
#include "why.h"

struct initiator;

/* one connection, used by one thread */
struct lane {
	struct initiator *initiator;
	uint32_t index;
	struct rpma_conn *conn;
	bool is_established; /* a connection that was refused has nothing to disconnect */
	struct rpma_cq *cq;
	struct rpma_mr_remote *dst;
	int cq_fd;
	uint64_t posted;   /* number of operations posted, which is also the number of the next */
	uint64_t done;     /* number of operations completed, in order */
	uint64_t signaled; /* the number of the last signaled operation, plus 1 */
	uint64_t sent;     /* for operations with an answer: their sends up to this number have completed */
	uint64_t limit;    /* operations from this number on are not posted */
	struct pace pace;  /* if load.rate is not 0 */
	uint64_t *since;   /* time in ns from which the latency counts, per slot */
};

struct initiator {
	struct load load;
	struct rpma_peer *peer;
	uint8_t *mem;
	size_t mem_size;
	struct rpma_mr_local *mr;
	uint64_t piece_size;   /* the last segment may be shorter */
	uint64_t piece_stride; /* bytes from one segment of a slot to the next */
	uint64_t slot_stride;
	struct lane *lanes; /* load.connections elements */
};

/*
 * Connects all lanes to the port that the server told, for one step; the peer lives on. After a failure it
 * returns false and leaves nothing behind.
 */
bool initiator_open(struct initiator *initiator, const struct load *load, struct rpma_peer *peer,
	const char *addr, const struct control_ready *ready, char why[static WHY_MAX]);
void initiator_close(struct initiator *initiator);
/* ends all connections; operations and receives in flight complete with an error. Other threads may use them. */
void initiator_disconnect(const struct initiator *initiator);

/* offset in bytes of an operation's slot in the local memory */
uint64_t initiator_slot(const struct lane *lane, uint64_t sequence);
/* writes the pattern of the operation into its slot */
void initiator_stamp(const struct lane *lane, uint64_t sequence);
/* zeros the slot, so that arriving data can be told from old data */
void initiator_clear(const struct lane *lane, uint64_t sequence);
/* posts the receive for the answer to the operation; returns an RPMA_E_* value */
int initiator_receive(const struct lane *lane, uint64_t sequence);
/* true if the operation delivered the right data */
bool initiator_check(const struct lane *lane, uint64_t sequence, char why[static WHY_MAX]);

#endif /* PERF_INITIATOR_H */
