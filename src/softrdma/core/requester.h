/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * requester.h -- the send queue of a queue pair: work requests in, frames out, responses in, completions out
 *
 * A work request is posted, transmitted frame by frame, and completed when its response arrives: each step
 * once, in this order. Every request has a sequence number. The queue is a ring of slots (WQEs):
 *
 *	tail .. tx    transmitted, waiting for a response (the request at tx may be transmitted in part)
 *	tx .. head    waiting to be transmitted
 *
 * A fence stops transmission until all earlier reads, flushes and atomics have their responses. A responder
 * that has no receive posted (RNR) stops it as well. When the responder is ready again, everything from the
 * refused request on is sent again. An error completes its own request with its status and all others with
 * IBV_WC_WR_FLUSH_ERR; from then on every new request is flushed at once.
 *
 * Pure: no socket, no thread, no clock. The caller holds the connection's lock in all calls.
 */

#ifndef SOFTRDMA_REQUESTER_H
#define SOFTRDMA_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/core/counters.h"
#include "softrdma/core/cq.h"
#include "softrdma/core/memory.h"
#include "softrdma/wire/opcode.h"
#include "softrdma/wire/wire.h"

/* a work request as it is kept until it completes */
struct softrdma_send {
	uint64_t wr_id;
	uint64_t length; /* bytes moved; FLUSH: bytes of the range */
	uint64_t remote_addr;
	uint32_t key;
	uint32_t imm;   /* in the byte order of the work request */
	uint8_t opcode; /* enum softrdma_opcode */
	uint8_t flush_type;
	bool has_imm;
	bool signaled;
	bool fenced;
	bool solicited;
	bool is_inline;
	uint64_t arrived;    /* READ: response bytes received so far */
	uint64_t operand[2]; /* atomics: addend, or compare and swap; ATOMIC WRITE: the value's bytes */
	int num_sge;
	struct ibv_sge *sge;  /* of the ring slot */
	uint8_t *inline_data; /* of the ring slot */
};

struct softrdma_requester {
	/* fixed */
	const struct ibv_pd *pd;
	struct softrdma_cq *cq;
	uint32_t qp_num;
	uint32_t capacity;
	uint32_t mask; /* ring size - 1 */
	uint32_t max_sge;
	uint32_t max_inline;
	struct softrdma_send *ring;
	void *storage; /* the slots' SGEs and inline data */

	/* set when the connection is made */
	uint32_t rd_atom_max; /* reads and atomics that may be outstanding at a time */

	uint32_t head, tx, tail; /* sequence numbers: they wrap, their differences do not */
	uint32_t
		posted_from; /* requests from here to head are of the call that posts now; head: no call does */
	/* requests completed without the responder; sequence numbers on the wire are lower by this */
	uint32_t completed_locally;
	bool asks_always;   /* true if no response may come late, because local completions wait for it */
	uint64_t tx_offset; /* bytes of the request at tx that have been handed out */
	uint32_t rd_atoms;  /* outstanding reads and atomics */
	uint32_t fencing;   /* outstanding reads, atomics and flushes */
	uint32_t flushes;   /* outstanding flushes */
	bool behind_flush;  /* a request or a response was sent while a flush was outstanding; reset when
			       everything has its response */
	bool waiting;       /* the responder is not ready (RNR) */
	uint32_t refused;   /* the request that it was not ready for */
	uint32_t refusals;  /* number of times that it was not ready */
	bool rewound;       /* the request at tx was sent before the RNR: a NAK for it may still arrive */
	bool resync_due;
	bool paused;  /* nothing is transmitted: an injected fault comes next, or the oldest request is being
			 completed locally */
	bool failed;  /* the queue pair is in error: everything is flushed */
	bool overrun; /* the completion queue is overrun: the owner puts the queue pair in error */
	struct softrdma_counters counters;
};

/* one frame to send: its header and the memory that its payload comes from */
struct softrdma_outgoing {
	struct softrdma_frame frame;
	struct softrdma_place place;
	uint8_t bytes[16]; /* operands and results, which are in no registered memory; place refers to them */
};

/* what to do with a response that has arrived */
enum softrdma_response_action {
	SOFTRDMA_RESPONSE_DONE,   /* nothing more */
	SOFTRDMA_RESPONSE_PLACE,  /* its payload goes to place */
	SOFTRDMA_RESPONSE_BAD,    /* it fits no outstanding request: the peer violates the protocol */
	SOFTRDMA_RESPONSE_FAILED, /* the queue pair is in error now */
};

/* the SGEs that a work request may have: one also for a program that has asked for none */
static inline uint32_t
softrdma_requester_max_sge(const struct ibv_qp_cap *cap)
{
	return cap->max_send_sge ? cap->max_send_sge : 1;
}

/* 0 or ENOMEM */
int softrdma_requester_init(struct softrdma_requester *req, const struct ibv_pd *pd, struct softrdma_cq *cq,
	uint32_t qp_num, const struct ibv_qp_cap *cap);
void softrdma_requester_fini(struct softrdma_requester *req);

/* sets the sequence number of the first request */
void softrdma_requester_start(struct softrdma_requester *req, uint32_t seq, uint32_t rd_atom_max);

/* the number of work requests that the queue has room for */
uint32_t softrdma_requester_room(const struct softrdma_requester *req);
/*
 * The slot of that sequence number, cleared, with sge and inline_data set. Without the lock: no other thread
 * uses the slots after the last request that was posted, as far as there is room.
 */
struct softrdma_send *softrdma_requester_clear_slot(struct softrdma_requester *req, uint32_t seq);
/* the same slot, as it is */
struct softrdma_send *softrdma_requester_slot_at(const struct softrdma_requester *req, uint32_t seq);
/* the slot for the next work request, cleared; NULL: the queue is full */
struct softrdma_send *softrdma_requester_slot(struct softrdma_requester *req);
/* true if the request's operation has data in SGEs, or inline */
bool softrdma_requester_has_sges(const struct softrdma_send *send);
/* 0 if the request's data fit its operation (ibv_post_send(3)), else an errno value */
int softrdma_requester_check(struct softrdma_send *send);
/* posts the request in the next slot, which the caller has filled; returns its sequence number */
uint32_t softrdma_requester_commit(struct softrdma_requester *req);

/*
 * True if the requests that were posted from this sequence number on need not leave now: a response must come, and they
 * leave then, together with those that follow (Nagle's rule, for work requests)
 */
bool softrdma_requester_may_gather(const struct softrdma_requester *req, uint32_t from);

/* a request that has been posted and is not complete */
struct softrdma_send *softrdma_requester_at(const struct softrdma_requester *req, uint32_t seq);
/* the number of bytes that the request moves; a FLUSH moves none */
uint64_t softrdma_requester_length(const struct softrdma_requester *req, uint32_t seq);

/* true if the next frame is there, unless an SGE turns out to be no longer registered */
bool softrdma_requester_wants_to_send(const struct softrdma_requester *req);

/*
 * The next frame. False: nothing to send now. If an SGE is no longer registered, the request and the queue
 * pair fail (req->failed).
 */
bool softrdma_requester_next(struct softrdma_requester *req, struct softrdma_outgoing *out);

/*
 * Local memory of a SEND, WRITE or READ: len bytes from offset. 0, or EACCES if an SGE is refused.
 */
int softrdma_requester_segments(const struct softrdma_requester *req, const struct softrdma_send *send,
	uint64_t offset, uint64_t len, struct softrdma_place *place);

/*
 * The oldest request, if it may be transmitted and no request is outstanding. NULL: the queue is empty, or the
 * request must wait.
 */
const struct softrdma_send *softrdma_requester_alone(const struct softrdma_requester *req);
/* completes that request locally, without the responder (shm_path.h) */
void softrdma_requester_complete_locally(struct softrdma_requester *req);

/*
 * Takes the header of a response. PLACE: the frame's payload goes to *place; the caller calls
 * softrdma_requester_placed() when it is there.
 */
enum softrdma_response_action softrdma_requester_response(struct softrdma_requester *req,
	const struct softrdma_frame *frame, struct softrdma_place *place);
void softrdma_requester_placed(struct softrdma_requester *req, const struct softrdma_frame *frame);

/*
 * Completes everything: the oldest request with first_status, all others with IBV_WC_WR_FLUSH_ERR. Another
 * call flushes what has been posted since.
 */
void softrdma_requester_fail(struct softrdma_requester *req, enum ibv_wc_status first_status);

/*
 * Completes the request of this sequence number with status, and all others, older ones too, with
 * IBV_WC_WR_FLUSH_ERR.
 */
void softrdma_requester_fail_at(struct softrdma_requester *req, uint32_t seq, enum ibv_wc_status status);

/* the queue pair is destroyed: posted requests are dropped without completions (ibv_destroy_qp(3)) */
void softrdma_requester_drop(struct softrdma_requester *req);

#endif /* SOFTRDMA_REQUESTER_H */
