/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* cm.c -- connection manager: ids, event channels and events */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softrdma/cm/cm.h"
#include "softrdma/engine/connection.h"
#include "softrdma/wire/credentials.h"
#include "softrdma/verbs/device.h"
#include "softrdma/base/env.h"
#include "softrdma/cm/external_qp.h"
#include "softrdma/faults/fault_plan.h"
#include "softrdma/base/fork.h"
#include "softrdma/cm/handshake.h"
#include "softrdma/engine/io.h"
#include "softrdma/base/notify.h"
#include "softrdma/verbs/qp.h"

/* how an attempt to connect ended, and DISCONNECTED */
#define CONNECTION_EVENTS 2

static pthread_mutex_t manager_lock = PTHREAD_MUTEX_INITIALIZER;

void
softrdma_cm_lock(void)
{
	pthread_mutex_lock(&manager_lock);
}

void
softrdma_cm_unlock(void)
{
	pthread_mutex_unlock(&manager_lock);
}

/* --- forks --- */

bool
softrdma_cm_fork_begins(void)
{
	return pthread_mutex_trylock(&manager_lock) == 0;
}

void
softrdma_cm_fork_ends(void)
{
	softrdma_cm_unlock();
}

/* --- ids and channels of the parent --- */

static bool
is_inherited(const struct ibv_context *process, const char *call)
{
	if (!softrdma_is_inherited(process))
		return false;
	errno = softrdma_fork_refuse(call);
	return true;
}

bool
softrdma_id_is_inherited(const struct rdma_cm_id *id, const char *call)
{
	return is_inherited(((const struct softrdma_id *)id)->process, call);
}

static bool
channel_is_inherited(const struct rdma_event_channel *channel, const char *call)
{
	return is_inherited(((const struct softrdma_channel *)channel)->process, call);
}

/* --- channels and events --- */

static struct softrdma_channel *
channel_of(struct rdma_event_channel *channel)
{
	return (struct softrdma_channel *)channel;
}

static pthread_mutex_t channels_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before a channel's */
static struct softrdma_channel *channels;

void
softrdma_cm_after_fork(void)
{
	softrdma_fork_keep(channels);
	channels = NULL;
	manager_lock = channels_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* where in the list it is, or the end of it. The list's lock is held. */
static struct softrdma_channel **
find_channel(const struct rdma_event_channel *channel)
{
	struct softrdma_channel **at = &channels;
	while (*at && &(*at)->channel != channel)
		at = &(*at)->next;
	return at;
}

/*
 * The channel, with its lock taken; NULL: it is destroyed. Programs leave a thread waiting for events when
 * they end, and destroy its channel meanwhile (rping does). With the kernel's channels its next call fails,
 * so here it must not touch what was one.
 */
static struct softrdma_channel *
lock_channel(const struct rdma_event_channel *rdma_channel)
{
	pthread_mutex_lock(&channels_lock);
	struct softrdma_channel *channel = *find_channel(rdma_channel);
	if (channel)
		pthread_mutex_lock(&channel->lock);
	pthread_mutex_unlock(&channels_lock);
	return channel;
}

struct rdma_event_channel *
softrdma_rdma_create_event_channel(void)
{
	const struct ibv_context *process = softrdma_context();
	struct softrdma_channel *channel = process ? calloc(1, sizeof(*channel)) : NULL;
	if (channel == NULL)
		return NULL;
	channel->process = process;
	channel->channel.fd = softrdma_notify_open();
	if (channel->channel.fd < 0) {
		free(channel);
		return NULL;
	}
	pthread_mutex_init(&channel->lock, NULL);
	atomic_init(&channel->refs, 1);
	pthread_mutex_lock(&channels_lock);
	channel->next = channels;
	channels = channel;
	pthread_mutex_unlock(&channels_lock);
	return &channel->channel;
}

static void
put_channel(struct softrdma_channel *channel)
{
	if (atomic_fetch_sub(&channel->refs, 1) > 1)
		return;
	pthread_mutex_destroy(&channel->lock);
	free(channel);
}

static void let_go(struct softrdma_id *id);

/* a connection request that nobody will ever see takes its id with it */
static void
free_unseen(struct softrdma_event *event)
{
	if (event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		struct softrdma_id *id = softrdma_id_of(event->event.id);
		let_go(id);
		softrdma_id_free(id);
	}
	free(event);
}

static void
free_all_unseen(struct softrdma_event *events)
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
	struct softrdma_channel *channel = channel_of(rdma_channel);
	if (channel_is_inherited(rdma_channel, "rdma_destroy_event_channel"))
		return;
	pthread_mutex_lock(&channels_lock);
	*find_channel(rdma_channel) = channel->next;
	pthread_mutex_unlock(&channels_lock);
	pthread_mutex_lock(&channel->lock);
	channel->destroyed = true;
	struct softrdma_event *events = channel->first;
	channel->first = NULL;
	pthread_mutex_unlock(&channel->lock);
	free_all_unseen(events);
	close(channel->channel.fd);
	put_channel(channel);
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
static struct softrdma_event *
take_events_of(struct softrdma_id *id, struct softrdma_channel *channel)
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

static void
free_reserve(struct softrdma_id *id)
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
			return ENOMEM; /* what there is stays for the next attempt */
		event->next = id->reserve;
		id->reserve = event;
	}
	return 0;
}

/* of what was set aside, if it is an event of the connection itself */
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
	if (hs) {
		struct rdma_conn_param *param = &event->event.param.conn;
		memcpy(event->private_data, private_data, hs->private_len);
		param->private_data = hs->private_len ? event->private_data : NULL;
		param->private_data_len = hs->private_len;
		/* from this side: each is the peer's other one (rdma_get_cm_event(3)) */
		param->responder_resources = hs->initiator_depth;
		param->initiator_depth = hs->responder_resources;
		param->flow_control = hs->flow_control;
		param->rnr_retry_count = hs->rnr_retry;
		param->qp_num = hs->qp_num;
	}
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

int
softrdma_rdma_get_cm_event(struct rdma_event_channel *rdma_channel, struct rdma_cm_event **event_ptr)
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
			/* counted before the id can be destroyed: that takes this lock first, then waits */
			__atomic_fetch_add(&event->owner->taken, 1, __ATOMIC_SEQ_CST);
		}
		pthread_mutex_unlock(&channel->lock);
		if (event) {
			*event_ptr = &event->event;
			return 0;
		}
		int ret = softrdma_notify_wait(fd);
		if (ret)
			return softrdma_cm_result(ret);
	}
}

int
softrdma_rdma_ack_cm_event(struct rdma_cm_event *rdma_event)
{
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
static void
wait_for_acks(struct softrdma_id *id)
{
	while (id->completed != __atomic_load_n(&id->taken, __ATOMIC_SEQ_CST))
		pthread_cond_wait(&id->acked, &id->lock);
}

static bool
has_events(struct softrdma_id *id)
{
	pthread_mutex_lock(&id->lock);
	pthread_mutex_lock(&id->channel->lock);
	bool any = id->channel->first != NULL;
	pthread_mutex_unlock(&id->channel->lock);
	pthread_mutex_unlock(&id->lock);
	return any;
}

/* a synchronous id waits for the event of the call that it has just made, and keeps it until the next call */
static int
finish_call(struct softrdma_id *id)
{
	if (!id->sync)
		return 0;
	if (id->id.event) {
		softrdma_rdma_ack_cm_event(id->id.event);
		id->id.event = NULL;
	}
	if (softrdma_rdma_get_cm_event(&id->channel->channel, &id->id.event))
		return -1;
	int status = id->id.event->status;
	if (id->id.event->event == RDMA_CM_EVENT_REJECTED)
		return softrdma_cm_result(ECONNREFUSED);
	return softrdma_cm_result(status < 0 ? -status : status);
}

/* --- what links tell --- */

static void
link_ready(struct softrdma_link *link, void *arg)
{
	struct softrdma_id *id = arg;
	if (id->established)
		return;
	id->established = true;
	if (link->state == SOFTRDMA_LINK_UP) /* else it is the deadline of a disconnect */
		softrdma_connection_deadline(link, 0);
	if (softrdma_id_post(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, NULL, NULL))
		SOFTRDMA_LOG(ERROR, "an established connection cannot be reported");
}

static void
link_disconnected(struct softrdma_link *link, void *arg)
{
	(void)link;
	struct softrdma_id *id = arg;
	enum rdma_cm_event_type type =
		id->established ? RDMA_CM_EVENT_DISCONNECTED : RDMA_CM_EVENT_CONNECT_ERROR;
	if (softrdma_id_post(id, type, id->established ? 0 : -ECONNRESET, NULL, NULL, NULL))
		SOFTRDMA_LOG(ERROR, "the end of a connection cannot be reported");
}

const struct softrdma_link_ops softrdma_id_link_ops = {
	.ready = link_ready,
	.disconnected = link_disconnected,
};

/* --- ids --- */

struct softrdma_id *
softrdma_id_new(struct softrdma_channel *channel, void *context, enum rdma_port_space ps)
{
	struct softrdma_id *id = calloc(1, sizeof(*id));
	if (id == NULL)
		return NULL;
	id->id.channel = &channel->channel;
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = IBV_QPT_RC;
	id->process = channel->process;
	id->channel = channel;
	atomic_fetch_add(&channel->refs, 1);
	id->bound_fd = -1;
	pthread_mutex_init(&id->lock, NULL);
	pthread_cond_init(&id->acked, NULL);
	return id;
}

int
softrdma_rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id_ptr, void *context,
	enum rdma_port_space ps)
{
	if (ps != RDMA_PS_TCP && ps != RDMA_PS_IB)
		return softrdma_cm_result(EOPNOTSUPP); /* reliable connections only */
	bool sync = channel == NULL;
	if (!sync && channel_is_inherited(channel, "rdma_create_id"))
		return -1;
	if (sync) {
		channel = softrdma_rdma_create_event_channel();
		if (channel == NULL)
			return -1;
	}
	struct softrdma_id *id = softrdma_id_new(channel_of(channel), context, ps);
	if (id == NULL) {
		if (sync)
			softrdma_rdma_destroy_event_channel(channel);
		return softrdma_cm_result(ENOMEM);
	}
	id->sync = sync;
	*id_ptr = &id->id;
	return 0;
}

void
softrdma_id_free(struct softrdma_id *id)
{
	if (id->bound_fd >= 0)
		softrdma_fork_close(id->bound_fd);
	free_reserve(id);
	softrdma_credentials_put(id->credentials);
	put_channel(id->channel);
	pthread_cond_destroy(&id->acked);
	pthread_mutex_destroy(&id->lock);
	free(id);
}

/* no callback and no handshake reaches the id after this */
static void
let_go(struct softrdma_id *id)
{
	softrdma_cm_lock();
	softrdma_handshake_cancel(id);
	struct softrdma_link *link = id->link;
	id->link = NULL;
	bool io_user = id->io_user;
	id->io_user = false;
	softrdma_cm_unlock();
	if (link) {
		pthread_mutex_lock(&link->lock);
		link->ops = NULL;
		/* an external queue pair that is not connected can still be, by another id */
		const bool stays = id->external && link->state == SOFTRDMA_LINK_IDLE;
		if (link->qp && !stays) { /* else ibv_destroy_qp() has done it, behind the id's back */
			softrdma_link_close(link);
			softrdma_connection_send(link);
		}
		pthread_mutex_unlock(&link->lock);
		softrdma_link_put(link);
	}
	if (io_user)
		softrdma_io_stop();
}

int
softrdma_rdma_destroy_id(struct rdma_cm_id *rdma_id)
{
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_destroy_id"))
		return -1;
	let_go(id);

	if (id->id.event) {
		softrdma_rdma_ack_cm_event(id->id.event);
		id->id.event = NULL;
	}
	pthread_mutex_lock(&id->lock);
	struct softrdma_event *events = take_events_of(id, id->channel);
	wait_for_acks(id);
	pthread_mutex_unlock(&id->lock);
	free_all_unseen(events);
	if (id->sync)
		softrdma_rdma_destroy_event_channel(&id->channel->channel);
	softrdma_id_free(id);
	return 0;
}

int
softrdma_rdma_migrate_id(struct rdma_cm_id *rdma_id, struct rdma_event_channel *channel)
{
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	bool sync = channel == NULL;
	if (softrdma_id_is_inherited(rdma_id, "rdma_migrate_id") ||
		(channel && channel_is_inherited(channel, "rdma_migrate_id")))
		return -1;
	if (sync && id->sync)
		return softrdma_cm_result(EINVAL);
	if (sync) {
		channel = softrdma_rdma_create_event_channel();
		if (channel == NULL)
			return -1;
	}
	if (id->id.event) {
		softrdma_rdma_ack_cm_event(id->id.event);
		id->id.event = NULL;
	}
	pthread_mutex_lock(&id->lock);
	struct softrdma_channel *from = id->channel;
	wait_for_acks(id); /* gives the lock up meanwhile: the events are taken after it */
	struct softrdma_event *events = take_events_of(id, from);
	struct softrdma_channel *to = channel_of(channel);
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
	put_channel(from);
	return 0;
}

int
softrdma_rdma_create_qp_ex(struct rdma_cm_id *rdma_id, struct ibv_qp_init_attr_ex *attr)
{
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_create_qp"))
		return -1;
	struct ibv_pd *pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : id->id.pd;
	if (id->id.qp || pd == NULL || id->id.verbs == NULL || !softrdma_owns(pd->context))
		return softrdma_cm_result(EINVAL);
	softrdma_cm_lock();
	bool too_late = id->state > SOFTRDMA_ID_BOUND && id->state != SOFTRDMA_ID_REQUESTED;
	softrdma_cm_unlock();
	if (too_late) /* a peer has been told the numbers of another queue pair */
		return softrdma_cm_result(EINVAL);
	struct softrdma_qp *qp = softrdma_qp_new(pd, attr);
	if (qp == NULL)
		return -1;
	softrdma_link_get(qp->link);
	softrdma_cm_lock();
	id->link = qp->link;
	qp->ack_timeout = id->ack_timeout;
	softrdma_cm_unlock();
	id->id.qp = &qp->qp;
	id->id.pd = pd;
	return 0;
}

int
softrdma_rdma_set_ack_timeout(struct rdma_cm_id *rdma_id, uint8_t timeout)
{
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_set_option"))
		return -1;
	softrdma_cm_lock();
	id->ack_timeout = timeout;
	if (id->id.qp)
		softrdma_qp_of(id->id.qp)->ack_timeout = timeout;
	softrdma_cm_unlock();
	return 0;
}

void
softrdma_rdma_destroy_qp(struct rdma_cm_id *rdma_id)
{
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (id->id.qp == NULL || softrdma_id_is_inherited(rdma_id, "rdma_destroy_qp"))
		return;
	softrdma_cm_lock();
	struct softrdma_link *link = id->link;
	id->link = NULL;
	softrdma_cm_unlock();
	softrdma_qp_delete(softrdma_qp_of(id->id.qp));
	softrdma_link_put(link);
	id->id.qp = NULL;
}

/* --- connecting --- */

void
softrdma_rdma_set_credentials(struct rdma_cm_id *rdma_id, struct softrdma_credentials *credentials)
{
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_set_credentials"))
		return;
	softrdma_cm_lock();
	softrdma_credentials_put(id->credentials);
	id->credentials = softrdma_credentials_get(credentials);
	softrdma_cm_unlock();
}

/* an id that was given none has those of the environment, if that has any */
static int
look_for_credentials(struct softrdma_id *id)
{
	return id->credentials ? 0 : softrdma_credentials_of_environment(&id->credentials);
}

int
softrdma_rdma_listen(struct rdma_cm_id *rdma_id, int backlog)
{
	(void)backlog; /* how many requests may wait is for SOFTRDMA_MAX_PENDING to say */
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_listen"))
		return -1;
	int ret = softrdma_fault_plan_read();
	if (ret == 0)
		ret = softrdma_io_start();
	if (ret)
		return softrdma_cm_result(ret);
	softrdma_cm_lock();
	ret = look_for_credentials(id);
	if (ret == 0)
		ret = softrdma_handshake_listen(id);
	if (ret == 0)
		id->io_user = true;
	softrdma_cm_unlock();
	if (ret)
		softrdma_io_stop();
	return softrdma_cm_result(ret);
}

/* only one event ends it: ESTABLISHED, REJECTED, UNREACHABLE or CONNECT_ERROR */
int
softrdma_rdma_connect(struct rdma_cm_id *rdma_id, struct rdma_conn_param *param)
{
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_connect"))
		return -1;
	int ret = softrdma_io_start();
	if (ret)
		return softrdma_cm_result(ret);
	softrdma_cm_lock();
	ret = look_for_credentials(id);
	if (ret == 0 && id->link == NULL && param)
		ret = softrdma_external_qp_take(id, param->qp_num);
	if (ret == 0)
		ret = softrdma_handshake_connect(id, param);
	if (ret == 0)
		id->io_user = true;
	else
		softrdma_external_qp_drop(id);
	softrdma_cm_unlock();
	if (ret) {
		softrdma_io_stop();
		return softrdma_cm_result(ret);
	}
	return finish_call(id);
}

int
softrdma_rdma_accept(struct rdma_cm_id *rdma_id, struct rdma_conn_param *param)
{
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_accept"))
		return -1;
	int ret = softrdma_io_start(); /* the listener's share may end before the connection does */
	if (ret)
		return softrdma_cm_result(ret);
	softrdma_cm_lock();
	if (id->link == NULL && id->state == SOFTRDMA_ID_REQUESTED && param)
		ret = softrdma_external_qp_take(id, param->qp_num);
	if (ret == 0)
		ret = softrdma_handshake_accept(id, param);
	if (ret && id->state == SOFTRDMA_ID_REQUESTED)
		softrdma_external_qp_drop(id); /* still a request */
	bool taken = !id->io_user;
	id->io_user = true;
	softrdma_cm_unlock();
	if (!taken)
		softrdma_io_stop();
	return ret ? softrdma_cm_result(ret) : finish_call(id);
}

int
softrdma_rdma_establish(struct rdma_cm_id *rdma_id)
{
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_establish"))
		return -1;
	softrdma_cm_lock();
	int ret = softrdma_handshake_establish(id);
	softrdma_cm_unlock();
	return softrdma_cm_result(ret);
}

int
softrdma_rdma_reject(struct rdma_cm_id *rdma_id, const void *private_data, uint8_t private_data_len)
{
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_reject"))
		return -1;
	softrdma_cm_lock();
	int ret = softrdma_handshake_reject(id, private_data, private_data_len);
	softrdma_cm_unlock();
	return softrdma_cm_result(ret);
}

int
softrdma_rdma_disconnect(struct rdma_cm_id *rdma_id)
{
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_disconnect"))
		return -1;
	softrdma_cm_lock();
	struct softrdma_link *link = id->link;
	/* without its queue pair a connection has ended already */
	int ret = link == NULL && id->state == SOFTRDMA_ID_CONNECTED ? 0 : EINVAL;
	bool to_come = false; /* an event that tells of the end */
	if (link) {
		pthread_mutex_lock(&link->lock);
		if (link->state != SOFTRDMA_LINK_IDLE)
			ret = 0;
		if (ret == 0 && link->qp) {
			bool up = link->state == SOFTRDMA_LINK_UP;
			softrdma_link_close(link);
			if (up)
				softrdma_connection_deadline(link, SOFTRDMA_PEER_TIMEOUT_MS);
			softrdma_connection_send(link);
			to_come = link->state == SOFTRDMA_LINK_CLOSING;
		}
		pthread_mutex_unlock(&link->lock);
	}
	softrdma_cm_unlock();
	if (ret)
		return softrdma_cm_result(ret);
	/* a synchronous id may have had that event long ago */
	return to_come || has_events(id) ? finish_call(id) : 0;
}
