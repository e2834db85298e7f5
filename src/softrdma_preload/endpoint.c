/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * endpoint.c -- what librdmacm builds on its own calls: queue pairs with completion queues of their own,
 * shared receive queues of an id, endpoints
 *
 * An id that makes its own completion queues stores them in its public fields; rdma_destroy_qp() removes them
 * again. A passive endpoint keeps the attributes for the queue pairs of its requests.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_verbs.h>

#include "preload.h"
#include "softrdma/base/missing.h"
#include "softrdma/verbs/qp.h"

/* the value of librdmacm */
#define RESOLVE_TIMEOUT_MS 2000

/* for the requests of a passive endpoint; freed with its id */
struct request_defaults {
	struct ibv_pd *pd; /* NULL: the listener's */
	bool with_qp;
	struct ibv_qp_init_attr attr;
};

/* --- an id's own completion queues --- */

/* makes a channel and a completion queue on it; 0 or an errno value */
static int
create_cq(struct rdma_cm_id *id, uint32_t size, struct ibv_comp_channel **channel_ptr, struct ibv_cq **cq_ptr)
{
	struct ibv_comp_channel *channel = softrdma_ibv_create_comp_channel(id->verbs);
	if (channel == NULL)
		return ENOMEM;
	struct ibv_cq *cq = softrdma_ibv_create_cq(id->verbs, (int)size, id, channel, 0);
	if (cq == NULL) {
		int ret = errno;
		softrdma_ibv_destroy_comp_channel(channel);
		return ret;
	}
	*channel_ptr = channel;
	*cq_ptr = cq;
	return 0;
}

static void
destroy_cq(struct ibv_comp_channel **channel_ptr, struct ibv_cq **cq_ptr)
{
	if (*cq_ptr)
		softrdma_ibv_destroy_cq(*cq_ptr);
	if (*channel_ptr)
		softrdma_ibv_destroy_comp_channel(*channel_ptr);
	*cq_ptr = NULL;
	*channel_ptr = NULL;
}

static void
destroy_own_cqs(struct rdma_cm_id *id)
{
	destroy_cq(&id->recv_cq_channel, &id->recv_cq);
	destroy_cq(&id->send_cq_channel, &id->send_cq);
}

/*
 * Makes the completion queues that the attributes omit, if their work queue has entries; 0 or an errno value
 */
static int
create_own_cqs(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	int ret = 0;
	if (attr->send_cq == NULL && attr->cap.max_send_wr > 0)
		ret = create_cq(id, attr->cap.max_send_wr, &id->send_cq_channel, &id->send_cq);
	if (ret == 0 && attr->recv_cq == NULL && attr->cap.max_recv_wr > 0)
		ret = create_cq(id, attr->cap.max_recv_wr, &id->recv_cq_channel, &id->recv_cq);
	if (ret)
		destroy_own_cqs(id);
	return ret;
}

/* --- queue pairs --- */

int
rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	if (id->qp || id->verbs == NULL)
		return softrdma_cm_result(EINVAL);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || attr->pd == NULL) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pd;
	}
	int ret = create_own_cqs(id, attr);
	if (ret)
		return softrdma_cm_result(ret);
	if (attr->send_cq == NULL)
		attr->send_cq = id->send_cq;
	if (attr->recv_cq == NULL)
		attr->recv_cq = id->recv_cq;
	if (attr->srq == NULL)
		attr->srq = id->srq;
	if (softrdma_rdma_create_qp_ex(id, attr)) {
		ret = errno;
		destroy_own_cqs(id);
	}
	return softrdma_cm_result(ret);
}

int
rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
{
	struct ibv_qp_init_attr_ex attr = { .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd };
	memcpy(&attr, qp_init_attr, SOFTRDMA_PLAIN_QP_ATTR_SIZE);
	int ret = rdma_create_qp_ex(id, &attr);
	memcpy(qp_init_attr, &attr, SOFTRDMA_PLAIN_QP_ATTR_SIZE);
	return ret;
}

void
rdma_destroy_qp(struct rdma_cm_id *id)
{
	softrdma_rdma_destroy_qp(id);
	destroy_own_cqs(id);
}

/* --- shared receive queues --- */

int
rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	if (id->srq || (pd == NULL && id->pd == NULL))
		return softrdma_cm_result(EINVAL);
	id->srq = softrdma_ibv_create_srq(pd ? pd : id->pd, attr);
	return id->srq ? 0 : -1;
}

int
rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC)
		return softrdma_cm_result(softrdma_missing("rdma_create_srq_ex",
			" of another type than IBV_SRQT_BASIC", SOFTRDMA_SEE_MANUAL));
	struct ibv_srq_init_attr plain = { .srq_context = attr->srq_context, .attr = attr->attr };
	int ret = rdma_create_srq(id, attr->comp_mask & IBV_SRQ_INIT_ATTR_PD ? attr->pd : NULL, &plain);
	attr->attr = plain.attr;
	return ret;
}

void
rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (id->srq)
		softrdma_ibv_destroy_srq(id->srq);
	id->srq = NULL;
}

/* --- endpoints --- */

static int
make_passive(struct rdma_cm_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
	const struct ibv_qp_init_attr *attr)
{
	struct request_defaults *defaults = calloc(1, sizeof(*defaults));
	if (defaults == NULL)
		return softrdma_cm_result(ENOMEM);
	defaults->pd = pd;
	if (attr) {
		defaults->with_qp = true;
		defaults->attr = *attr;
	}
	softrdma_id_of(id)->user = defaults;
	return rdma_bind_addr(id, res->ai_src_addr);
}

static int
make_active(struct rdma_cm_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
	struct ibv_qp_init_attr *attr)
{
	if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, RESOLVE_TIMEOUT_MS) ||
		rdma_resolve_route(id, RESOLVE_TIMEOUT_MS))
		return -1;
	if (attr == NULL)
		return 0;
	attr->qp_type = id->qp_type;
	return rdma_create_qp(id, pd, attr);
}

int
rdma_create_ep(struct rdma_cm_id **id_ptr, struct rdma_addrinfo *res, struct ibv_pd *pd,
	struct ibv_qp_init_attr *qp_init_attr)
{
	struct rdma_cm_id *id;
	/* 0: from hints without names; the port space decides */
	if (res->ai_qp_type && softrdma_qp_check_type("rdma_create_ep", (enum ibv_qp_type)res->ai_qp_type))
		return softrdma_cm_result(EOPNOTSUPP);
	if (rdma_create_id(NULL, &id, NULL, (enum rdma_port_space)res->ai_port_space))
		return -1;
	int ret;
	if (res->ai_qp_type && id->qp_type != (enum ibv_qp_type)res->ai_qp_type)
		ret = softrdma_cm_result(EINVAL); /* the port space has queue pairs of one type */
	else if (res->ai_flags & RAI_PASSIVE)
		ret = make_passive(id, res, pd, qp_init_attr);
	else
		ret = make_active(id, res, pd, qp_init_attr);
	if (ret) {
		int error = errno;
		rdma_destroy_id(id);
		return softrdma_cm_result(error);
	}
	*id_ptr = id;
	return 0;
}

void
rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

/* moves a request's id from its listener's channel to one of its own; 0 or an errno value */
static int
take_over(struct rdma_cm_id *listen, struct rdma_cm_id *id)
{
	const struct request_defaults *defaults = softrdma_id_of(listen)->user;
	if (softrdma_rdma_migrate_id(id, NULL))
		return errno;
	if (defaults == NULL || !defaults->with_qp)
		return 0;
	struct ibv_qp_init_attr attr = defaults->attr;
	attr.qp_type = id->qp_type;
	return rdma_create_qp(id, defaults->pd ? defaults->pd : listen->pd, &attr) ? errno : 0;
}

int
rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id_ptr)
{
	if (!softrdma_id_of(listen)->sync)
		return softrdma_cm_result(EINVAL);
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	struct rdma_cm_event *event;
	if (rdma_get_cm_event(listen->channel, &event))
		return -1;
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		rdma_ack_cm_event(event);
		return softrdma_cm_result(EINVAL);
	}
	struct rdma_cm_id *id = event->id;
	int ret = take_over(listen, id);
	if (ret) {
		rdma_ack_cm_event(event);
		rdma_destroy_ep(id);
		return softrdma_cm_result(ret);
	}
	id->event = event; /* the program may use the private data until its next call */
	*id_ptr = id;
	return 0;
}
