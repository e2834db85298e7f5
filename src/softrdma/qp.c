/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* qp.c -- queue pairs: what applications hold of a link */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"
#include "io.h"
#include "post.h"
#include "qp.h"

/* queue pair numbers have 24 bits (IBTA), are not 0 or 1 (management) and cannot be guessed */
static int
new_qp_num(uint32_t *qp_num)
{
	int ret;
	do {
		ret = softrdma_random(qp_num, sizeof(*qp_num));
		*qp_num &= 0xffffff;
	} while (ret == 0 && (*qp_num < 2 || softrdma_io_qp_num_used(*qp_num)));
	return ret;
}

static int
check_init_attr(const struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp_cap *cap = &attr->cap;
	if (attr->qp_type != IBV_QPT_RC)
		return EOPNOTSUPP;
	if (attr->send_cq == NULL || attr->recv_cq == NULL)
		return EINVAL;
	if (cap->max_send_wr > SOFTRDMA_WR_MAX || cap->max_recv_wr > SOFTRDMA_WR_MAX)
		return EINVAL;
	if (cap->max_send_sge > SOFTRDMA_SGE_MAX || cap->max_recv_sge > SOFTRDMA_SGE_MAX)
		return EINVAL;
	if (cap->max_inline_data > SOFTRDMA_INLINE_MAX)
		return EINVAL;
	return 0;
}

static void
use_srq(struct ibv_srq *ibv_srq, int change)
{
	if (ibv_srq == NULL)
		return;
	struct softrdma_srq *srq = softrdma_srq_of(ibv_srq);
	pthread_mutex_lock(&srq->queue.lock);
	srq->users += (unsigned)change;
	pthread_mutex_unlock(&srq->queue.lock);
}

/* what the application sees of it */
static void
fill_in(struct softrdma_qp *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr_ex *attr, uint32_t qp_num)
{
	qp->qp.context = pd->context;
	qp->qp.qp_context = attr->qp_context;
	qp->qp.pd = pd;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = attr->recv_cq;
	qp->qp.srq = attr->srq;
	qp->qp.qp_num = qp_num;
	qp->qp.handle = qp_num;
	qp->qp.qp_type = attr->qp_type;
	qp->qp.state = IBV_QPS_INIT;
	qp->sq_sig_all = attr->sq_sig_all;
	qp->cap = attr->cap;
	softrdma_post_ex_init(&qp->ex);
}

struct softrdma_qp *
softrdma_qp_new(struct ibv_pd *pd, struct ibv_qp_init_attr_ex *attr)
{
	int ret = check_init_attr(attr);
	if (ret)
		goto err_errno;
	struct softrdma_qp *qp = calloc(1, sizeof(*qp));
	if (qp == NULL) {
		ret = ENOMEM;
		goto err_errno;
	}
	uint32_t qp_num, seq;
	ret = new_qp_num(&qp_num);
	if (ret == 0)
		ret = softrdma_random(&seq, sizeof(seq));
	if (ret)
		goto err_free;

	fill_in(qp, pd, attr, qp_num);
	uint32_t recv_wr = attr->srq ? 0 : attr->cap.max_recv_wr;
	ret = softrdma_recv_queue_init(&qp->recv_queue, recv_wr, attr->cap.max_recv_sge);
	if (ret)
		goto err_free;

	struct softrdma_link *link = softrdma_link_new();
	if (link == NULL) {
		ret = ENOMEM;
		goto err_fini_recv_queue;
	}
	struct softrdma_cq *send_cq = softrdma_cq_of(attr->send_cq);
	struct softrdma_cq *recv_cq = softrdma_cq_of(attr->recv_cq);
	struct softrdma_recv_queue *queue = attr->srq ? &softrdma_srq_of(attr->srq)->queue : &qp->recv_queue;
	link->qp = &qp->qp;
	link->seq = seq;
	qp->link = link;
	softrdma_responder_init(&link->responder, pd, recv_cq, queue, attr->srq != NULL, qp_num, link);
	ret = softrdma_requester_init(&link->requester, pd, send_cq, qp_num, &attr->cap);
	if (ret)
		goto err_put_link;
	ret = softrdma_cq_attach(send_cq, link);
	if (ret)
		goto err_put_link;
	if (recv_cq != send_cq) {
		ret = softrdma_cq_attach(recv_cq, link);
		if (ret)
			goto err_detach_send_cq;
	}
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	use_srq(attr->srq, 1);
	atomic_fetch_add(&softrdma_pd_of(pd)->users, 1);
	softrdma_io_add_link(link);
	return qp;

err_detach_send_cq:
	softrdma_cq_detach(send_cq, link);
err_put_link:
	softrdma_link_put(link);
err_fini_recv_queue:
	softrdma_recv_queue_fini(&qp->recv_queue);
err_free:
	free(qp);
err_errno:
	errno = ret;
	return NULL;
}

void
softrdma_qp_delete(struct softrdma_qp *qp)
{
	struct softrdma_link *link = qp->link;
	struct ibv_qp *ibv_qp = &qp->qp;

	pthread_mutex_lock(&link->lock);
	softrdma_link_abandon(link);
	softrdma_io_send(link); /* DISCONNECT, if the socket takes it */
	softrdma_io_detach(link);
	link->state = SOFTRDMA_LINK_DOWN;
	pthread_mutex_unlock(&link->lock);

	/* from here on nobody finds queues or completion queues through the link */
	softrdma_io_remove_link(link);
	softrdma_cq_detach(softrdma_cq_of(ibv_qp->send_cq), link);
	if (ibv_qp->recv_cq != ibv_qp->send_cq)
		softrdma_cq_detach(softrdma_cq_of(ibv_qp->recv_cq), link);
	use_srq(ibv_qp->srq, -1);
	atomic_fetch_sub(&softrdma_pd_of(ibv_qp->pd)->users, 1);
	softrdma_link_put(link);
	softrdma_recv_queue_fini(&qp->recv_queue);
	pthread_cond_destroy(&ibv_qp->cond);
	pthread_mutex_destroy(&ibv_qp->mutex);
	free(qp);
}

/* --- control --- */

struct ibv_qp_ex *
softrdma_ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return &softrdma_qp_of(qp)->ex;
}

/* the connection manager moves queue pairs through their states; an application may only give one up */
int
softrdma_ibv_modify_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct softrdma_qp *qp = softrdma_qp_of(ibv_qp);
	if (attr_mask == IBV_QP_MIN_RNR_TIMER)
		return 0; /* a receive that comes is announced at once: there is nothing to wait for */
	if (attr_mask != IBV_QP_STATE || attr->qp_state != IBV_QPS_ERR)
		return EOPNOTSUPP;
	pthread_mutex_lock(&qp->link->lock);
	softrdma_link_fail(qp->link, IBV_WC_WR_FLUSH_ERR);
	softrdma_io_send(qp->link);
	pthread_mutex_unlock(&qp->link->lock);
	return 0;
}

int
softrdma_ibv_query_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int attr_mask,
	struct ibv_qp_init_attr *init_attr)
{
	(void)attr_mask;
	struct softrdma_qp *qp = softrdma_qp_of(ibv_qp);
	memset(attr, 0, sizeof(*attr));
	memset(init_attr, 0, sizeof(*init_attr));
	pthread_mutex_lock(&qp->link->lock);
	attr->qp_state = attr->cur_qp_state = ibv_qp->state;
	attr->max_rd_atomic = (uint8_t)qp->link->requester.rd_atom_max;
	attr->max_dest_rd_atomic = (uint8_t)qp->link->responder.rd_atom_max;
	pthread_mutex_unlock(&qp->link->lock);
	attr->path_mtu = IBV_MTU_4096;
	attr->port_num = 1;
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
