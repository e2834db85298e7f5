/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * responder.h -- the side that serves: requests in, memory and receives touched, responses out
 *
 * The responder executes requests strictly in the order of their sequence numbers and places a message as it
 * arrives. Responses leave in the same order. Acknowledgements are coalesced: one covers all requests up to
 * its sequence number. It waits for a reply if the requester has asked for none soon, and if there is a reply each time.
 * Its state is enum softrdma_responder_state.
 *
 * Every access passes softrdma_mr_find(), which checks key, protection domain, access right and range.
 *
 * Pure: no socket, no thread, no clock. The caller holds the connection's lock in all calls.
 */

#ifndef SOFTRDMA_RESPONDER_H
#define SOFTRDMA_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/core/cq.h"
#include "softrdma/core/memory.h"
#include "softrdma/core/recv_queue.h"
#include "softrdma/core/requester.h"
#include "softrdma/wire/opcode.h"
#include "softrdma/wire/wire.h"

/* the pending response of a READ that was admitted, or of an atomic that was executed */
struct softrdma_response {
	uint32_t seq;
	uint32_t key;
	uint64_t addr;
	uint64_t length;
	uint64_t offset; /* bytes already handed out */
	uint64_t value;  /* atomic: the value that it found */
	bool is_read;
};

enum softrdma_responder_state {
	SOFTRDMA_RESPONDER_SERVING,    /* the next request may come */
	SOFTRDMA_RESPONDER_IN_MESSAGE, /* a SEND or WRITE is being received, and more of it follows */
	SOFTRDMA_RESPONDER_IN_ATOMIC,  /* an atomic was admitted, and its operands have not arrived yet */
	/*
	 * another thread waits for the medium of a FLUSH, or of a READ from a region that reading makes durable
	 * (SOFTRDMA_READ_FLUSHES); until it is done no further request is served
	 */
	SOFTRDMA_RESPONDER_FLUSHING,
	/*
	 * a request needed a receive and none was posted: it is refused for now (RNR), and what follows it on the wire is
	 * discarded until the requester sends RESYNC
	 */
	SOFTRDMA_RESPONDER_RNR_DUE,  /* the requester is not told yet */
	SOFTRDMA_RESPONDER_RNR_SENT, /* it waits for READY */
	SOFTRDMA_RESPONDER_RNR_OVER, /* READY is sent, too */
	/* a request broke a rule, or the queue pair failed for another reason: nothing is served, a NAK is the last response */
	SOFTRDMA_RESPONDER_FAILED,
};

struct softrdma_responder {
	struct softrdma_response waiting[SOFTRDMA_RD_ATOM_MAX]; /* ring; first, see struct softrdma_link */
	uint32_t first_waiting, count_waiting;

	/* fixed */
	const struct ibv_pd *pd;
	struct softrdma_cq *cq;
	struct softrdma_recv_queue *queue;
	bool queue_is_shared;
	struct softrdma_link *link; /* entered in the receive queue's list of waiting connections */
	uint32_t qp_num;
	int withheld; /* access rights that the queue pair denies, even if the region grants them:
			 enum ibv_access_flags */

	uint32_t expected;  /* the request that comes next, or is being received */
	uint32_t responded; /* all requests before this one have their responses */
	bool ack_due; /* true if the requests since then have an acknowledgement that must not come late */
	/* of messages that give the program a completion, and of requests for which no program waits */
	bool unanswered;      /* true if the last one had no reply yet */
	unsigned answers;     /* number of them in a row that had a reply, up to SOFTRDMA_ACK_LATER_FROM */
	bool message_is_last; /* true if the last request gave the program a completion */
	unsigned at_once;     /* number of messages that do not wait, after one whose reply was late */
	uint32_t rd_atom_max; /* number of responses that may be pending */

	enum softrdma_responder_state state; /* changed by set_state() of responder.c only */

	/* the SEND or WRITE being received */
	uint8_t opcode;
	bool have_recv;
	struct softrdma_recv recv;
	uint64_t total; /* bytes of the whole message */
	uint64_t received;

	/* the FLUSH in progress; it may go on after the queue pair has failed */
	struct softrdma_mr *flush_mr; /* with a reference; NULL: none */
	uint64_t flush_addr, flush_len;
	bool flush_to_read; /* not a FLUSH: a READ whose response leaves when its region is durable */
	struct softrdma_response read_after_flush;

	bool ready_due; /* a receive was posted for the request that was refused */
	uint8_t nak;    /* enum softrdma_nak; 0: none so far. At most one NAK is sent. */
	uint32_t nak_seq;
	bool nak_due;
	bool access_violation;             /* it failed because of an access violation by the peer */
	bool overrun;                      /* the completion queue is overrun */
	struct softrdma_counters counters; /* of what it serves, and of the connection */
};

/* true if a FLUSH is being made: softrdma_responder_flushed() must follow before the next request */
static inline bool
softrdma_responder_is_flushing(const struct softrdma_responder *resp)
{
	return resp->flush_mr != NULL;
}

static inline bool
softrdma_responder_has_failed(const struct softrdma_responder *resp)
{
	return resp->state == SOFTRDMA_RESPONDER_FAILED;
}

enum softrdma_service {
	SOFTRDMA_SERVICE_PLACE,   /* the payload goes to place; softrdma_responder_placed() follows */
	SOFTRDMA_SERVICE_OPERAND, /* the payload is an operand; softrdma_responder_operand() follows */
	SOFTRDMA_SERVICE_DISCARD, /* the payload, if any, is discarded */
	SOFTRDMA_SERVICE_FLUSH,   /* no payload; softrdma_responder_flushed() must follow before the next
				     request */
	SOFTRDMA_SERVICE_BAD,     /* the peer violates the protocol */
};

void softrdma_responder_init(struct softrdma_responder *resp, const struct ibv_pd *pd, struct softrdma_cq *cq,
	struct softrdma_recv_queue *queue, bool queue_is_shared, uint32_t qp_num, struct softrdma_link *link);

/* sets the sequence number of the first request */
void softrdma_responder_start(struct softrdma_responder *resp, uint32_t seq, uint32_t rd_atom_max);

/* takes the header of a request */
enum softrdma_service softrdma_responder_request(struct softrdma_responder *resp,
	const struct softrdma_frame *frame, struct softrdma_place *place);
void softrdma_responder_placed(struct softrdma_responder *resp, const struct softrdma_frame *frame);
void softrdma_responder_operand(struct softrdma_responder *resp, const struct softrdma_frame *frame,
	const uint8_t *operand);
void softrdma_responder_flushed(struct softrdma_responder *resp, int error);

/* memory that passed the checks of the header turned out not to be accessible (EFAULT from the kernel) */
void softrdma_responder_fault(struct softrdma_responder *resp);

/* the next response; false: nothing to send now */
bool softrdma_responder_next(struct softrdma_responder *resp, struct softrdma_outgoing *out);

/* true if executed requests have no response, and none is due yet */
bool softrdma_responder_ack_may_wait(const struct softrdma_responder *resp);
/* true if only acknowledgements are due, and the program will probably reply to the message that it gets, while it handles it */
bool softrdma_responder_expects_reply(const struct softrdma_responder *resp);
/* a thread has finished with a message, and there is no reply yet: acknowledgements of the next messages do not wait for theirs */
void softrdma_responder_reply_is_late(struct softrdma_responder *resp);
/* the acknowledgement of executed requests leaves next, even if it may come late */
void softrdma_responder_ack_now(struct softrdma_responder *resp);
/* a request of this side leaves: the acknowledgement goes with it */
void softrdma_responder_reply_leaves(struct softrdma_responder *resp);
/* no reply has come in time: the acknowledgement leaves, and later ones do not wait until there are replies again */
void softrdma_responder_no_reply(struct softrdma_responder *resp);

/* the receive queue was replenished while this connection waited for a receive */
void softrdma_responder_replenished(struct softrdma_responder *resp);

/*
 * The queue pair goes to error. The receive being filled and all posted ones (if the queue is not shared) are
 * flushed. Pending responses are dropped. If requests wait for a response, the oldest of them gets a NAK. If a
 * NAK is due already, that one leaves instead, after the responses before it. Another call flushes what has
 * been posted since.
 */
void softrdma_responder_fail(struct softrdma_responder *resp);

/*
 * as softrdma_responder_fail(), for an orderly end: executed requests are acknowledged, and no NAK is sent,
 * because the peer flushes the others itself when it sees the end
 */
void softrdma_responder_close(struct softrdma_responder *resp);

/* the queue pair is destroyed: posted receives are dropped without completions (ibv_destroy_qp(3)) */
void softrdma_responder_drop(struct softrdma_responder *resp);

#endif /* SOFTRDMA_RESPONDER_H */
