/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * send_ring.h -- the work requests of a send queue, from their post to their completion
 *
 * The queue is a ring of slots (WQEs). Every request has a sequence number: those from tail to head are posted and not
 * complete. They complete in the order in which they were posted. How a request is carried out is not known here.
 *
 * Pure: no socket, no thread, no clock. The caller holds the queue pair's lock in all calls but one.
 */

#ifndef SOFTRDMA_SEND_RING_H
#define SOFTRDMA_SEND_RING_H

#include <assert.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrdma/core/counters.h"
#include "softrdma/core/cq.h"
#include "softrdma/core/memory.h"
#include "softrdma/wire/opcode.h"

/* where the datagram of a request goes; of the family AF_UNSPEC as long as it is not set */
struct softrdma_destination {
	struct sockaddr_in6 address,
		source; /* addresses of IPv4 are mapped; with the port of the first one */
	union ibv_gid from, to;
	uint32_t qp_num, qkey;
	uint32_t flow_label;
	uint8_t traffic_class, hop_limit;
	bool summed; /* true if the datagram has a check sum */
};

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
	/* from here on, what belongs to the slot and not to the request */
	struct ibv_sge *sge;
	uint8_t *inline_data;
	struct softrdma_destination *to; /* NULL: the queue pair sends no datagrams */
};

struct softrdma_send_ring {
	/* fixed */
	const struct ibv_pd *pd;
	struct softrdma_cq *cq;
	uint32_t qp_num;
	uint32_t capacity;
	uint32_t mask; /* number of slots - 1 */
	struct softrdma_send *slots;
	void *storage;                             /* the slots' SGEs and inline data */
	struct softrdma_destination *destinations; /* NULL: none */

	uint32_t head, tail; /* sequence numbers: they wrap, their differences do not */
	bool overrun;        /* the completion queue is overrun: the owner puts the queue pair in error */
	struct softrdma_counters counters;
};

/* the SGEs that a work request may have: one also for a program that has asked for none */
static inline uint32_t
softrdma_send_ring_max_sge(const struct ibv_qp_cap *cap)
{
	return cap->max_send_sge ? cap->max_send_sge : 1;
}

/* 0 or ENOMEM; a ring that is all zeroes may be ended, too */
int softrdma_send_ring_init(struct softrdma_send_ring *ring, const struct ibv_pd *pd, struct softrdma_cq *cq,
	uint32_t qp_num, const struct ibv_qp_cap *cap);
/* gives each slot a destination; 0 or ENOMEM. Before the first request. */
int softrdma_send_ring_add_destinations(struct softrdma_send_ring *ring);
void softrdma_send_ring_fini(struct softrdma_send_ring *ring);

/* sets the sequence number of the first request */
void softrdma_send_ring_start(struct softrdma_send_ring *ring, uint32_t seq);

/* the number of work requests that the queue has room for */
uint32_t softrdma_send_ring_room(const struct softrdma_send_ring *ring);

/* the slot of that sequence number, as it is */
static inline struct softrdma_send *
softrdma_send_ring_slot_at(const struct softrdma_send_ring *ring, uint32_t seq)
{
	return &ring->slots[seq & ring->mask];
}

/*
 * The same slot, cleared. Without the lock: no other thread uses the slots after the last
 * request that was posted, as far as there is room.
 */
struct softrdma_send *softrdma_send_ring_clear_slot(struct softrdma_send_ring *ring, uint32_t seq);

/* the slot for the next work request, cleared; NULL: the queue is full */
struct softrdma_send *softrdma_send_ring_slot(struct softrdma_send_ring *ring);

/* posts the request in the next slot, which the caller has filled; returns its sequence number */
uint32_t softrdma_send_ring_commit(struct softrdma_send_ring *ring);

/* a request that has been posted and is not complete */
static inline struct softrdma_send *
softrdma_send_ring_at(const struct softrdma_send_ring *ring, uint32_t seq)
{
	assert(seq - ring->tail < ring->head - ring->tail);
	return softrdma_send_ring_slot_at(ring, seq);
}

/* takes the oldest request off the queue; a successful one gives a completion only if it is signaled */
void softrdma_send_ring_complete(struct softrdma_send_ring *ring, enum ibv_wc_status status);

static inline const struct softrdma_opcode_info *
softrdma_send_info(const struct softrdma_send *send)
{
	return softrdma_opcode_info(send->opcode);
}

/* true if the request's operation has data in SGEs, or inline */
bool softrdma_send_has_sges(const struct softrdma_send *send);

/* 0 if the request's data fit its operation (ibv_post_send(3)), else an errno value */
int softrdma_send_check(struct softrdma_send *send);

#endif /* SOFTRDMA_SEND_RING_H */
