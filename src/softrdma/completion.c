/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* completion.c -- completion queues and completion channels */

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "completion.h"
#include "device.h"
#include "domain.h"
#include "env.h"
#include "fork.h"
#include "io.h"
#include "bounds.h"
#include "notify.h"
#include "waiter.h"

/* the channel that the thread serves, as it waits for one of its events */
static _Thread_local struct softrdma_comp_channel *served_channel;

static struct softrdma_comp_channel *
channel_of(struct ibv_comp_channel *channel)
{
	return (struct softrdma_comp_channel *)channel;
}

struct ibv_comp_channel *
softrdma_ibv_create_comp_channel(struct ibv_context *context)
{
	context = softrdma_context();
	struct softrdma_comp_channel *channel = context ? calloc(1, sizeof(*channel)) : NULL;
	if (channel == NULL)
		return NULL;
	channel->channel.context = context;
	channel->channel.fd = softrdma_notify_open();
	if (channel->channel.fd < 0) {
		free(channel);
		return NULL;
	}
	pthread_mutex_init(&channel->lock, NULL);
	return &channel->channel;
}

int
softrdma_ibv_destroy_comp_channel(struct ibv_comp_channel *ibv_channel)
{
	struct softrdma_comp_channel *channel = channel_of(ibv_channel);
	if (softrdma_is_inherited(ibv_channel->context))
		return softrdma_fork_refuse("ibv_destroy_comp_channel");
	pthread_mutex_lock(&channel->lock);
	int busy = channel->channel.refcnt != 0;
	pthread_mutex_unlock(&channel->lock);
	if (busy)
		return EBUSY;

	close(channel->channel.fd);
	pthread_mutex_destroy(&channel->lock);
	free(channel);
	return 0;
}

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

static void
raise_event(struct softrdma_cq *cq)
{
	if (cq->cq.channel == NULL)
		return;
	struct softrdma_comp_channel *channel = channel_of(cq->cq.channel);
	pthread_mutex_lock(&channel->lock);
	if (cq->events++ == 0)
		enqueue_on_channel(channel, cq);
	if (channel == served_channel)
		channel->untold++;
	else
		softrdma_notify_raise(channel->channel.fd);
	pthread_mutex_unlock(&channel->lock);
}

void
softrdma_comp_channel_serve(struct softrdma_comp_channel *channel)
{
	served_channel = channel;
}

/* an event less for the descriptor, which then counts all that are left; the channel's lock is held */
static void
take_from_descriptor(struct softrdma_comp_channel *channel)
{
	if (channel->untold == 0) {
		softrdma_notify_take(channel->channel.fd);
		return;
	}
	while (--channel->untold > 0)
		softrdma_notify_raise(channel->channel.fd);
}

/* NULL when the channel has no event */
static struct softrdma_cq *
take_event(struct softrdma_comp_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	struct softrdma_cq *cq = channel->first;
	if (cq) {
		unlink_from_channel(channel, cq);
		cq->events_taken++;
		if (--cq->events > 0)
			enqueue_on_channel(channel, cq); /* others first: no queue starves another */
		take_from_descriptor(channel);
	}
	pthread_mutex_unlock(&channel->lock);
	return cq;
}

bool
softrdma_comp_channel_has_event(struct softrdma_comp_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	bool has = channel->first != NULL;
	pthread_mutex_unlock(&channel->lock);
	return has;
}

/* its connections are added to the count of those that are there already; false: too many, or locked */
static bool
add_links(struct softrdma_cq *cq, struct softrdma_link **links, unsigned *count, unsigned max)
{
	/* tried only: events are raised, and this channel is locked, under the lock of the links */
	if (pthread_mutex_trylock(&cq->links_lock) != 0)
		return false;
	bool fit = cq->link_count <= max - *count;
	for (unsigned i = 0; fit && i < cq->link_count; i++) {
		softrdma_link_get(cq->links[i]);
		links[(*count)++] = cq->links[i];
	}
	pthread_mutex_unlock(&cq->links_lock);
	return fit;
}

unsigned
softrdma_comp_channel_links(struct softrdma_comp_channel *channel, struct softrdma_link **links, unsigned max)
{
	unsigned count = 0;
	bool all = true;
	/* a queue stays while the lock of its channel is held: it leaves the channel before it is freed */
	pthread_mutex_lock(&channel->lock);
	for (struct softrdma_cq *cq = channel->members; cq && all; cq = cq->next_member)
		all = add_links(cq, links, &count, max);
	pthread_mutex_unlock(&channel->lock);

	while (!all && count > 0)
		softrdma_link_put(links[--count]);
	return count;
}

int
softrdma_ibv_get_cq_event(struct ibv_comp_channel *ibv_channel, struct ibv_cq **cq_ptr, void **cq_context)
{
	struct softrdma_comp_channel *channel = channel_of(ibv_channel);
	struct softrdma_cq *cq;
	if (softrdma_is_inherited(ibv_channel->context)) {
		errno = softrdma_fork_refuse("ibv_get_cq_event");
		return -1;
	}
	while ((cq = take_event(channel)) == NULL) {
		softrdma_io_about_to_wait();
		int ret = softrdma_waiter_wait(channel);
		if (ret) {
			errno = ret;
			return -1;
		}
	}
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
	pthread_mutex_init(&cq->links_lock, NULL);
	pthread_mutex_init(&cq->poll_lock, NULL);
	if (channel) {
		pthread_mutex_lock(&channel_of(channel)->lock);
		channel->refcnt++;
		cq->next_member = channel_of(channel)->members;
		channel_of(channel)->members = cq;
		pthread_mutex_unlock(&channel_of(channel)->lock);
	}
	return &cq->cq;

err_free:
	free(cq);
err_out:
	errno = ENOMEM;
	return NULL;
}

/*
 * Events that the application has not fetched vanish with their queue; the ones it has fetched must be
 * acknowledged first (ibv_get_cq_event(3)). Programs exist that acknowledge more than they got, hence the
 * comparison.
 */
static void
leave_channel(struct softrdma_cq *cq)
{
	struct softrdma_comp_channel *channel = channel_of(cq->cq.channel);
	pthread_mutex_lock(&channel->lock);
	struct softrdma_cq **member = &channel->members;
	while (*member != cq)
		member = &(*member)->next_member;
	*member = cq->next_member;
	if (cq->events > 0)
		unlink_from_channel(channel, cq);
	for (; cq->events > 0; cq->events--)
		take_from_descriptor(channel);
	unsigned taken = cq->events_taken;
	pthread_mutex_unlock(&channel->lock);

	pthread_mutex_lock(&cq->cq.mutex);
	while ((int)(cq->cq.comp_events_completed - taken) < 0)
		pthread_cond_wait(&cq->cq.cond, &cq->cq.mutex);
	pthread_mutex_unlock(&cq->cq.mutex);

	/* last: whoever destroys the channel may do so from here on */
	pthread_mutex_lock(&channel->lock);
	channel->channel.refcnt--;
	pthread_mutex_unlock(&channel->lock);
}

int
softrdma_ibv_destroy_cq(struct ibv_cq *ibv_cq)
{
	struct softrdma_cq *cq = softrdma_cq_of(ibv_cq);
	if (softrdma_is_inherited(ibv_cq->context))
		return softrdma_fork_refuse("ibv_destroy_cq");
	pthread_mutex_lock(&cq->links_lock);
	int busy = cq->link_count != 0;
	pthread_mutex_unlock(&cq->links_lock);
	if (busy)
		return EBUSY;

	if (cq->cq.channel)
		leave_channel(cq);
	if (cq->domain)
		atomic_fetch_sub(&cq->domain->users, 1);
	pthread_mutex_destroy(&cq->poll_lock);
	pthread_mutex_destroy(&cq->links_lock);
	pthread_mutex_destroy(&cq->lock);
	pthread_cond_destroy(&cq->cq.cond);
	pthread_mutex_destroy(&cq->cq.mutex);
	free(cq->links);
	free(cq->ring);
	free(cq);
	return 0;
}

bool
softrdma_cq_push(struct softrdma_cq *cq, const struct ibv_wc *wc, bool solicited)
{
	bool raise = false;
	pthread_mutex_lock(&cq->lock);
	uint32_t count = __atomic_load_n(&cq->count, __ATOMIC_RELAXED);
	bool fits = !cq->overrun && count < cq->capacity;
	if (fits) {
		uint32_t at = cq->head + count;
		cq->ring[at < cq->capacity ? at : at - cq->capacity] = *wc;
		__atomic_store_n(&cq->count, count + 1, __ATOMIC_RELEASE);
	} else if (!cq->overrun) {
		__atomic_store_n(&cq->overrun, true, __ATOMIC_RELAXED);
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
	uint32_t count = cq->count;
	while (n < num_entries && count > 0) {
		wc[n++] = cq->ring[cq->head];
		cq->head = cq->head + 1 < cq->capacity ? cq->head + 1 : 0;
		count--;
	}
	__atomic_store_n(&cq->count, count, __ATOMIC_RELEASE);
	if (n == 0 && cq->overrun)
		n = -1;
	pthread_mutex_unlock(&cq->lock);
	return n;
}

int
softrdma_poll_cq(struct ibv_cq *ibv_cq, int num_entries, struct ibv_wc *wc)
{
	struct softrdma_cq *cq = softrdma_cq_of(ibv_cq);
	if (__atomic_load_n(&cq->count, __ATOMIC_ACQUIRE) == 0) {
		/* nothing there: who polls also does the device's work, and so pays no thread switch */
		softrdma_io_poll(cq);
		if (__atomic_load_n(&cq->count, __ATOMIC_ACQUIRE) == 0 &&
			!__atomic_load_n(&cq->overrun, __ATOMIC_RELAXED))
			return 0;
	}
	return softrdma_cq_pop(cq, num_entries, wc);
}

int
softrdma_req_notify_cq(struct ibv_cq *ibv_cq, int solicited_only)
{
	struct softrdma_cq *cq = softrdma_cq_of(ibv_cq);
	pthread_mutex_lock(&cq->lock);
	if (!solicited_only)
		cq->armed = SOFTRDMA_ARMED_ANY;
	else if (cq->armed == SOFTRDMA_NOT_ARMED)
		cq->armed = SOFTRDMA_ARMED_SOLICITED;
	pthread_mutex_unlock(&cq->lock);
	softrdma_io_stop_polling(cq);
	return 0;
}

int
softrdma_cq_attach(struct softrdma_cq *cq, struct softrdma_link *link)
{
	int ret = 0;
	pthread_mutex_lock(&cq->links_lock);
	if (cq->link_count == cq->link_capacity) {
		unsigned capacity = cq->link_capacity ? 2 * cq->link_capacity : 4;
		struct softrdma_link **links = realloc(cq->links, capacity * sizeof(*links));
		if (links) {
			cq->links = links;
			cq->link_capacity = capacity;
		} else {
			ret = ENOMEM;
		}
	}
	if (ret == 0)
		cq->links[cq->link_count++] = link;
	pthread_mutex_unlock(&cq->links_lock);
	return ret;
}

void
softrdma_cq_detach(struct softrdma_cq *cq, struct softrdma_link *link)
{
	pthread_mutex_lock(&cq->links_lock);
	unsigned at = 0;
	while (cq->links[at] != link) {
		at++;
		assert(at < cq->link_count);
	}
	cq->links[at] = cq->links[--cq->link_count];
	pthread_mutex_unlock(&cq->links_lock);
}
