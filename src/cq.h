/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* cq.h -- completion queues */

#ifndef RPMAI_CQ_H
#define RPMAI_CQ_H

#include <pthread.h>
#include <stdatomic.h>

#include "peer.h"
#include "stats.h"
#include "timeout.h"

struct write_parts;

/* but for its flags, counters and what the lock guards it never changes, so any thread may read it */
struct rpma_cq {
	const struct rdma_api *rdma;
	struct ibv_comp_channel *channel;
	bool channel_is_shared; /* then it is not the queue's */
	struct ibv_cq *ibv_cq;

	atomic_bool auto_arm;   /* a wait arms it for its next event */
	atomic_uint unacked;    /* events taken and not acknowledged yet */
	struct turn timed;      /* one thread at a time waits with a timeout */
	atomic_uint collectors; /* threads that collect without the lock, and whether one still may */
	pthread_mutex_t lock;   /* collecting is ordered, as merging needs it */
	struct write_parts *write_parts; /* NULL where no durable write completes */
	struct cq_counters stats;
};

/*
 * Makes an armed completion queue of cqe entries on the given channel, or on one of its own (shared_channel
 * NULL). RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpmai_cq_new(const struct rpma_peer *peer, struct ibv_context *ctx, int cqe,
	struct ibv_comp_channel *shared_channel, struct rpma_cq **cq_ptr);

/* frees it; pointer to NULL is allowed. RPMA_E_PROVIDER */
int rpmai_cq_delete(struct rpma_cq **cq_ptr);

/*
 * Takes one event of a completion channel and says of which queue it is, whose rpmai_cq_ack comes next.
 * RPMA_E_NO_COMPLETION, RPMA_E_PROVIDER
 */
int rpmai_cq_take_event(const struct rdma_api *rdma, struct ibv_comp_channel *channel,
	struct ibv_cq **ibv_cq);

/* acknowledges an event of it, now or together with later ones */
void rpmai_cq_ack(struct rpma_cq *cq);

/*
 * From now on completions are collected one thread after the other, as merging those of durable writes needs
 * it. Of a queue with write_parts
 */
void rpmai_cq_keep_order(struct rpma_cq *cq);

/* arms it for its next event if that is for the library to do. RPMA_E_PROVIDER */
int rpmai_cq_auto_arm(struct rpma_cq *cq);

#endif /* RPMAI_CQ_H */
