/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* recv_queue.c -- posted receives, of one queue pair or of a shared receive queue */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/core/link.h"
#include "softrdma/core/recv_queue.h"

/* an entry has room for max_sge SGEs only, so that a deep queue of receives with one SGE stays small */
static size_t
recv_size(uint32_t max_sge)
{
	return offsetof(struct softrdma_recv, sge) + max_sge * sizeof(struct ibv_sge);
}

static struct softrdma_recv *
recv_at(const struct softrdma_recv_queue *queue, uint32_t index)
{
	if (index >= queue->capacity)
		index -= queue->capacity;
	return (struct softrdma_recv *)((char *)queue->ring + index * recv_size(queue->max_sge));
}

int
softrdma_recv_queue_init(struct softrdma_recv_queue *queue, uint32_t capacity, uint32_t max_sge)
{
	assert(max_sge <= SOFTRDMA_SGE_MAX && capacity <= SOFTRDMA_WR_MAX);
	memset(queue, 0, sizeof(*queue));
	if (max_sge == 0)
		max_sge = 1;
	queue->ring = calloc(capacity ? capacity : 1, recv_size(max_sge));
	if (queue->ring == NULL)
		return ENOMEM;
	queue->capacity = capacity;
	queue->max_sge = max_sge;
	pthread_mutex_init(&queue->lock, NULL);
	return 0;
}

void
softrdma_recv_queue_fini(struct softrdma_recv_queue *queue)
{
	assert(queue->waiting == NULL);
	pthread_mutex_destroy(&queue->lock);
	free(queue->ring);
}

int
softrdma_recv_queue_put(struct softrdma_recv_queue *queue, const struct ibv_recv_wr *wr)
{
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > queue->max_sge)
		return EINVAL;

	int ret = ENOMEM;
	pthread_mutex_lock(&queue->lock);
	if (queue->count < queue->capacity) {
		struct softrdma_recv *recv = recv_at(queue, queue->head + queue->count);
		recv->wr_id = wr->wr_id;
		recv->num_sge = wr->num_sge;
		recv->length = 0;
		for (int i = 0; i < wr->num_sge; i++) {
			recv->sge[i] = wr->sg_list[i];
			recv->length += wr->sg_list[i].length;
		}
		queue->count++;
		ret = 0;
	}
	pthread_mutex_unlock(&queue->lock);
	return ret;
}

/* the caller holds the queue's lock */
static bool
take(struct softrdma_recv_queue *queue, struct softrdma_recv *recv)
{
	if (queue->count == 0)
		return false;
	const struct softrdma_recv *from = recv_at(queue, queue->head);
	memcpy(recv, from, recv_size((uint32_t)from->num_sge));
	queue->head = queue->head + 1 < queue->capacity ? queue->head + 1 : 0;
	queue->count--;
	return true;
}

bool
softrdma_recv_queue_take(struct softrdma_recv_queue *queue, struct softrdma_recv *recv)
{
	pthread_mutex_lock(&queue->lock);
	bool taken = take(queue, recv);
	pthread_mutex_unlock(&queue->lock);
	return taken;
}

enum softrdma_recv_taken
softrdma_recv_queue_take_for(struct softrdma_recv_queue *queue, uint64_t length, struct softrdma_recv *recv)
{
	enum softrdma_recv_taken taken = SOFTRDMA_RECV_NONE;
	pthread_mutex_lock(&queue->lock);
	if (queue->count > 0 && recv_at(queue, queue->head)->length < length)
		taken = SOFTRDMA_RECV_TOO_SHORT;
	else if (take(queue, recv))
		taken = SOFTRDMA_RECV_TAKEN;
	pthread_mutex_unlock(&queue->lock);
	return taken;
}

bool
softrdma_recv_queue_take_or_wait(struct softrdma_recv_queue *queue, struct softrdma_recv *recv,
	struct softrdma_link *link)
{
	pthread_mutex_lock(&queue->lock);
	bool taken = take(queue, recv);
	if (!taken) {
		struct softrdma_link **at = &queue->waiting;
		while (*at && *at != link)
			at = &(*at)->waiting_next;
		if (*at == NULL) {
			link->waiting_next = NULL;
			*at = link;
		}
	}
	pthread_mutex_unlock(&queue->lock);
	return taken;
}

struct softrdma_link *
softrdma_recv_queue_pop_waiting(struct softrdma_recv_queue *queue)
{
	struct softrdma_link *link = NULL;
	pthread_mutex_lock(&queue->lock);
	if (queue->count > 0 && queue->waiting) {
		link = queue->waiting;
		queue->waiting = link->waiting_next;
		softrdma_link_get(link);
	}
	pthread_mutex_unlock(&queue->lock);
	return link;
}

void
softrdma_recv_queue_forget(struct softrdma_recv_queue *queue, struct softrdma_link *link)
{
	pthread_mutex_lock(&queue->lock);
	struct softrdma_link **at = &queue->waiting;
	while (*at && *at != link)
		at = &(*at)->waiting_next;
	if (*at)
		*at = link->waiting_next;
	pthread_mutex_unlock(&queue->lock);
}
