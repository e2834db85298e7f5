/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* cq.c -- completion queues and completion channels: the ring, the events, and the connections that complete here */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/spin.h"
#include "softrdma/core/cq.h"
#include "softrdma/core/link.h"

/* the channel whose events this thread waits for, while it serves the channel's connections itself */
static _Thread_local struct softrdma_comp_channel *served_channel;

/* --- events of a channel --- */

/* the channel's lock is held */
static void
enqueue_on_channel(struct softrdma_comp_channel *channel, struct softrdma_cq *cq)
{
	cq->next = NULL;
	if (channel->last)
		channel->last->next = cq;
	else
		channel->first = cq;
	channel->last = cq;
}

/* the channel's lock is held */
static void
unlink_from_channel(struct softrdma_comp_channel *channel, struct softrdma_cq *cq)
{
	struct softrdma_cq *before = NULL;
	for (struct softrdma_cq *at = channel->first; at != cq; at = at->next)
		before = at;
	if (before)
		before->next = cq->next;
	else
		channel->first = cq->next;
	if (channel->last == cq)
		channel->last = before;
}

/* The descriptor tells whether events wait. The channel's lock is held. */
static void
tell(struct softrdma_comp_channel *channel, bool wait)
{
	/* also before it tells again, which is an edge then */
	if (channel->told)
		softrdma_readable_clear(&channel->readable, channel->lead.link_count);
	/* if the application has closed the descriptor, the event stays in the list */
	channel->told = wait && softrdma_readable_raise(&channel->readable);
}

static void
raise_event(struct softrdma_cq *cq)
{
	if (cq->cq.channel == NULL)
		return;
	struct softrdma_comp_channel *channel = softrdma_comp_channel_of(cq->cq.channel);
	pthread_mutex_lock(&channel->lock);
	if (cq->events++ == 0)
		enqueue_on_channel(channel, cq);
	const bool tells = channel != served_channel;
	if (tells)
		tell(channel, true);
	pthread_mutex_unlock(&channel->lock);
	if (tells)
		softrdma_spin_has_woken(softrdma_spin_mine());
}

void
softrdma_comp_channel_serve(struct softrdma_comp_channel *channel)
{
	served_channel = channel;
}

/* an event was taken off the list, or left it. The channel's lock is held. */
static void
tell_what_is_left(struct softrdma_comp_channel *channel)
{
	const bool left = channel->first != NULL;
	if (left || channel->told)
		tell(channel, left);
}

void
softrdma_comp_channel_tell_again(struct softrdma_comp_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	if (channel->told)
		channel->told = softrdma_readable_raise(&channel->readable);
	pthread_mutex_unlock(&channel->lock);
}

struct softrdma_cq *
softrdma_comp_channel_take(struct softrdma_comp_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	struct softrdma_cq *cq = channel->first;
	if (cq) {
		unlink_from_channel(channel, cq);
		cq->events_taken++;
		if (--cq->events > 0)
			enqueue_on_channel(channel, cq); /* after the other queues, so that none starves */
		tell_what_is_left(channel);
	}
	pthread_mutex_unlock(&channel->lock);
	return cq;
}

bool
softrdma_comp_channel_is_armed(struct softrdma_comp_channel *channel)
{
	bool is_armed = false;
	pthread_mutex_lock(&channel->lock);
	for (struct softrdma_cq *cq = channel->members; cq && !is_armed; cq = cq->next_member) {
		pthread_mutex_lock(&cq->lock);
		is_armed = cq->armed != SOFTRDMA_NOT_ARMED;
		pthread_mutex_unlock(&cq->lock);
	}
	pthread_mutex_unlock(&channel->lock);
	return is_armed;
}

bool
softrdma_comp_channel_has_event(struct softrdma_comp_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	bool has = channel->first != NULL;
	pthread_mutex_unlock(&channel->lock);
	return has;
}

bool
softrdma_comp_channel_owe(struct softrdma_comp_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	struct softrdma_cq *cq = channel->first ? NULL : channel->members;
	if (cq && cq->events++ == 0)
		enqueue_on_channel(channel, cq);
	pthread_mutex_unlock(&channel->lock);
	return cq != NULL;
}

void
softrdma_cq_join_channel(struct softrdma_cq *cq, struct softrdma_comp_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	channel->channel.refcnt++;
	cq->next_member = channel->members;
	channel->members = cq;
	pthread_mutex_unlock(&channel->lock);
}

void
softrdma_cq_leave_channel(struct softrdma_cq *cq)
{
	struct softrdma_comp_channel *channel = softrdma_comp_channel_of(cq->cq.channel);
	pthread_mutex_lock(&channel->lock);
	struct softrdma_cq **member = &channel->members;
	while (*member != cq)
		member = &(*member)->next_member;
	*member = cq->next_member;
	if (cq->events > 0)
		unlink_from_channel(channel, cq);
	cq->events = 0;
	tell_what_is_left(channel);
	unsigned taken = cq->events_taken;
	pthread_mutex_unlock(&channel->lock);

	/* some programs acknowledge more events than they have fetched, hence the signed difference */
	pthread_mutex_lock(&cq->cq.mutex);
	while ((int)(cq->cq.comp_events_completed - taken) < 0)
		pthread_cond_wait(&cq->cq.cond, &cq->cq.mutex);
	pthread_mutex_unlock(&cq->cq.mutex);

	/* last, because the application may destroy the channel from here on */
	pthread_mutex_lock(&channel->lock);
	channel->channel.refcnt--;
	pthread_mutex_unlock(&channel->lock);
}

/* --- the ring --- */

/* the entry at this distance from the oldest one; the queue's lock is held */
static struct ibv_wc *
entry_at(struct softrdma_cq *cq, uint32_t distance)
{
	uint32_t at = cq->head + distance;
	return &cq->ring[at < cq->capacity ? at : at - cq->capacity];
}

bool
softrdma_cq_push(struct softrdma_cq *cq, const struct ibv_wc *wc, bool solicited)
{
	bool raise = false;
	pthread_mutex_lock(&cq->lock);
	uint32_t count = atomic_load_explicit(&cq->count, memory_order_relaxed);
	bool fits = !cq->overrun && count < cq->capacity;
	if (fits) {
		*entry_at(cq, count) = *wc;
		atomic_store_explicit(&cq->count, count + 1, memory_order_release);
	} else if (!cq->overrun) {
		atomic_store_explicit(&cq->overrun, true, memory_order_relaxed);
		/*
		 * message(post): more operations complete than the queue holds; its connections are broken,
		 * but no event comes: disconnect them -> rpma_conn_cfg_set_cq_size(3): at least the send
		 * queue plus the receive queue.
		 */
		SOFTRDMA_LOG(ERROR,
			"a completion queue of %u entries is overrun: make it as large as the queues that "
			"complete in it, or poll it more often",
			cq->capacity);
	}
	if (cq->armed == SOFTRDMA_ARMED_ANY || (cq->armed == SOFTRDMA_ARMED_SOLICITED && solicited)) {
		cq->armed = SOFTRDMA_NOT_ARMED;
		raise = true;
	}
	pthread_mutex_unlock(&cq->lock);
	if (raise)
		raise_event(cq);
	return fits;
}

int
softrdma_cq_pop(struct softrdma_cq *cq, int num_entries, struct ibv_wc *wc)
{
	int n = 0;
	pthread_mutex_lock(&cq->lock);
	uint32_t count = atomic_load_explicit(&cq->count, memory_order_relaxed);
	while (n < num_entries && count > 0) {
		wc[n++] = cq->ring[cq->head];
		cq->head = cq->head + 1 < cq->capacity ? cq->head + 1 : 0;
		count--;
	}
	atomic_store_explicit(&cq->count, count, memory_order_release);
	if (n == 0 && cq->overrun)
		n = -1;
	pthread_mutex_unlock(&cq->lock);
	return n;
}

void
softrdma_cq_purge(struct softrdma_cq *cq, uint32_t qp_num)
{
	pthread_mutex_lock(&cq->lock);
	const uint32_t count = atomic_load_explicit(&cq->count, memory_order_relaxed);
	uint32_t kept = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct ibv_wc *wc = entry_at(cq, i);
		if (wc->qp_num == qp_num)
			continue;
		if (kept != i)
			*entry_at(cq, kept) = *wc;
		kept++;
	}
	atomic_store_explicit(&cq->count, kept, memory_order_release);
	pthread_mutex_unlock(&cq->lock);
}

void
softrdma_cq_arm(struct softrdma_cq *cq, bool solicited_only)
{
	pthread_mutex_lock(&cq->lock);
	if (!solicited_only)
		cq->armed = SOFTRDMA_ARMED_ANY;
	else if (cq->armed == SOFTRDMA_NOT_ARMED)
		cq->armed = SOFTRDMA_ARMED_SOLICITED;
	pthread_mutex_unlock(&cq->lock);
}

/* --- connections --- */

void
softrdma_lead_init(struct softrdma_lead *lead, struct softrdma_comp_channel *channel)
{
	*lead = (struct softrdma_lead){ .channel = channel, .epoll_fd = -1, .hidden_fd = -1 };
	pthread_mutex_init(&lead->lock, NULL);
}

void
softrdma_lead_fini(struct softrdma_lead *lead)
{
	if (lead->hidden_fd >= 0)
		softrdma_fork_close(lead->hidden_fd);
	pthread_mutex_destroy(&lead->lock);
	free(lead->links);
}

void
softrdma_lead_lock(struct softrdma_lead *lead)
{
	atomic_fetch_add_explicit(&lead->wanted, 1, memory_order_relaxed);
	pthread_mutex_lock(&lead->lock);
	atomic_fetch_sub_explicit(&lead->wanted, 1, memory_order_relaxed);
}

/* 0 or ENOMEM */
static int
enter(struct softrdma_lead *lead, struct softrdma_link *link)
{
	int ret = 0;
	softrdma_lead_lock(lead);
	if (lead->link_count == lead->link_capacity) {
		unsigned capacity = lead->link_capacity ? 2 * lead->link_capacity : 4;
		struct softrdma_link **links = realloc(lead->links, capacity * sizeof(*links));
		if (links) {
			lead->links = links;
			lead->link_capacity = capacity;
		} else {
			ret = ENOMEM;
		}
	}
	if (ret == 0)
		lead->links[lead->link_count++] = link;
	pthread_mutex_unlock(&lead->lock);
	return ret;
}

static void
leave(struct softrdma_lead *lead, struct softrdma_link *link)
{
	softrdma_lead_lock(lead);
	unsigned at = 0;
	while (lead->links[at] != link) {
		at++;
		assert(at < lead->link_count);
	}
	lead->links[at] = lead->links[--lead->link_count];
	struct softrdma_link **replier = &lead->repliers;
	while (*replier && *replier != link)
		replier = &(*replier)->replier_next;
	if (*replier)
		*replier = link->replier_next;
	pthread_mutex_unlock(&lead->lock);
}

int
softrdma_cq_attach(struct softrdma_cq *send_cq, struct softrdma_cq *recv_cq, struct softrdma_link *link)
{
	int ret = enter(send_cq->lead, link);
	if (ret == 0 && recv_cq->lead != send_cq->lead) {
		ret = enter(recv_cq->lead, link);
		if (ret)
			leave(send_cq->lead, link);
	}
	if (ret)
		return ret;
	atomic_fetch_add(&send_cq->connections, 1);
	atomic_fetch_add(&recv_cq->connections, 1);
	return 0;
}

void
softrdma_cq_detach(struct softrdma_cq *send_cq, struct softrdma_cq *recv_cq, struct softrdma_link *link)
{
	leave(send_cq->lead, link);
	if (recv_cq->lead != send_cq->lead)
		leave(recv_cq->lead, link);
	atomic_fetch_sub(&send_cq->connections, 1);
	atomic_fetch_sub(&recv_cq->connections, 1);
}
