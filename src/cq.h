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

/* Any thread may read it: only its flags, its counters and what the lock guards change after rpmai_cq_new. */
struct rpma_cq {
	const struct rdma_api *rdma;
	struct ibv_comp_channel *channel;
	bool channel_is_shared; /* true if the channel belongs to the connection */
	struct ibv_cq *ibv_cq;

	atomic_bool auto_arm;   /* true if a wait arms the queue for the next event */
	atomic_uint unacked;    /* events taken but not acknowledged yet */
	struct turn timed;      /* lets one thread at a time wait with a timeout */
	atomic_uint collectors; /* number of threads that collect without the lock, and the flag IN_ORDER */
	pthread_mutex_t lock;   /* taken while completions are collected in order, for the merging */
	struct write_parts *write_parts; /* NULL if no durable write can complete here */
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
 * Takes one event of a completion channel and stores the queue it is for. The caller then calls rpmai_cq_ack
 * for that queue. RPMA_E_NO_COMPLETION, RPMA_E_PROVIDER
 */
int rpmai_cq_take_event(const struct rdma_api *rdma, struct ibv_comp_channel *channel,
	struct ibv_cq **ibv_cq);

/* acknowledges one event of the queue, now or together with later ones */
void rpmai_cq_ack(struct rpma_cq *cq);

/*
 * From now on one thread at a time collects completions, because merging those of durable writes needs their
 * order. The queue must have write_parts.
 */
void rpmai_cq_keep_order(struct rpma_cq *cq);

/* arms the queue for its next event, unless the program arms it itself. RPMA_E_PROVIDER */
int rpmai_cq_auto_arm(struct rpma_cq *cq);

#endif /* RPMAI_CQ_H */
