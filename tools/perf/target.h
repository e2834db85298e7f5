/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* target.h -- the server's memory and connections of one step */

#ifndef PERF_TARGET_H
#define PERF_TARGET_H

#include <stdatomic.h>

#include "control.h"
#include "load.h"
#include "memory.h"
#include "why.h"

/* private data of a connection request, little-endian; RDMA hardware has room for 56 bytes */
struct target_ticket {
	uint64_t token;
	uint32_t index; /* number of the connection */
	uint32_t zero;
};

/* a connection of the target */
struct target_conn {
	struct rpma_conn *conn;
	bool is_established;
	struct rpma_cq *cq;
	int cq_fd;
	atomic_uint_fast64_t received; /* messages; only its receiver writes it */
	uint64_t answered;             /* messages */
	uint64_t answers_sent;         /* answers up to this number have left the send queue */
	uint64_t wrong;                /* messages with wrong data */
};

struct target {
	struct load load;
	uint64_t token;
	struct memory memory;
	struct rpma_mr_local *mr;
	struct target_conn *conns; /* load.connections elements */
	uint32_t connected;
	uint64_t compute_ns; /* time that its program computes for each message */
	char first_wrong[CONTROL_TEXT_MAX];
};

/* makes registered memory with the content that the load needs. False: nothing is left behind. */
bool target_open(struct target *target, const struct load *load, struct rpma_peer *peer, const char *memory,
	bool overwrite, char why[static WHY_MAX]);

/* accepts all connections of the step; gives up when the control connection ends, or after a timeout */
bool target_accept(struct target *target, struct rpma_ep *ep, bool direct_write, int control_fd,
	char why[static WHY_MAX]);

/*
 * Posts the receive for operation number sequence; returns an RPMA_E_* value. Without messages the receive is
 * empty: a thread of the target waits for it until the connection ends.
 */
int target_receive(const struct target *target, uint32_t conn, uint64_t sequence);

/* posts the answer to operation number sequence; returns an RPMA_E_* value */
int target_answer(const struct target *target, uint32_t conn, uint64_t sequence);

/*
 * Verifies the slots after posted[i] operations of connection i. Returns the number of wrong slots, and
 * writes a sentence about the first.
 */
uint64_t target_verify(struct target *target, const uint64_t *posted);

/* ends all connections: posted receives complete with an error. Other threads may use the connections. */
void target_disconnect(const struct target *target);
void target_close(struct target *target);

#endif /* PERF_TARGET_H */
