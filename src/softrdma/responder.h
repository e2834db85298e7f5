/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * responder.h -- the side that serves: requests in, memory and receives touched, responses out
 *
 * Requests are executed strictly in the order of their numbers, a message is placed as it arrives, and
 * responses leave in the same order: acknowledgements are coalesced, so one answers all requests up to its
 * number. States:
 *
 *	serving     the normal one
 *	flushing    a FLUSH waits for a medium on another thread; until then no further request is looked at.
 *	            So does a READ of a region that reading makes durable (SOFTRDMA_READ_FLUSHES)
 *	starving    a request needed a receive and none is posted: it was refused, and what follows it on the
 *	            wire is thrown away until the requester says RESYNC
 *	refusing    a request broke a rule, or the queue pair went to error for another reason and a request
 *	            wants an answer all the same: the NAK is the last response
 *
 * Every access passes softrdma_mr_find(): key, protection domain, right and range.
 *
 * Pure: no socket, no thread, no clock. The lock of the connection is held in all calls.
 */

#ifndef SOFTRDMA_RESPONDER_H
#define SOFTRDMA_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>

#include "cq.h"
#include "memory.h"
#include "recv_queue.h"
#include "requester.h"
#include "wire.h"

/*
 * a READ or an atomic that has been executed (atomic) or admitted (READ) and waits for its turn to be
 * answered
 */
struct softrdma_response {
	uint32_t seq;
	uint32_t key;
	uint64_t addr;
	uint64_t length;
	uint64_t offset; /* bytes already handed out */
	uint64_t value;  /* what an atomic found */
	bool is_read;
};

struct softrdma_responder {
	/* fixed */
	const struct ibv_pd *pd;
	struct softrdma_cq *cq;
	struct softrdma_recv_queue *queue;
	bool queue_is_shared;
	struct softrdma_link *link; /* for the list of the starving only */
	uint32_t qp_num;
	int withheld; /* rights that the queue pair does not give though memory may: enum ibv_access_flags */

	uint32_t expected;    /* the request that comes next, or is being received */
	uint32_t answered;    /* everything before it has been answered */
	uint32_t rd_atom_max; /* responses that may wait */

	struct softrdma_response waiting[SOFTRDMA_RD_ATOM_MAX]; /* ring */
	uint32_t first_waiting, count_waiting;

	bool operand_due; /* an atomic has been let in, and what it operates with is still to come */

	/* the SEND or WRITE being received */
	bool in_message;
	uint8_t opcode;
	bool have_recv;
	struct softrdma_recv recv;
	uint64_t total; /* bytes of the whole message */
	uint64_t received;

	/* the FLUSH that waits */
	bool flushing;
	struct softrdma_mr *flush_mr; /* held */
	uint64_t flush_addr, flush_len;
	bool flush_to_read; /* not a FLUSH: a READ that is answered when its region is durable */
	struct softrdma_response read_after_flush;

	bool starving;
	bool rnr_due, rnr_sent, ready_due;
	uint8_t nak; /* enum softrdma_nak; 0: none so far, and there is never a second one */
	uint32_t nak_seq;
	bool nak_due;
	bool failed;     /* the queue pair is in error: nothing is served */
	bool trespassed; /* it failed because the peer reached for memory that it may not have */
	bool overrun;    /* the completion queue was */
};

enum softrdma_service {
	SOFTRDMA_SERVICE_PLACE,   /* the payload goes to place; softrdma_responder_placed() follows */
	SOFTRDMA_SERVICE_OPERAND, /* the payload is an operand; softrdma_responder_operand() follows */
	SOFTRDMA_SERVICE_DISCARD, /* the payload, if any, is thrown away */
	SOFTRDMA_SERVICE_FLUSH,   /* no payload; softrdma_responder_flushed() must follow before the next
				     request */
	SOFTRDMA_SERVICE_BAD,     /* the peer breaks the protocol */
};

void softrdma_responder_init(struct softrdma_responder *resp, const struct ibv_pd *pd, struct softrdma_cq *cq,
	struct softrdma_recv_queue *queue, bool queue_is_shared, uint32_t qp_num, struct softrdma_link *link);

/* the first request will carry this number */
void softrdma_responder_start(struct softrdma_responder *resp, uint32_t seq, uint32_t rd_atom_max);

/* the header of a request */
enum softrdma_service softrdma_responder_request(struct softrdma_responder *resp,
	const struct softrdma_frame *frame, struct softrdma_place *place);
void softrdma_responder_placed(struct softrdma_responder *resp, const struct softrdma_frame *frame);
void softrdma_responder_operand(struct softrdma_responder *resp, const struct softrdma_frame *frame,
	const uint8_t *operand);
void softrdma_responder_flushed(struct softrdma_responder *resp, int error);

/* memory that was good when the header came turned out to be none (EFAULT from the kernel) */
void softrdma_responder_fault(struct softrdma_responder *resp);

/* the next response; false: nothing to send now */
bool softrdma_responder_next(struct softrdma_responder *resp, struct softrdma_outgoing *out);

/* a receive has been posted while this one was starving */
void softrdma_responder_fed(struct softrdma_responder *resp);

/*
 * The queue pair goes to error: the receive being filled and all posted ones (of an own queue) are flushed,
 * responses that wait are dropped, and whoever waits for one gets a NAK; unless a NAK is due anyway, which
 * leaves in its order. Called again it flushes what has been posted since.
 */
void softrdma_responder_fail(struct softrdma_responder *resp);

/*
 * as softrdma_responder_fail(), for an orderly end: what was executed is acknowledged, the rest the peer
 * knows itself
 */
void softrdma_responder_close(struct softrdma_responder *resp);

/* the queue pair is destroyed: receives vanish (ibv_destroy_qp(3)) */
void softrdma_responder_drop(struct softrdma_responder *resp);

#endif /* SOFTRDMA_RESPONDER_H */
