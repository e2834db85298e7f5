/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* id_qp.c -- the queue pair of an id */

#include <errno.h>

#include "softrdma/cm/cm.h"
#include "softrdma/cm/datagram_id.h"
#include "softrdma/cm/datagram_qp.h"
#include "softrdma/verbs/device.h"
#include "softrdma/verbs/qp.h"

/*
 * Programs move a queue pair to another id by the public member (request->qp = ep->qp; ep->qp = NULL), since librdmacm
 * looks at nothing else. So until the id connects, its link is that of the queue pair that the program sees. From then on
 * it is that of the connection. The manager's lock is held.
 */
void
softrdma_id_follow_qp(struct softrdma_id *id)
{
	if (id->external || id->state == SOFTRDMA_ID_CONNECTING || id->state == SOFTRDMA_ID_CONNECTED)
		return;
	struct softrdma_qp *qp = id->id.qp ? softrdma_qp_of(id->id.qp) : NULL;
	struct softrdma_link *link = qp && !qp->kind->resets ? qp->link : NULL;
	if (link == id->link)
		return;
	if (link)
		softrdma_link_get(link);
	if (id->link)
		softrdma_link_put(id->link);
	id->link = link;
}

void
softrdma_id_fail_qp(const struct softrdma_id *id)
{
	if (softrdma_id_is_of_datagrams(id) && id->id.qp)
		softrdma_qp_fail(softrdma_qp_of(id->id.qp));
}

/* gives the id a queue pair of datagrams, which receives and sends from here on (rdma_create_qp(3)); 0 or an errno value */
static int
give_datagram_qp(struct softrdma_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp;
	if (attr->qp_type != IBV_QPT_UD)
		return EINVAL;
	attr->pd = pd;
	int ret = softrdma_datagram_qp_new(attr, &qp);
	if (ret)
		return ret;
	ret = softrdma_datagram_qp_make_ready(qp);
	if (ret) {
		softrdma_ibv_destroy_qp(qp);
		return ret;
	}
	id->id.qp = qp;
	id->id.pd = pd;
	return 0;
}

int
softrdma_id_give_qp(struct softrdma_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_pd *pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : id->id.pd;
	if (id->id.qp || pd == NULL || id->id.verbs == NULL || !softrdma_owns(pd->context))
		return EINVAL;
	/* never too late: a question says nothing of the client's queue pair */
	if (softrdma_id_is_of_datagrams(id))
		return give_datagram_qp(id, pd, attr);
	softrdma_cm_lock();
	softrdma_id_follow_qp(id); /* the program may have taken one away */
	bool too_late = id->state > SOFTRDMA_ID_BOUND && id->state != SOFTRDMA_ID_REQUESTED;
	softrdma_cm_unlock();
	if (too_late) /* the peer knows the numbers of another queue pair */
		return EINVAL;
	struct softrdma_qp *qp = softrdma_qp_new(pd, attr, &softrdma_managed_qp, 0);
	if (qp == NULL)
		return errno;
	softrdma_link_get(qp->link);
	softrdma_cm_lock();
	id->link = qp->link;
	qp->ack_timeout = id->ack_timeout;
	softrdma_cm_unlock();
	id->id.qp = &qp->qp;
	id->id.pd = pd;
	return 0;
}

void
softrdma_id_destroy_qp(struct softrdma_id *id)
{
	struct ibv_qp *qp = id->id.qp;
	/* programs store one of their own making there, or of another id, and librdmacm destroys it like any other */
	if (softrdma_qp_of(qp)->kind->resets) {
		id->id.qp = NULL;
		softrdma_ibv_destroy_qp(qp);
		return;
	}
	softrdma_cm_lock();
	struct softrdma_link *link = id->link == softrdma_qp_of(qp)->link ? id->link : NULL;
	if (link)
		id->link = NULL;
	id->id.qp = NULL;
	softrdma_cm_unlock();
	softrdma_qp_delete(softrdma_qp_of(qp));
	if (link)
		softrdma_link_put(link);
}
