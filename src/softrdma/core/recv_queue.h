/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* recv_queue.h -- posted receives, of one queue pair or of a shared receive queue */

#ifndef SOFTRDMA_RECV_QUEUE_H
#define SOFTRDMA_RECV_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrdma/bounds.h"
#include "softrdma/softrdma.h"

struct softrdma_link;

struct softrdma_recv {
	uint64_t wr_id;
	uint64_t length; /* bytes of all SGEs together */
	int num_sge;
	struct ibv_sge sge[SOFTRDMA_SGE_MAX];
};

struct softrdma_recv_queue {
	pthread_mutex_t lock;
	struct softrdma_recv *ring; /* each entry with max_sge SGEs only: see recv_at() */
	uint32_t capacity;
	uint32_t max_sge;
	uint32_t head;
	uint32_t count;
	struct softrdma_link
		*waiting; /* connections whose peer waits for a receive (RNR); link->waiting_next */
};

/* 0 or ENOMEM */
int softrdma_recv_queue_init(struct softrdma_recv_queue *queue, uint32_t capacity, uint32_t max_sge);
void softrdma_recv_queue_fini(struct softrdma_recv_queue *queue);

/* 0, EINVAL (too many SGEs) or ENOMEM (full). Any thread; takes the queue's lock. */
int softrdma_recv_queue_put(struct softrdma_recv_queue *queue, const struct ibv_recv_wr *wr);

/* false: the queue is empty. Any thread, also one that holds a connection's lock; takes the queue's lock. */
bool softrdma_recv_queue_take(struct softrdma_recv_queue *queue, struct softrdma_recv *recv);

enum softrdma_recv_taken {
	SOFTRDMA_RECV_TAKEN,
	SOFTRDMA_RECV_NONE,
	SOFTRDMA_RECV_TOO_SHORT, /* the oldest one has less room, and stays */
};

/* takes the oldest receive if it has room for length bytes; locks as above */
enum softrdma_recv_taken softrdma_recv_queue_take_for(struct softrdma_recv_queue *queue, uint64_t length,
	struct softrdma_recv *recv);

/*
 * Takes a receive. If the queue is empty, it adds the connection, in the same step, to those that wait for a receive,
 * and returns false. The caller holds the lock of the connection.
 */
bool softrdma_recv_queue_take_or_wait(struct softrdma_recv_queue *queue, struct softrdma_recv *recv,
	struct softrdma_link *link);

/*
 * If there is a receive, takes the connection that has waited for the longest time off the list, with a
 * reference for the caller. NULL: no receive, or no connection.
 */
struct softrdma_link *softrdma_recv_queue_pop_waiting(struct softrdma_recv_queue *queue);

/* the connection ends: takes it off the list of waiting ones */
void softrdma_recv_queue_forget(struct softrdma_recv_queue *queue, struct softrdma_link *link);

#endif /* SOFTRDMA_RECV_QUEUE_H */
