/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* recv_queue.h -- posted receives, of one queue pair or shared by many */

#ifndef SOFTRDMA_RECV_QUEUE_H
#define SOFTRDMA_RECV_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "bounds.h"
#include "softrdma.h"

struct softrdma_link;

struct softrdma_recv {
	uint64_t wr_id;
	uint64_t length; /* of all pieces */
	int num_sge;
	struct ibv_sge sge[SOFTRDMA_SGE_MAX];
};

struct softrdma_recv_queue {
	pthread_mutex_t lock;
	struct softrdma_recv *ring; /* each with max_sge pieces only: see recv_at() */
	uint32_t capacity;
	uint32_t max_sge;
	uint32_t head;
	uint32_t count;
	struct softrdma_link
		*starving; /* connections whose sender waits for a receive; linked by link->starving_next */
};

/* 0 or ENOMEM */
int softrdma_recv_queue_init(struct softrdma_recv_queue *queue, uint32_t capacity, uint32_t max_sge);
void softrdma_recv_queue_fini(struct softrdma_recv_queue *queue);

/* 0, EINVAL (too many pieces) or ENOMEM (full). Any thread; takes the queue's lock. */
int softrdma_recv_queue_put(struct softrdma_recv_queue *queue, const struct ibv_recv_wr *wr);

/* false: empty. Any thread, also under the lock of a connection; takes the queue's lock. */
bool softrdma_recv_queue_take(struct softrdma_recv_queue *queue, struct softrdma_recv *recv);

/*
 * Takes, or else enters the connection among the starving ones, in one step. False: entered. The lock of the
 * connection is held.
 */
bool softrdma_recv_queue_take_or_starve(struct softrdma_recv_queue *queue, struct softrdma_recv *recv,
	struct softrdma_link *link);

/*
 * the oldest starving connection, taken out of the list with a reference, if there is a receive for it; else
 * NULL
 */
struct softrdma_link *softrdma_recv_queue_pop_starving(struct softrdma_recv_queue *queue);

/* the connection ends: it starves no more */
void softrdma_recv_queue_forget(struct softrdma_recv_queue *queue, struct softrdma_link *link);

#endif /* SOFTRDMA_RECV_QUEUE_H */
