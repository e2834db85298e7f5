/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* event.c -- event channels of the connection manager, and the events in them */

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/notify.h"
#include "softrdma/cm/cm.h"
#include "softrdma/cm/datagram_id.h"
#include "softrdma/cm/event.h"
#include "softrdma/verbs/device.h"

/* the outcome of an attempt to connect, and DISCONNECTED */
#define CONNECTION_EVENTS 2

bool
softrdma_channel_is_inherited(const struct rdma_event_channel *channel, const char *call)
{
	return softrdma_cm_is_inherited(((const struct softrdma_channel *)channel)->process, call);
}

static pthread_mutex_t channels_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before a channel's */
/* those that are not destroyed, by their addresses: a tree of tsearch(3), because each of 10,000 connections has one */
static void *channels;

static void
after_fork(void)
{
	softrdma_fork_keep(channels);
	channels = NULL;
	channels_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

static int
compare(const void *a, const void *b)
{
	return (uintptr_t)a < (uintptr_t)b ? -1 : (uintptr_t)a > (uintptr_t)b;
}

/* false: no memory */
static bool
add_channel(struct softrdma_channel *channel)
{
	pthread_mutex_lock(&channels_lock);
	const bool added = tsearch(&channel->channel, &channels, compare) != NULL;
	pthread_mutex_unlock(&channels_lock);
	return added;
}

static void
remove_channel(struct softrdma_channel *channel)
{
	pthread_mutex_lock(&channels_lock);
	(void)tdelete(&channel->channel, &channels, compare);
	pthread_mutex_unlock(&channels_lock);
}

/*
 * Returns the channel with its lock taken; NULL: it is destroyed. Some programs (rping) destroy a channel at
 * their end while a thread of theirs still waits for events. With the kernel's channels the next call of that
 * thread fails. It must fail here too, without touching freed memory.
 */
static struct softrdma_channel *
lock_channel(const struct rdma_event_channel *rdma_channel)
{
	struct softrdma_channel *channel = NULL;
	pthread_mutex_lock(&channels_lock);
	struct rdma_event_channel *const *entry = tfind(rdma_channel, &channels, compare);
	if (entry) {
		channel = softrdma_channel_of(*entry);
		pthread_mutex_lock(&channel->lock);
	}
	pthread_mutex_unlock(&channels_lock);
	return channel;
}

struct rdma_event_channel *
softrdma_rdma_create_event_channel(void)
{
	SOFTRDMA_NO_CANCEL;
	const struct ibv_context *process = softrdma_context();
	struct softrdma_channel *channel = process ? calloc(1, sizeof(*channel)) : NULL;
	if (channel == NULL)
		return NULL;
	channel->process = process;
	channel->channel.fd = softrdma_notify_open();
	if (channel->channel.fd < 0)
		goto err_free;
	pthread_mutex_init(&channel->lock, NULL);
	atomic_init(&channel->refs, 1);
	if (!add_channel(channel))
		goto err_close;
	return &channel->channel;

err_close:
	pthread_mutex_destroy(&channel->lock);
	close(channel->channel.fd);
	errno = ENOMEM;
err_free:
	free(channel);
	return NULL;
}

void
softrdma_channel_put(struct softrdma_channel *channel)
{
	if (atomic_fetch_sub(&channel->refs, 1) > 1)
		return;
	pthread_mutex_destroy(&channel->lock);
	free(channel);
}

/* frees an event that no application will see, and with a connection request its id */
static void
free_unseen(struct softrdma_event *event)
{
	if (event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		struct softrdma_id *id = softrdma_id_of(event->event.id);
		softrdma_id_let_go(id);
		softrdma_id_free(id);
	}
	free(event);
}

void
softrdma_event_free_unseen(struct softrdma_event *events)
{
	while (events) {
		struct softrdma_event *next = events->next;
		free_unseen(events);
		events = next;
	}
}

void
softrdma_rdma_destroy_event_channel(struct rdma_event_channel *rdma_channel)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_channel *channel = softrdma_channel_of(rdma_channel);
	if (softrdma_channel_is_inherited(rdma_channel, "rdma_destroy_event_channel"))
		return;
	remove_channel(channel);
	pthread_mutex_lock(&channel->lock);
	channel->destroyed = true;
	struct softrdma_event *events = channel->first;
	channel->first = NULL;
	pthread_mutex_unlock(&channel->lock);
	softrdma_event_free_unseen(events);
	close(channel->channel.fd);
	softrdma_channel_put(channel);
}

/* the channel's lock is held */
static void
append(struct softrdma_channel *channel, struct softrdma_event *event)
{
	event->next = NULL;
	if (channel->first)
		channel->last->next = event;
	else
		channel->first = event;
	channel->last = event;
	softrdma_notify_raise(channel->channel.fd);
}

/* takes all events of the id out of the channel, as a list. The id's lock is held. */
struct softrdma_event *
softrdma_event_take_all(struct softrdma_id *id, struct softrdma_channel *channel)
{
	struct softrdma_event *taken = NULL, **end = &taken;
	pthread_mutex_lock(&channel->lock);
	struct softrdma_event **at = &channel->first;
	channel->last = NULL;
	while (*at) {
		struct softrdma_event *event = *at;
		if (event->owner == id) {
			*at = event->next;
			event->next = NULL;
			*end = event;
			end = &event->next;
			softrdma_notify_take(channel->channel.fd);
		} else {
			channel->last = event;
			at = &event->next;
		}
	}
	pthread_mutex_unlock(&channel->lock);
	return taken;
}

void
softrdma_id_free_reserve(struct softrdma_id *id)
{
	while (id->reserve) {
		struct softrdma_event *event = id->reserve;
		id->reserve = event->next;
		free(event);
	}
}

int
softrdma_id_reserve(struct softrdma_id *id)
{
	unsigned have = 0;
	for (const struct softrdma_event *at = id->reserve; at; at = at->next)
		have++;
	for (; have < CONNECTION_EVENTS; have++) {
		struct softrdma_event *event = calloc(1, sizeof(*event));
		if (event == NULL)
			return ENOMEM; /* the events allocated so far stay for the next attempt */
		event->next = id->reserve;
		id->reserve = event;
	}
	return 0;
}

/* an event of the connection itself comes from the reserve, while that has one; NULL: no memory */
static struct softrdma_event *
new_event(struct softrdma_id *id, enum rdma_cm_event_type type)
{
	bool reserved = type != RDMA_CM_EVENT_CONNECT_REQUEST && type != RDMA_CM_EVENT_ADDR_RESOLVED &&
		type != RDMA_CM_EVENT_ROUTE_RESOLVED;
	struct softrdma_event *event = NULL;
	if (reserved) {
		pthread_mutex_lock(&id->lock);
		event = id->reserve;
		if (event)
			id->reserve = event->next;
		pthread_mutex_unlock(&id->lock);
	}
	return event ? event : calloc(1, sizeof(*event));
}

static void
fill_connection(const struct softrdma_handshake *hs, struct softrdma_event *event)
{
	struct rdma_conn_param *param = &event->event.param.conn;
	param->private_data = hs->private_len ? event->private_data : NULL;
	param->private_data_len = hs->private_len;
	/* seen from this side, the peer's two values are exchanged (rdma_get_cm_event(3)) */
	param->responder_resources = hs->initiator_depth;
	param->initiator_depth = hs->responder_resources;
	param->flow_control = hs->flow_control;
	param->rnr_retry_count = hs->rnr_retry;
	param->qp_num = hs->qp_num;
}

int
softrdma_id_post(struct softrdma_id *id, enum rdma_cm_event_type type, int status,
	const struct softrdma_handshake *hs, const uint8_t *private_data, struct softrdma_id *request)
{
	struct softrdma_event *event = new_event(id, type);
	if (event == NULL)
		return ENOMEM;
	event->owner = id;
	event->event.event = type;
	event->event.status = status;
	event->event.id = request ? &request->id : &id->id;
	event->event.listen_id = request ? &id->id : NULL;
	if (hs)
		memcpy(event->private_data, private_data, hs->private_len);
	if (softrdma_id_is_of_datagrams(id))
		softrdma_datagram_id_fill_event(id, hs, event);
	else if (hs)
		fill_connection(hs, event);
	pthread_mutex_lock(&id->lock);
	pthread_mutex_lock(&id->channel->lock);
	bool heard = !id->channel->destroyed;
	if (heard)
		append(id->channel, event);
	pthread_mutex_unlock(&id->channel->lock);
	pthread_mutex_unlock(&id->lock);
	if (!heard)
		free(event);
	return heard ? 0 : ENOTCONN;
}

/* as rdma_get_cm_event(); the thread can be cancelled while it waits if cancel_state, that of its caller, allows it */
static int
get_event(struct rdma_event_channel *rdma_channel, struct rdma_cm_event **event_ptr, int cancel_state)
{
	for (;;) {
		struct softrdma_channel *channel = lock_channel(rdma_channel);
		if (channel == NULL)
			return softrdma_cm_result(EBADF);
		const int fd = channel->channel.fd;
		struct softrdma_event *event = channel->first;
		if (event) {
			channel->first = event->next;
			softrdma_notify_take(fd);
			/* counted before the id can be destroyed: rdma_destroy_id() takes this lock, then waits */
			atomic_fetch_add(&event->owner->taken, 1);
		}
		pthread_mutex_unlock(&channel->lock);
		if (event) {
			*event_ptr = &event->event;
			return 0;
		}
		softrdma_cancel_back(&cancel_state);
		int ret = softrdma_notify_wait(fd);
		softrdma_cancel_off();
		if (ret)
			return softrdma_cm_result(ret);
	}
}

int
softrdma_rdma_get_cm_event(struct rdma_event_channel *rdma_channel, struct rdma_cm_event **event_ptr)
{
	SOFTRDMA_NO_CANCEL;
	return get_event(rdma_channel, event_ptr, cancel_before);
}

int
softrdma_rdma_ack_cm_event(struct rdma_cm_event *rdma_event)
{
	SOFTRDMA_NO_CANCEL;
	if (rdma_event == NULL)
		return softrdma_cm_result(EINVAL);
	struct softrdma_event *event = (struct softrdma_event *)rdma_event;
	struct softrdma_id *id = event->owner;
	if (softrdma_id_is_inherited(&id->id, "rdma_ack_cm_event"))
		return -1;
	free(event);
	pthread_mutex_lock(&id->lock);
	id->completed++;
	pthread_cond_broadcast(&id->acked);
	pthread_mutex_unlock(&id->lock);
	return 0;
}

/* the id's lock is held */
void
softrdma_id_wait_for_acks(struct softrdma_id *id)
{
	while (id->completed != atomic_load(&id->taken))
		pthread_cond_wait(&id->acked, &id->lock);
}

bool
softrdma_id_has_events(struct softrdma_id *id)
{
	pthread_mutex_lock(&id->lock);
	pthread_mutex_lock(&id->channel->lock);
	bool any = id->channel->first != NULL;
	pthread_mutex_unlock(&id->channel->lock);
	pthread_mutex_unlock(&id->lock);
	return any;
}

void
softrdma_id_drop_event(struct softrdma_id *id)
{
	if (id->id.event == NULL)
		return;
	softrdma_rdma_ack_cm_event(id->id.event);
	id->id.event = NULL;
}

/* a synchronous id waits for the event of the call that it has just made, and keeps it until the next call */
int
softrdma_id_finish_call(struct softrdma_id *id, int cancel_state)
{
	if (!id->sync)
		return 0;
	softrdma_id_drop_event(id);
	if (get_event(&id->channel->channel, &id->id.event, cancel_state))
		return -1;
	int status = id->id.event->status;
	const bool is_status = id->id.event->event == RDMA_CM_EVENT_UNREACHABLE && status > 0;
	if (id->id.event->event == RDMA_CM_EVENT_REJECTED || is_status) /* of the peer, not an errno value */
		return softrdma_cm_result(ECONNREFUSED);
	return softrdma_cm_result(status < 0 ? -status : status);
}

int
softrdma_rdma_migrate_id(struct rdma_cm_id *rdma_id, struct rdma_event_channel *channel)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	bool sync = channel == NULL;
	if (softrdma_id_is_inherited(rdma_id, "rdma_migrate_id") ||
		(channel && softrdma_channel_is_inherited(channel, "rdma_migrate_id")))
		return -1;
	if (sync && id->sync)
		return softrdma_cm_result(EINVAL);
	if (sync) {
		channel = softrdma_rdma_create_event_channel();
		if (channel == NULL)
			return -1;
	}
	softrdma_id_drop_event(id);
	pthread_mutex_lock(&id->lock);
	struct softrdma_channel *from = id->channel;
	softrdma_id_wait_for_acks(id); /* releases the lock, so the events are taken afterwards */
	struct softrdma_event *events = softrdma_event_take_all(id, from);
	struct softrdma_channel *to = softrdma_channel_of(channel);
	pthread_mutex_lock(&to->lock);
	while (events) {
		struct softrdma_event *next = events->next;
		append(to, events);
		events = next;
	}
	pthread_mutex_unlock(&to->lock);
	atomic_fetch_add(&to->refs, 1);
	id->channel = to;
	id->id.channel = channel;
	bool was_sync = id->sync;
	id->sync = sync;
	pthread_mutex_unlock(&id->lock);
	if (was_sync)
		softrdma_rdma_destroy_event_channel(&from->channel);
	softrdma_channel_put(from);
	return 0;
}
