/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * link.h -- one connection: the byte stream on one side, requester and responder of a queue pair on the other
 *
 * Received bytes are cut into frames here. The payload of a long frame is received straight into registered
 * memory (zero-copy); what arrives together with a header goes through a small stage. Frames to send are gathered
 * into a batch that one system call takes (doorbell batching). Their payload stays where the application has it.
 *
 * A link is created with its queue pair, and outlives it only while another thread holds a reference. Its states:
 *
 *	IDLE     not connected yet (or never)
 *	UP       frames flow
 *	CLOSING  this side ends the connection: responses still leave, then DISCONNECT, then the stream is shut down
 *	DOWN     the peer has sent DISCONNECT, or the stream has ended
 *
 * There is no socket, thread or clock in here: those are a connection's (connection.h). The caller holds the link's
 * lock in all calls, unless stated otherwise.
 */

#ifndef SOFTRDMA_LINK_H
#define SOFTRDMA_LINK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "softrdma/core/requester.h"
#include "softrdma/core/responder.h"
#include "softrdma/wire/wire.h"

enum softrdma_link_state {
	SOFTRDMA_LINK_IDLE,
	SOFTRDMA_LINK_UP,
	SOFTRDMA_LINK_CLOSING,
	SOFTRDMA_LINK_DOWN,
};

enum softrdma_rx_state {
	SOFTRDMA_RX_HEADER,
	SOFTRDMA_RX_PLACING, /* payload goes to its place (the SGEs of registered memory) */
	SOFTRDMA_RX_OPERAND, /* payload is handled once all of it is in the stage */
	SOFTRDMA_RX_DISCARDING,
};

struct softrdma_rx {
	enum softrdma_rx_state state;
	struct softrdma_frame frame;
	struct softrdma_place place;
	uint32_t done;                      /* bytes of the frame's payload that have been handled */
	uint32_t begin, end;                /* of the bytes in the stage */
	struct softrdma_pages pages;        /* found writable since the last bytes came */
	uint8_t stage[SOFTRDMA_STAGE_SIZE]; /* last, see struct softrdma_link */
};

struct softrdma_tx {
	unsigned first, count; /* entries of iov from first to count are not sent yet */
	unsigned frames, frames_max;
	struct iovec iov[SOFTRDMA_TX_IOVS];
	struct softrdma_mr *mr[SOFTRDMA_TX_IOVS]; /* NULL: not registered memory */
	uint8_t opcode[SOFTRDMA_TX_IOVS];         /* of the frame that the entry belongs to */
	uint32_t seq[SOFTRDMA_TX_IOVS];           /* of that frame */
	bool is_header[SOFTRDMA_TX_IOVS];
	uint8_t headers[SOFTRDMA_TX_FRAMES][SOFTRDMA_FRAME_SIZE];
	uint8_t bytes[SOFTRDMA_TX_FRAMES][16];
};

struct softrdma_link;

/* how a link reports to the connection manager; called with the link's lock held */
struct softrdma_link_ops {
	void (*ready)(struct softrdma_link *link, void *arg); /* the active side confirms the acceptance */
	void (*disconnected)(struct softrdma_link *link, void *arg); /* once, when the connection ends */
};

/* what a link calls of its shared-memory path, with its lock held */
struct softrdma_shm_path_ops {
	/* gives the offer that is to leave now; false: none */
	bool (*next_offer)(struct softrdma_link *link, struct softrdma_shm_offer *offer);
	/* the peer's offer says where its registry is: from here on each side may access the other's memory */
	void (*offer_came)(struct softrdma_link *link, const struct softrdma_shm_offer *offer);
	/* the queue pair no longer serves its peer */
	void (*shut)(struct softrdma_link *link);
};

/* a link's shared-memory path to a peer on the same host; the rest of it is in shm_path.c */
struct softrdma_shm_path {
	const struct softrdma_shm_path_ops *ops;
};

struct softrdma_link {
	pthread_mutex_t lock; /* guards everything below; taken before the locks of queues and channels */
	atomic_uint refs;
	void (*delete)(struct softrdma_link *link); /* called when the last reference is dropped */

	enum softrdma_link_state state;
	atomic_bool failed; /* true if the queue pair is in error; peeked at without the lock */
	bool ready_due, disconnect_due, fin_due;
	/*
	 * True if READY must be the next frame. Before it the application has not heard of the connection, so nothing that
	 * the peer sends may have an effect: an application that gives the memory to another peer relies on that.
	 */
	bool awaits_ready;
	/*
	 * True if connected by hand. No event reports the peer's end to the application then, so its requests must
	 * fail, once there are any.
	 */
	bool by_hand;
	struct ibv_qp *qp;                   /* NULL once it is destroyed */
	const struct softrdma_link_ops *ops; /* NULL: no connection manager */
	void *ops_arg;

	struct softrdma_requester requester;
	uint32_t seq;  /* the sequence number of this side's first request */
	uint32_t qkey; /* of a queue pair of datagrams: what those that come must have */
	/*
	 * The stage ends rx, and the ring of responses begins responder. Most connections use little of either, and what
	 * was never written costs no memory: so these two are side by side, and nothing clears them.
	 */
	struct softrdma_rx rx;
	struct softrdma_responder responder;
	struct softrdma_tx tx;

	bool by_copy; /* true if the stream is not plain: payload is copied to memory, and sent from a copy */
	struct softrdma_shm_path *shm_path; /* NULL: the peer is not known to be on this host (shm_path.h) */

	/* its acknowledgements may wait for a reply; guarded by the lead's lock */
	struct softrdma_link *replier_next;
	struct softrdma_link *waiting_next; /* lacks a receive (RNR); guarded by the receive queue's lock */
	uint32_t frames_received;           /* number of headers, modulo 2^32 */
	bool offer_received;                /* true if the peer has sent its SHM_OFFER */
	const char *breach;                 /* if the peer breaks the protocol: what it sent; for the log */
};

/* initializes a link in any memory, with one reference; delete() frees the memory. No lock. */
void softrdma_link_init(struct softrdma_link *link, void (*delete)(struct softrdma_link *link));
/* any thread, any lock */
void softrdma_link_get(struct softrdma_link *link);
void softrdma_link_put(struct softrdma_link *link);

/* frames flow from here on; sets both sides' first sequence numbers, and how many reads and atomics may be outstanding */
void softrdma_link_start(struct softrdma_link *link, uint32_t peer_seq, uint32_t initiator_depth,
	uint32_t responder_resources);

/* frames flow from here on; requester and responder have been started already */
void softrdma_link_open(struct softrdma_link *link);

/* says where the next received bytes belong, and returns the number of iovs; 0: none may be received, a FLUSH runs */
int softrdma_link_rx_iov(struct softrdma_link *link, struct iovec iov[static SOFTRDMA_SGE_MAX + 1]);
/* len bytes have been received there; false: the peer breaks the protocol */
bool softrdma_link_rx_done(struct softrdma_link *link, size_t len);
/* true if a short read may have ended at a missing page, and not because the socket is empty */
static inline bool
softrdma_link_rx_may_fault(const struct softrdma_link *link)
{
	return link->rx.state == SOFTRDMA_RX_PLACING && !link->by_copy;
}
/*
 * The same for bytes in a buffer: payload is copied from it to its place. The result is how many bytes were used (the
 * rest must wait until a FLUSH has been made), or -1: the peer breaks the protocol.
 */
ssize_t softrdma_link_rx_take(struct softrdma_link *link, const uint8_t *bytes, size_t len);
/* the kernel could not store to the memory: the message is refused, and the rest of it discarded */
void softrdma_link_rx_fault(struct softrdma_link *link);
/* goes on with the bytes in the stage, for example after a FLUSH; false: the peer breaks the protocol */
bool softrdma_link_rx_go_on(struct softrdma_link *link);

/* true if nothing has to leave before the program's reply to what it gets */
bool softrdma_link_expects_reply(const struct softrdma_link *link);
/* the program has finished with what it got, and may not have replied */
void softrdma_link_reply_is_late(struct softrdma_link *link);
/* fills the batch if it is empty; false: nothing to send */
bool softrdma_link_tx_fill(struct softrdma_link *link);
/*
 * Copies as much of the batch as there is room for. The result is the number of bytes, or -1 if registered memory is no
 * longer mapped.
 */
ssize_t softrdma_link_tx_copy(const struct softrdma_link *link, uint8_t *to, size_t room);
/* memory of the batch is not there: fails the queue pair; a request gets the error only if the memory is a request's */
void softrdma_link_tx_fault(struct softrdma_link *link);
/* len bytes of the batch have been sent */
void softrdma_link_tx_done(struct softrdma_link *link, size_t len);

/* the queue pair goes to error: the oldest send completes with status, all others are flushed */
void softrdma_link_fail(struct softrdma_link *link, enum ibv_wc_status status);
/* this side ends the connection (rdma_disconnect): all work requests are flushed, and DISCONNECT is due */
void softrdma_link_close(struct softrdma_link *link);
/* the same for a queue pair that is being destroyed: its work requests vanish without completions */
void softrdma_link_abandon(struct softrdma_link *link);
/*
 * Ends the connection after an access violation (responder.access_violation): the due responses leave, the NAK as the
 * last of them, then DISCONNECT. The connection is up and failed.
 */
void softrdma_link_close_after_violation(struct softrdma_link *link);
/*
 * Nothing further is sent, and the stream ends. What the peer sent before it left is still read, up to the end of its
 * stream.
 */
void softrdma_link_break(struct softrdma_link *link);
/* the stream has ended */
void softrdma_link_lost(struct softrdma_link *link);

/*
 * The region is being deregistered: no frame on its way may access it from here on. True: a frame has been sent in part
 * from it, so the stream cannot go on, and the socket must be closed.
 */
bool softrdma_link_revoke(struct softrdma_link *link, const struct softrdma_mr *mr);

#endif /* SOFTRDMA_LINK_H */
