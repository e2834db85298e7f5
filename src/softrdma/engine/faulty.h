/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * faulty.h -- what injected faults do to one connection
 *
 * A connection that no fault concerns has none of this: one look at a pointer for each batch of frames is all that
 * faults cost there. A faulty link sends frame by frame, and before each one it is decided what becomes of
 * it:
 *
 *	drop-after   from one frame on all are thrown away. The side that drops gives up after a time, as it
 *	             does when a cable is pulled: the stream ends, and both sides find that their peer has
 *	             gone.
 *	delay        the frame stays in the batch until its time has come, and whatever comes after it waits
 *	             behind it.
 *	wc-error, disconnect-after
 *	             the work request never leaves. What was sent before it is answered first, so that what
 *	             happens is the same each time.
 *
 * None of them makes a work request succeed: only the other side's answer does that.
 *
 * The link's lock is held in all calls unless said otherwise. Time is waited for by the alarm of the engine.
 */

#ifndef SOFTRDMA_FAULTY_H
#define SOFTRDMA_FAULTY_H

#include "softrdma/engine/connection.h"
#include "softrdma/faults/fault_plan.h"

struct softrdma_faulty {
	struct softrdma_fault_plan *plan; /* with a reference */
	uint64_t connection;              /* its order number under the plan, from 1 */
	uint64_t requests, answers;       /* frames that were to be sent */
	uint64_t flushes;                 /* that the peer asked for */
	bool silent;                      /* nothing leaves any more */

	/* ns, 0: none */
	uint64_t held_until;    /* the frame in the batch waits for this time */
	uint64_t disconnect_at; /* the connection is ended then */
	uint64_t give_up_at;    /* after the silence */

	/* the flush that is being made */
	bool flush_fails;
	uint64_t flush_delay_ns;
};

/* the alarm has gone off: looks at all faulty connections. No lock held. */
void softrdma_faulty_ring(uint64_t now_ns);

/* for a new connection; *faulty_ptr is NULL if no fault concerns it. 0 or ENOMEM. No lock. */
int softrdma_faulty_new(struct softrdma_faulty **faulty_ptr);
/* NULL is allowed. No lock. */
void softrdma_faulty_delete(struct softrdma_faulty *faulty);

/* in the place of softrdma_link_tx_fill(): false also if what there is to send must wait */
bool softrdma_faulty_fill(struct softrdma_connection *conn);

/* the connection has its socket */
void softrdma_faulty_attached(struct softrdma_connection *conn);
/* the alarm has gone off, for this connection or for another one */
void softrdma_faulty_look(struct softrdma_connection *conn, uint64_t now_ns);

/* a flush begins: decides flush_fails and flush_delay_ns */
void softrdma_faulty_flush_begins(struct softrdma_faulty *faulty);
/* waits flush_delay_ns. On a worker, no lock held. */
void softrdma_faulty_flush_waits(const struct softrdma_faulty *faulty);

#endif /* SOFTRDMA_FAULTY_H */
