/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* rdma_cm.c -- the device's connection manager under librdmacm's names */

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>

#include "preload.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/missing.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_pd *shared; /* never freed: the ids that use it are not counted */

void
softrdma_preload_after_fork(void)
{
	softrdma_fork_keep(shared);
	shared = NULL;
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

int
softrdma_preload_use_device(struct rdma_cm_id *id)
{
	if (id->pd)
		return 0;
	struct ibv_context *context = softrdma_preload_context();
	if (context == NULL)
		return ENOMEM;
	pthread_mutex_lock(&lock);
	if (shared == NULL)
		shared = softrdma_ibv_alloc_pd(context);
	id->pd = shared;
	pthread_mutex_unlock(&lock);
	return id->pd ? 0 : ENOMEM;
}

/* --- names and addresses --- */

int
rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
	struct rdma_addrinfo **res)
{
	return softrdma_rdma_getaddrinfo(node, service, hints, res);
}

void
rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	softrdma_rdma_freeaddrinfo(res);
}

int
rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	int ret = softrdma_preload_use_device(id);
	return ret ? softrdma_cm_result(ret) : softrdma_rdma_bind_addr(id, addr);
}

int
rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr, int timeout_ms)
{
	/* the id has its domain before the event can be seen */
	int ret = softrdma_preload_use_device(id);
	return ret ? softrdma_cm_result(ret) : softrdma_rdma_resolve_addr(id, src_addr, dst_addr, timeout_ms);
}

int
rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	return softrdma_rdma_resolve_route(id, timeout_ms);
}

static __be16
port_of(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return ((const struct sockaddr_in *)addr)->sin_port;
	if (addr->sa_family == AF_INET6)
		return ((const struct sockaddr_in6 *)addr)->sin6_port;
	return 0;
}

__be16
rdma_get_src_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.src_addr);
}

__be16
rdma_get_dst_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.dst_addr);
}

/* --- ids, channels and events --- */

struct rdma_event_channel *
rdma_create_event_channel(void)
{
	return softrdma_rdma_create_event_channel();
}

void
rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	softrdma_rdma_destroy_event_channel(channel);
}

int
rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
	enum rdma_port_space ps)
{
	return softrdma_rdma_create_id(channel, id, context, ps);
}

int
rdma_destroy_id(struct rdma_cm_id *id)
{
	if (softrdma_id_is_inherited(id, "rdma_destroy_id"))
		return -1;
	free(softrdma_id_of(id)->user);
	return softrdma_rdma_destroy_id(id);
}

int
rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	return softrdma_rdma_migrate_id(id, channel);
}

int
rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	if (softrdma_rdma_get_cm_event(channel, event))
		return -1;
	/* if this fails, the id has no domain: the program must make its queue pair with one of its own */
	if ((*event)->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		softrdma_preload_use_device((*event)->id);
	return 0;
}

int
rdma_ack_cm_event(struct rdma_cm_event *event)
{
	return softrdma_rdma_ack_cm_event(event);
}

/* --- connections --- */

int
rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	return softrdma_rdma_connect(id, conn_param);
}

int
rdma_listen(struct rdma_cm_id *id, int backlog)
{
	return softrdma_rdma_listen(id, backlog);
}

int
rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	return softrdma_rdma_accept(id, conn_param);
}

int
rdma_establish(struct rdma_cm_id *id)
{
	return softrdma_rdma_establish(id);
}

int
rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
{
	return softrdma_rdma_init_qp_attr(id, qp_attr, qp_attr_mask);
}

int
rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return softrdma_rdma_reject(id, private_data, private_data_len);
}

int
rdma_disconnect(struct rdma_cm_id *id)
{
	return softrdma_rdma_disconnect(id);
}

/* the call tells that a message overtook the end of the handshake; the device sees that itself */
int
rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	(void)id;
	return softrdma_cm_result(event == IBV_EVENT_COMM_EST ? 0 : EINVAL);
}

/* accepts options that TCP implies, or that only hint at how packets travel; AFONLY is the only one with an effect */
int
rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
{
	size_t wanted;
	if (level != RDMA_OPTION_ID)
		return softrdma_cm_result(softrdma_missing("rdma_set_option", " of a path",
			"leave it out: TCP finds the path"));
	switch (optname) {
	case RDMA_OPTION_ID_TOS:
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		wanted = sizeof(uint8_t);
		break;
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		wanted = sizeof(int);
		break;
	default:
		softrdma_missing("rdma_set_option", " of this number", SOFTRDMA_SEE_MANUAL);
		return softrdma_cm_result(EINVAL);
	}
	if (optval == NULL || optlen != wanted)
		return softrdma_cm_result(EINVAL);
	if (optname == RDMA_OPTION_ID_ACK_TIMEOUT)
		return softrdma_rdma_set_ack_timeout(id, *(uint8_t *)optval);
	return optname == RDMA_OPTION_ID_AFONLY ? softrdma_rdma_set_family_only(id, *(int *)optval != 0) : 0;
}
