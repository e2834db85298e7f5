/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* completion.c -- the calls of the application for completion queues and completion channels */

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/spin.h"
#include "softrdma/bounds.h"
#include "softrdma/engine/lead.h"
#include "softrdma/engine/waiter.h"
#include "softrdma/verbs/completion.h"
#include "softrdma/verbs/device.h"
#include "softrdma/verbs/domain.h"

struct ibv_comp_channel *
softrdma_ibv_create_comp_channel(struct ibv_context *context)
{
	context = softrdma_context();
	struct softrdma_comp_channel *channel = context ? calloc(1, sizeof(*channel)) : NULL;
	if (channel == NULL)
		return NULL;
	channel->channel.context = context;
	int ret = softrdma_readable_open(&channel->readable);
	if (ret) {
		free(channel);
		errno = ret;
		return NULL;
	}
	channel->channel.fd = channel->readable.fd;
	pthread_mutex_init(&channel->lock, NULL);
	softrdma_lead_init(&channel->lead, channel);
	return &channel->channel;
}

int
softrdma_ibv_destroy_comp_channel(struct ibv_comp_channel *ibv_channel)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_comp_channel *channel = softrdma_comp_channel_of(ibv_channel);
	if (softrdma_is_inherited(ibv_channel->context))
		return softrdma_fork_refuse("ibv_destroy_comp_channel");
	pthread_mutex_lock(&channel->lock);
	int busy = channel->channel.refcnt != 0;
	pthread_mutex_unlock(&channel->lock);
	if (busy)
		return EBUSY;

	softrdma_lead_end(&channel->lead);
	softrdma_lead_fini(&channel->lead);
	softrdma_readable_close(&channel->readable);
	pthread_mutex_destroy(&channel->lock);
	free(channel);
	return 0;
}

int
softrdma_ibv_get_cq_event(struct ibv_comp_channel *ibv_channel, struct ibv_cq **cq_ptr, void **cq_context)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_comp_channel *channel = softrdma_comp_channel_of(ibv_channel);
	struct softrdma_cq *cq;
	bool has_blocked = false;
	if (softrdma_is_inherited(ibv_channel->context)) {
		errno = softrdma_fork_refuse("ibv_get_cq_event");
		return -1;
	}
	while ((cq = softrdma_comp_channel_take(channel)) == NULL) {
		if (softrdma_lead_collect(&channel->lead))
			continue;
		int ret = softrdma_waiter_wait(channel, cancel_before);
		if (ret) {
			errno = ret;
			return -1;
		}
		has_blocked = true;
	}
	softrdma_lead_took_event(&channel->lead, has_blocked);
	*cq_ptr = &cq->cq;
	*cq_context = cq->cq.cq_context;
	return 0;
}

void
softrdma_ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	if (softrdma_is_inherited(cq->context)) {
		softrdma_fork_refuse("ibv_ack_cq_events");
		return;
	}
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_broadcast(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

struct ibv_cq *
softrdma_ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
	struct ibv_comp_channel *channel, int comp_vector)
{
	SOFTRDMA_NO_CANCEL;
	if (cqe < 1 || cqe > SOFTRDMA_CQE_MAX || comp_vector != 0) {
		errno = EINVAL;
		return NULL;
	}
	if (channel && softrdma_is_inherited(channel->context)) {
		errno = softrdma_fork_refuse("ibv_create_cq");
		return NULL;
	}
	context = softrdma_context();
	struct softrdma_cq *cq = context ? calloc(1, sizeof(*cq)) : NULL;
	if (cq == NULL)
		goto err_out;
	cq->capacity = (uint32_t)cqe;
	cq->ring = calloc(cq->capacity, sizeof(*cq->ring));
	if (cq->ring == NULL)
		goto err_free;
	cq->cq.context = context;
	cq->cq.channel = channel;
	cq->cq.cq_context = cq_context;
	cq->cq.cqe = cqe;
	pthread_mutex_init(&cq->cq.mutex, NULL);
	pthread_cond_init(&cq->cq.cond, NULL);
	pthread_mutex_init(&cq->lock, NULL);
	softrdma_lead_init(&cq->own_lead, NULL);
	cq->lead = channel ? &softrdma_comp_channel_of(channel)->lead : &cq->own_lead;
	pthread_mutex_init(&cq->poll_lock, NULL);
	if (channel)
		softrdma_cq_join_channel(cq, softrdma_comp_channel_of(channel));
	return &cq->cq;

err_free:
	free(cq);
err_out:
	errno = ENOMEM;
	return NULL;
}

int
softrdma_ibv_destroy_cq(struct ibv_cq *ibv_cq)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_cq *cq = softrdma_cq_of(ibv_cq);
	if (softrdma_is_inherited(ibv_cq->context))
		return softrdma_fork_refuse("ibv_destroy_cq");
	if (cq->connections > 0)
		return EBUSY;

	if (cq->cq.channel)
		softrdma_cq_leave_channel(cq);
	if (cq->domain)
		atomic_fetch_sub(&cq->domain->users, 1);
	pthread_mutex_destroy(&cq->poll_lock);
	softrdma_lead_end(&cq->own_lead);
	softrdma_lead_fini(&cq->own_lead);
	pthread_mutex_destroy(&cq->lock);
	pthread_cond_destroy(&cq->cq.cond);
	pthread_mutex_destroy(&cq->cq.mutex);
	free(cq->ring);
	free(cq);
	return 0;
}

int
softrdma_poll_cq(struct ibv_cq *ibv_cq, int num_entries, struct ibv_wc *wc)
{
	struct softrdma_cq *cq = softrdma_cq_of(ibv_cq);
	if (atomic_load_explicit(&cq->count, memory_order_acquire) == 0) {
		/* arm, poll once more, wait: many queues of an event loop do that in turn, which is no spin */
		const bool waits_next = atomic_load_explicit(&cq->armed_anew, memory_order_relaxed);
		if (waits_next)
			atomic_store_explicit(&cq->armed_anew, false, memory_order_relaxed);
		/* The poller serves the connections itself, which saves a thread switch; what it waits for next may report them. */
		if (!waits_next || !softrdma_lead_is_on(cq->lead))
			softrdma_lead_poll(cq->lead);
		else
			softrdma_lead_no_replies(cq->lead);
		if (atomic_load_explicit(&cq->count, memory_order_acquire) == 0 &&
			!atomic_load_explicit(&cq->overrun, memory_order_relaxed)) {
			if (!waits_next && !softrdma_spin_give_way(softrdma_spin_mine()))
				softrdma_lead_nap(cq->lead);
			return 0;
		}
	}
	return softrdma_cq_pop(cq, num_entries, wc);
}

int
softrdma_req_notify_cq(struct ibv_cq *ibv_cq, int solicited_only)
{
	struct softrdma_cq *cq = softrdma_cq_of(ibv_cq);
	softrdma_cq_arm(cq, solicited_only);
	softrdma_lead_armed(cq->lead);
	atomic_store_explicit(&cq->armed_anew, true, memory_order_relaxed);
	return 0;
}
