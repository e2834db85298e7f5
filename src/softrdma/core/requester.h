/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * requester.h -- the send queue of a reliable connection: work requests in, frames out, responses in, completions out
 *
 * A work request is posted, transmitted frame by frame, and completed when its response arrives: each step
 * once, in this order. The requests are in a ring (send_ring.h):
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

#include "softrdma/core/send_ring.h"
#include "softrdma/wire/wire.h"

struct softrdma_requester {
	struct softrdma_send_ring ring;

	/* set when the connection is made */
	uint32_t rd_atom_max; /* reads and atomics that may be outstanding at a time */

	uint32_t tx; /* requests before it are transmitted */
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
	bool paused; /* nothing is transmitted: an injected fault comes next, or the oldest request is being
			 completed locally */
	bool failed; /* the queue pair is in error: everything is flushed */
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

/* 0 or ENOMEM */
int softrdma_requester_init(struct softrdma_requester *req, const struct ibv_pd *pd, struct softrdma_cq *cq,
	uint32_t qp_num, const struct ibv_qp_cap *cap);
void softrdma_requester_fini(struct softrdma_requester *req);

/* sets the sequence number of the first request */
void softrdma_requester_start(struct softrdma_requester *req, uint32_t seq, uint32_t rd_atom_max);

/*
 * True if the requests that were posted from this sequence number on need not leave now: a response must come, and they
 * leave then, together with those that follow (Nagle's rule, for work requests)
 */
bool softrdma_requester_may_gather(const struct softrdma_requester *req, uint32_t from);

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
