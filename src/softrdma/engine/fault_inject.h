/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fault_inject.h -- what injected faults do to one connection
 *
 * A connection without faults has no such structure: faults cost it one look at a pointer for each batch of frames. A
 * connection with faults sends frame by frame, and decides before each one what becomes of it:
 *
 *	drop-after   this frame and all later ones are thrown away. The side that drops gives up after a time,
 *	             as if a cable were pulled: the stream ends, and both sides lose their peer.
 *	delay        the frame stays in the batch until its time has come, and later frames wait with it.
 *	wc-error, disconnect-after
 *	             the work request never leaves. Requests before it complete first, so that the outcome is
 *	             the same each time.
 *
 *	lose, duplicate, reorder, corrupt
 *	             strike single datagrams, which have no connection (datagram_socket.c).
 *
 * No fault makes a work request of a connection succeed: only a response of the other side does that.
 *
 * The link's lock is held in all calls unless said otherwise. The alarm of the engine ends the waits.
 */

#ifndef SOFTRDMA_FAULT_INJECT_H
#define SOFTRDMA_FAULT_INJECT_H

#include "softrdma/engine/connection.h"
#include "softrdma/faults/fault_plan.h"

/* what becomes of a datagram that is to leave */
enum softrdma_datagram_fate {
	SOFTRDMA_DATAGRAM_LEAVES,
	SOFTRDMA_DATAGRAM_IS_LOST,
	SOFTRDMA_DATAGRAM_LEAVES_TWICE,
	SOFTRDMA_DATAGRAM_LEAVES_LATER, /* after the next one */
	SOFTRDMA_DATAGRAM_IS_CORRUPT,
};

struct softrdma_fault_inject {
	struct softrdma_fault_plan *plan; /* with a reference */
	uint64_t connection;              /* its order number under the plan, from 1 */
	uint64_t requests, responses;     /* frames that were to be sent */
	uint64_t flushes;                 /* that the peer asked for */
	uint64_t datagrams;               /* that have left, or would have */
	bool silent;                      /* nothing further leaves */

	/* times in ns of softrdma_now_ns(), 0: none */
	uint64_t held_until;    /* the frame in the batch waits for this time */
	uint64_t disconnect_at; /* the connection is ended then */
	uint64_t give_up_at;    /* when a silent connection gives up */

	/* the flush that runs */
	bool flush_fails;
	uint64_t flush_delay_ns;
};

/* the alarm has gone off: looks at all connections with faults. No lock held. */
void softrdma_fault_inject_alarm(uint64_t now_ns);

/* creates the faults of a new connection; *inject_ptr is NULL if no fault concerns it. 0 or ENOMEM. No lock. */
int softrdma_fault_inject_new(struct softrdma_fault_inject **inject_ptr);
/* NULL is allowed. No lock. */
void softrdma_fault_inject_delete(struct softrdma_fault_inject *inject);

/* replaces softrdma_link_tx_fill(): false also if the frame that is to leave must wait */
bool softrdma_fault_inject_fill(struct softrdma_connection *conn);

/* what becomes of the next datagram; the caller counts it when that has happened */
enum softrdma_datagram_fate softrdma_fault_inject_datagram(const struct softrdma_fault_inject *inject);

/* the connection has its socket */
void softrdma_fault_inject_attached(struct softrdma_connection *conn);
/* the alarm has gone off, for this connection or for another one */
void softrdma_fault_inject_look(struct softrdma_connection *conn, uint64_t now_ns);

/* a flush begins: decides flush_fails and flush_delay_ns */
void softrdma_fault_inject_flush_begins(struct softrdma_fault_inject *inject);
/* waits flush_delay_ns. On a worker, no lock held. */
void softrdma_fault_inject_flush_waits(const struct softrdma_fault_inject *inject);

#endif /* SOFTRDMA_FAULT_INJECT_H */
