/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* cm.c -- connection manager: ids */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/missing.h"
#include "softrdma/cm/cm.h"
#include "softrdma/cm/datagram_id.h"
#include "softrdma/cm/event.h"
#include "softrdma/cm/external_qp.h"
#include "softrdma/cm/handshake.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/gather.h"
#include "softrdma/engine/threads.h"
#include "softrdma/faults/fault_plan.h"
#include "softrdma/verbs/qp.h"
#include "softrdma/wire/credentials.h"

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

static bool
fork_begins(void)
{
	return pthread_mutex_trylock(&manager_lock) == 0;
}

static void
fork_ends(void)
{
	softrdma_cm_unlock();
}

static void
after_fork(void)
{
	manager_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_MANAGER, .in_child = after_fork, .begins = fork_begins,
	.ends = fork_ends);

bool
softrdma_cm_is_inherited(const struct ibv_context *process, const char *call)
{
	if (!softrdma_is_inherited(process))
		return false;
	errno = softrdma_fork_refuse(call);
	return true;
}

bool
softrdma_id_is_inherited(const struct rdma_cm_id *id, const char *call)
{
	return softrdma_cm_is_inherited(((const struct softrdma_id *)id)->process, call);
}

/* --- events of links --- */

static void
link_ready(struct softrdma_link *link, void *arg)
{
	struct softrdma_id *id = arg;
	if (id->established)
		return;
	id->established = true;
	if (link->state == SOFTRDMA_LINK_UP) /* else the deadline is that of a disconnect */
		softrdma_connection_deadline(link, 0);
	/*
	 * message(connect, no-memory-for-event): out of memory -> Give the process more memory, or fewer
	 * connections.
	 */
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
	/* message(no-memory-for-event) */
	if (softrdma_id_post(id, type, id->established ? 0 : -ECONNRESET, NULL, NULL, NULL))
		SOFTRDMA_LOG(ERROR, "the end of a connection cannot be reported");
}

const struct softrdma_link_ops softrdma_id_link_ops = {
	.ready = link_ready,
	.disconnected = link_disconnected,
};

bool
softrdma_id_can_connect(const struct softrdma_id *id)
{
	if (softrdma_id_is_of_datagrams(id))
		return true;
	if (id->link == NULL)
		return false;
	pthread_mutex_lock(&id->link->lock);
	const bool can = id->link->state == SOFTRDMA_LINK_IDLE;
	pthread_mutex_unlock(&id->link->lock);
	return can;
}

int
softrdma_id_attach(struct softrdma_id *id, int fd, struct softrdma_tls *tls,
	const struct softrdma_handshake *own, const struct softrdma_handshake *peer, const uint8_t *peer_data,
	bool active)
{
	struct softrdma_link *link = id->link;
	int ret = ECONNABORTED; /* the queue pair was destroyed meanwhile, or another id has connected it */
	if (link == NULL)
		goto err_close;
	pthread_mutex_lock(&link->lock);
	if (link->state != SOFTRDMA_LINK_IDLE)
		goto err_unlock;
	if (id->external) {
		if (!softrdma_external_qp_start(id, active, peer->seq))
			goto err_unlock;
	} else {
		softrdma_link_start(link, peer->seq, own->initiator_depth, own->responder_resources);
		softrdma_connection_of(link)->rnr_retry = peer->rnr_retry;
		if (!link->failed)
			link->qp->state = IBV_QPS_RTS;
	}
	link->ready_due = active;
	link->awaits_ready = !active;
	ret = softrdma_connection_attach(link, fd, tls, active ? peer->records : own->records);
	if (ret) {
		softrdma_link_lost(link);
	} else {
		softrdma_connection_peer_is(link, &id->id.route.addr.dst_addr);
		id->state = SOFTRDMA_ID_CONNECTED;
		id->established = active;
		link->ops = &softrdma_id_link_ops;
		link->ops_arg = id;
		if (active && !id->external) /* else rdma_establish() is the application's own call */
			ret = softrdma_id_post(id, RDMA_CM_EVENT_ESTABLISHED, 0, peer, peer_data, NULL);
		else if (!active)
			softrdma_connection_deadline(link, SOFTRDMA_HANDSHAKE_TIMEOUT_MS);
		softrdma_connection_send(link);
	}
	pthread_mutex_unlock(&link->lock);
	return ret;

err_unlock:
	pthread_mutex_unlock(&link->lock);
err_close:
	softrdma_tls_delete(tls);
	softrdma_fork_close(fd);
	return ret;
}

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
	id->id.qp_type = ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
	id->process = channel->process;
	id->channel = channel;
	atomic_fetch_add(&channel->refs, 1);
	id->bound_fd = -1;
	pthread_mutex_init(&id->lock, NULL);
	pthread_cond_init(&id->acked, NULL);
	return id;
}

/* 0 or an errno value */
static int
check_port_space(enum rdma_port_space ps)
{
	static const char use_tcp[] = "use RDMA_PS_TCP";
	switch (ps) {
	case RDMA_PS_TCP:
	case RDMA_PS_IB:
		return 0;
	case RDMA_PS_UDP:
		return softrdma_qp_check_type("rdma_create_id", IBV_QPT_UD);
	case RDMA_PS_IPOIB:
		return softrdma_missing("rdma_create_id", " with RDMA_PS_IPOIB (datagrams of IPoIB)",
			"use RDMA_PS_UDP");
	default:
		softrdma_missing("rdma_create_id", " with another port space", use_tcp);
		return EINVAL; /* as the kernel's connection manager */
	}
}

int
softrdma_rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id_ptr, void *context,
	enum rdma_port_space ps)
{
	SOFTRDMA_NO_CANCEL;
	int ret = check_port_space(ps);
	if (ret)
		return softrdma_cm_result(ret);
	bool sync = channel == NULL;
	if (!sync && softrdma_channel_is_inherited(channel, "rdma_create_id"))
		return -1;
	if (sync) {
		channel = softrdma_rdma_create_event_channel();
		if (channel == NULL)
			return -1;
	}
	struct softrdma_id *id = softrdma_id_new(softrdma_channel_of(channel), context, ps);
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
	softrdma_id_free_reserve(id);
	softrdma_credentials_put(id->credentials);
	softrdma_channel_put(id->channel);
	pthread_cond_destroy(&id->acked);
	pthread_mutex_destroy(&id->lock);
	free(id);
}

/* true if the link is the connection of another id, which got the queue pair later. The link's lock is held. */
static bool
is_of_another(const struct softrdma_link *link, const struct softrdma_id *id)
{
	return link->ops_arg && link->ops_arg != id;
}

/* no callback and no handshake reaches the id after this */
void
softrdma_id_let_go(struct softrdma_id *id)
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
		/* another id can still connect a queue pair that is not connected */
		const bool stays = link->state == SOFTRDMA_LINK_IDLE || is_of_another(link, id);
		if (!stays)
			link->ops = NULL;
		if (link->qp && !stays) { /* else ibv_destroy_qp() has closed it */
			softrdma_gather_no_longer(link);
			softrdma_connection_collect(link);
			softrdma_link_close(link);
			softrdma_connection_send(link);
		}
		pthread_mutex_unlock(&link->lock);
		softrdma_link_put(link);
	}
	if (io_user)
		softrdma_threads_stop();
}

int
softrdma_rdma_destroy_id(struct rdma_cm_id *rdma_id)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_destroy_id"))
		return -1;
	softrdma_id_let_go(id);

	softrdma_id_drop_event(id);
	pthread_mutex_lock(&id->lock);
	struct softrdma_event *events = softrdma_event_take_all(id, id->channel);
	softrdma_id_wait_for_acks(id);
	pthread_mutex_unlock(&id->lock);
	softrdma_event_free_unseen(events);
	if (id->sync)
		softrdma_rdma_destroy_event_channel(&id->channel->channel);
	softrdma_id_free(id);
	return 0;
}

int
softrdma_rdma_create_qp_ex(struct rdma_cm_id *rdma_id, struct ibv_qp_init_attr_ex *attr)
{
	SOFTRDMA_NO_CANCEL;
	if (softrdma_id_is_inherited(rdma_id, "rdma_create_qp"))
		return -1;
	return softrdma_cm_result(softrdma_id_give_qp(softrdma_id_of(rdma_id), attr));
}

int
softrdma_rdma_set_ack_timeout(struct rdma_cm_id *rdma_id, uint8_t timeout)
{
	SOFTRDMA_NO_CANCEL;
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
	SOFTRDMA_NO_CANCEL;
	if (rdma_id->qp && !softrdma_id_is_inherited(rdma_id, "rdma_destroy_qp"))
		softrdma_id_destroy_qp(softrdma_id_of(rdma_id));
}

/* --- connecting --- */

void
softrdma_rdma_set_credentials(struct rdma_cm_id *rdma_id, struct softrdma_credentials *credentials)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_set_credentials"))
		return;
	softrdma_cm_lock();
	softrdma_credentials_put(id->credentials);
	id->credentials = softrdma_credentials_get(credentials);
	softrdma_cm_unlock();
}

/* an id without credentials takes those of the environment, if there are any; 0 or an errno value */
static int
look_for_credentials(struct softrdma_id *id)
{
	return id->credentials ? 0 : softrdma_credentials_of_environment(&id->credentials);
}

int
softrdma_rdma_listen(struct rdma_cm_id *rdma_id, int backlog)
{
	SOFTRDMA_NO_CANCEL;
	(void)backlog; /* SOFTRDMA_MAX_PENDING limits the requests that wait */
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_listen"))
		return -1;
	int ret = softrdma_fault_plan_read();
	if (ret == 0)
		ret = softrdma_threads_start();
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
		softrdma_threads_stop();
	return softrdma_cm_result(ret);
}

/* exactly one event ends the attempt: ESTABLISHED, REJECTED, UNREACHABLE or CONNECT_ERROR */
int
softrdma_rdma_connect(struct rdma_cm_id *rdma_id, struct rdma_conn_param *param)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_connect"))
		return -1;
	int ret = softrdma_threads_start();
	if (ret)
		return softrdma_cm_result(ret);
	softrdma_cm_lock();
	softrdma_id_follow_qp(id);
	ret = look_for_credentials(id);
	if (ret == 0 && id->link == NULL && param && !softrdma_id_is_of_datagrams(id))
		ret = softrdma_external_qp_take(id, param->qp_num);
	if (ret == 0)
		ret = softrdma_handshake_connect(id, param);
	if (ret == 0)
		id->io_user = true;
	else
		softrdma_external_qp_drop(id);
	softrdma_cm_unlock();
	if (ret) {
		softrdma_threads_stop();
		return softrdma_cm_result(ret);
	}
	return softrdma_id_finish_call(id, cancel_before);
}

int
softrdma_rdma_accept(struct rdma_cm_id *rdma_id, struct rdma_conn_param *param)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_accept"))
		return -1;
	/* the listener may stop using the threads before the connection does */
	int ret = softrdma_threads_start();
	if (ret)
		return softrdma_cm_result(ret);
	softrdma_cm_lock();
	softrdma_id_follow_qp(id);
	const bool datagrams = softrdma_id_is_of_datagrams(id);
	if (id->link == NULL && id->state == SOFTRDMA_ID_REQUESTED && param && !datagrams)
		ret = softrdma_external_qp_take(id, param->qp_num);
	if (ret == 0)
		ret = softrdma_handshake_accept(id, param);
	if (ret && id->state == SOFTRDMA_ID_REQUESTED)
		softrdma_external_qp_drop(id); /* still a request */
	bool taken = !id->io_user;
	id->io_user = true;
	softrdma_cm_unlock();
	if (!taken)
		softrdma_threads_stop();
	/* nothing follows the answer to a question for datagrams, so there is nothing to wait for */
	return ret || datagrams ? softrdma_cm_result(ret) : softrdma_id_finish_call(id, cancel_before);
}

int
softrdma_rdma_establish(struct rdma_cm_id *rdma_id)
{
	SOFTRDMA_NO_CANCEL;
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
	SOFTRDMA_NO_CANCEL;
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
	SOFTRDMA_NO_CANCEL;
	struct softrdma_id *id = softrdma_id_of(rdma_id);
	if (softrdma_id_is_inherited(rdma_id, "rdma_disconnect"))
		return -1;
	softrdma_cm_lock();
	struct softrdma_link *link = id->link;
	/* without its queue pair a connection has ended already */
	int ret = link == NULL && id->state == SOFTRDMA_ID_CONNECTED ? 0 : EINVAL;
	bool to_come = false; /* true if an event will report the end */
	if (ret == 0)
		softrdma_id_fail_qp(id);
	if (link) {
		pthread_mutex_lock(&link->lock);
		if (link->state != SOFTRDMA_LINK_IDLE && !is_of_another(link, id))
			ret = 0;
		if (ret == 0 && link->qp) {
			softrdma_gather_no_longer(link);
			softrdma_connection_collect(link);
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
	/* if no event is left, a synchronous id has taken it earlier, and must not wait for it */
	return to_come || softrdma_id_has_events(id) ? softrdma_id_finish_call(id, cancel_before) : 0;
}
