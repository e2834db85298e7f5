/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* modify.c -- the calls with which applications create queue pairs, move them through their states, query and destroy them */

#include <errno.h>
#include <string.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/missing.h"
#include "softrdma/cm/by_hand_qp.h"
#include "softrdma/cm/cm.h"
#include "softrdma/cm/datagram_qp.h"
#include "softrdma/engine/connection.h"
#include "softrdma/verbs/device.h"
#include "softrdma/verbs/qp.h"

#define SEND_OPS_KNOWN \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
		IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | \
		IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | SEND_OPS_NEW)
/* IBV_QP_EX_WITH_FLUSH and _ATOMIC_WRITE, which older headers do not name */
#define SEND_OPS_NEW (3ULL << 11)

/* --- queue pairs of the connection manager --- */

/* the connection manager moves its queue pairs itself; an application may only move them to ERR */
static int
modify_managed(struct softrdma_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	if (mask == IBV_QP_MIN_RNR_TIMER)
		return 0; /* no effect: RNR_READY is sent as soon as a receive is posted, without a timer */
	if (mask != IBV_QP_STATE || attr->qp_state != IBV_QPS_ERR)
		return softrdma_missing("ibv_modify_qp",
			" of a queue pair of rdma_create_qp(), other than to ERR,",
			"the connection manager moves it");
	softrdma_qp_fail(qp);
	return 0;
}

static void
query_managed(const struct softrdma_qp *qp, struct ibv_qp_attr *attr)
{
	attr->max_rd_atomic = (uint8_t)qp->link->requester.rd_atom_max;
	attr->max_dest_rd_atomic = (uint8_t)qp->link->responder.rd_atom_max;
	attr->path_mtu = IBV_MTU_4096;
	attr->port_num = 1;
	attr->timeout = qp->ack_timeout;
}

const struct softrdma_qp_kind softrdma_managed_qp = {
	.type = IBV_QPT_RC,
	.new_link = softrdma_connection_new,
	.modify = modify_managed,
	.destroy = softrdma_qp_delete,
	.query = query_managed,
};

/* --- the interface for applications --- */

int
softrdma_ibv_modify_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int attr_mask)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_qp *qp = softrdma_qp_of(ibv_qp);
	if (softrdma_is_inherited(ibv_qp->context))
		return softrdma_fork_refuse("ibv_modify_qp");
	return qp->kind->modify(qp, attr, attr_mask);
}

int
softrdma_ibv_query_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int attr_mask,
	struct ibv_qp_init_attr *init_attr)
{
	SOFTRDMA_NO_CANCEL;
	(void)attr_mask;
	struct softrdma_qp *qp = softrdma_qp_of(ibv_qp);
	if (softrdma_is_inherited(ibv_qp->context))
		return softrdma_fork_refuse("ibv_query_qp");
	memset(attr, 0, sizeof(*attr));
	memset(init_attr, 0, sizeof(*init_attr));
	softrdma_cm_lock();
	struct softrdma_link *link = softrdma_qp_lock_link(qp);
	qp->kind->query(qp, attr);
	attr->qp_state = attr->cur_qp_state = ibv_qp->state;
	pthread_mutex_unlock(&link->lock);
	softrdma_cm_unlock();
	attr->cap = qp->cap;
	init_attr->qp_context = ibv_qp->qp_context;
	init_attr->send_cq = ibv_qp->send_cq;
	init_attr->recv_cq = ibv_qp->recv_cq;
	init_attr->srq = ibv_qp->srq;
	init_attr->cap = qp->cap;
	init_attr->qp_type = ibv_qp->qp_type;
	init_attr->sq_sig_all = qp->sq_sig_all;
	return 0;
}

static bool
asks_for_what_is_known(const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known =
		IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	if (attr->comp_mask & ~known)
		return false;
	/* no flag is supported, but programs may pass 0 */
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags)
		return false;
	return !(attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ||
		!(attr->send_ops_flags & ~SEND_OPS_KNOWN);
}

struct ibv_qp *
softrdma_ibv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	SOFTRDMA_NO_CANCEL;
	int ret = softrdma_qp_check_type("ibv_create_qp", attr->qp_type);
	if (ret == 0 && !asks_for_what_is_known(attr))
		ret = softrdma_missing("ibv_create_qp_ex", " with these attributes", SOFTRDMA_SEE_MANUAL);
	if (ret)
		goto err_errno;
	ret = EINVAL;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !softrdma_owns(context) ||
		!softrdma_owns(attr->pd->context))
		goto err_errno;
	struct ibv_qp *qp = NULL;
	ret = attr->qp_type == IBV_QPT_UD ? softrdma_datagram_qp_new(attr, &qp)
					  : softrdma_by_hand_qp_new(attr, &qp);
	if (ret == 0)
		return qp;

err_errno:
	errno = ret;
	return NULL;
}

__attribute__((constructor)) static void
make_qps_of_contexts(void)
{
	softrdma_device_makes_qps(softrdma_ibv_create_qp_ex);
}

struct ibv_qp *
softrdma_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init_attr)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = init_attr->qp_context,
		.send_cq = init_attr->send_cq,
		.recv_cq = init_attr->recv_cq,
		.srq = init_attr->srq,
		.cap = init_attr->cap,
		.qp_type = init_attr->qp_type,
		.sq_sig_all = init_attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp = softrdma_ibv_create_qp_ex(pd->context, &attr);
	if (qp)
		init_attr->cap = attr.cap; /* what was granted */
	return qp;
}

int
softrdma_ibv_destroy_qp(struct ibv_qp *ibv_qp)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_qp *qp = softrdma_qp_of(ibv_qp);
	if (softrdma_is_inherited(ibv_qp->context))
		return softrdma_fork_refuse("ibv_destroy_qp");
	qp->kind->destroy(qp);
	return 0;
}
