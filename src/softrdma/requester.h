/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * requester.h -- the send queue of a queue pair: work requests in, frames out, responses in, completions out
 *
 * A work request is posted, transmitted frame by frame, and completed when the responder has answered; in
 * that order and exactly once each. Requests are numbered; the queue is a ring of which
 *
 *	tail .. tx    have been transmitted and wait for their answer (the one at tx perhaps in part)
 *	tx .. head    wait to be transmitted
 *
 * A fence holds transmission back until all earlier reads, flushes and atomics are answered; a responder that
 * is not ready (no receive posted) stops it until it says that it is, and then everything from the refused
 * request on is sent again. An error completes the request it belongs to with its status and all others with
 * IBV_WC_WR_FLUSH_ERR; after that every new request is flushed at once.
 *
 * Pure: no socket, no thread, no clock. The lock of the connection is held in all calls.
 */

#ifndef SOFTRDMA_REQUESTER_H
#define SOFTRDMA_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "cq.h"
#include "memory.h"
#include "wire.h"

/* a work request as it is kept until it completes */
struct softrdma_send {
	uint64_t wr_id;
	uint64_t length; /* bytes moved; FLUSH: bytes of the range */
	uint64_t remote_addr;
	uint32_t key;
	uint32_t imm;   /* as it stands in the work request */
	uint8_t opcode; /* enum softrdma_opcode */
	uint8_t flush_type;
	bool has_imm;
	bool signaled;
	bool fenced;
	bool solicited;
	bool is_inline;
	uint64_t arrived;    /* bytes of a READ response so far */
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
	void *storage; /* of the slots' pieces and inline data */

	/* set when the connection is made */
	uint32_t rd_atom_max; /* reads and atomics that may be outstanding */

	uint32_t head, tx, tail; /* sequence numbers: they wrap, their differences do not */
	uint32_t made;      /* requests that the responder never sees: on the wire numbers are lower by it */
	uint64_t tx_offset; /* bytes of the request at tx that have been handed out */
	uint32_t rd_atoms;  /* outstanding reads and atomics */
	uint32_t fencing;   /* outstanding reads, atomics and flushes */
	uint32_t flushes;   /* outstanding flushes */
	bool behind_flush;  /* something, a response too, was sent behind an outstanding flush, until all
			       is answered */
	bool waiting;       /* the responder is not ready */
	uint32_t refused;   /* the request that it was not ready for */
	uint32_t refusals;  /* how often it was not ready */
	bool rewound;       /* it has left before and will leave again: a NAK for it may still come */
	bool resync_due;
	bool held;    /* nothing leaves: an injected fault comes next, or the oldest request is being made
			 directly */
	bool failed;  /* the queue pair is in error: everything is flushed */
	bool overrun; /* the completion queue was: the owner puts the queue pair in error */
};

/* one frame to send: header and the memory its payload comes from */
struct softrdma_outgoing {
	struct softrdma_frame frame;
	struct softrdma_place place;
	uint8_t bytes[16]; /* payload that is nobody's memory (operands, results); place refers to it */
};

/* what to do with an answer that has arrived */
enum softrdma_answer {
	SOFTRDMA_ANSWER_DONE,   /* nothing more */
	SOFTRDMA_ANSWER_PLACE,  /* its payload goes to place */
	SOFTRDMA_ANSWER_BAD,    /* it answers nothing that was asked: the peer breaks the protocol */
	SOFTRDMA_ANSWER_FAILED, /* the queue pair is in error now */
};

/* 0 or ENOMEM */
int softrdma_requester_init(struct softrdma_requester *req, const struct ibv_pd *pd, struct softrdma_cq *cq,
	uint32_t qp_num, const struct ibv_qp_cap *cap);
void softrdma_requester_fini(struct softrdma_requester *req);

/* the first request will carry this number */
void softrdma_requester_start(struct softrdma_requester *req, uint32_t seq, uint32_t rd_atom_max);

/* the slot for the next work request, its sge and inline_data set; NULL: the queue is full */
struct softrdma_send *softrdma_requester_slot(struct softrdma_requester *req);
/* the slot has been filled: it is a posted request now, of this number */
uint32_t softrdma_requester_commit(struct softrdma_requester *req);
/* takes back the last count requests, none of which has been transmitted */
void softrdma_requester_retract(struct softrdma_requester *req, uint32_t count);

/* a request that has been posted and is not complete */
struct softrdma_send *softrdma_requester_at(const struct softrdma_requester *req, uint32_t seq);
/* bytes that it moves; a FLUSH moves none */
uint64_t softrdma_requester_length(const struct softrdma_requester *req, uint32_t seq);

/*
 * The next frame. False: nothing to send now. A piece of local memory that is no longer registered fails the
 * request and the queue pair (req->failed).
 */
bool softrdma_requester_next(struct softrdma_requester *req, struct softrdma_outgoing *out);

/*
 * Local memory of a SEND, WRITE or READ: len bytes from offset. 0, or EACCES if a piece is refused.
 */
int softrdma_requester_pieces(const struct softrdma_requester *req, const struct softrdma_send *send,
	uint64_t offset, uint64_t len, struct softrdma_place *place);

/* the oldest request, if none has left and it might; NULL: there is none, or it must wait */
const struct softrdma_send *softrdma_requester_alone(const struct softrdma_requester *req);
/* that request was made without the responder, by a way of its own (direct.h) */
void softrdma_requester_made(struct softrdma_requester *req);

/*
 * The header of an answer. PLACE: *place takes the frame's payload, softrdma_requester_placed() follows when
 * it is there. code is that of a NAK.
 */
enum softrdma_answer softrdma_requester_answer(struct softrdma_requester *req,
	const struct softrdma_frame *frame, struct softrdma_place *place);
void softrdma_requester_placed(struct softrdma_requester *req, const struct softrdma_frame *frame);

/*
 * Ends everything: the oldest request that is not complete gets first_status, all others IBV_WC_WR_FLUSH_ERR.
 * Later posts are flushed by calling it again.
 */
void softrdma_requester_fail(struct softrdma_requester *req, enum ibv_wc_status first_status);

/*
 * fails the request at tx (or the one being answered) with status: what came before stays to be flushed too
 */
void softrdma_requester_fail_at(struct softrdma_requester *req, uint32_t seq, enum ibv_wc_status status);

/* the queue pair is destroyed: what is posted vanishes (ibv_destroy_qp(3)) */
void softrdma_requester_drop(struct softrdma_requester *req);

#endif /* SOFTRDMA_REQUESTER_H */
