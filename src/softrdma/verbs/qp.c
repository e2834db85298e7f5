/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* qp.c -- queue pairs: the application's side of a link */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/gather.h"
#include "softrdma/engine/links.h"
#include "softrdma/samehost/shm_path.h"
#include "softrdma/verbs/post.h"
#include "softrdma/verbs/qp.h"
#include "softrdma/verbs/srq.h"

/* queue pair numbers have 24 bits (IBTA), are not 0 or 1 (management) and cannot be guessed */
static int
new_qp_num(uint32_t *qp_num)
{
	int ret;
	do {
		ret = softrdma_random(qp_num, sizeof(*qp_num));
		*qp_num &= 0xffffff;
	} while (ret == 0 && (*qp_num < 2 || softrdma_links_have_qp_num(*qp_num)));
	return ret;
}

static bool
any_is_inherited(const struct ibv_pd *pd, const struct ibv_qp_init_attr_ex *attr)
{
	return softrdma_is_inherited(pd->context) || softrdma_is_inherited(attr->send_cq->context) ||
		softrdma_is_inherited(attr->recv_cq->context) ||
		(attr->srq && softrdma_is_inherited(attr->srq->context));
}

static int
check_init_attr(const struct ibv_pd *pd, const struct ibv_qp_init_attr_ex *attr,
	const struct softrdma_qp_kind *kind)
{
	const struct ibv_qp_cap *cap = &attr->cap;
	const int ret = softrdma_qp_check_kind(kind, attr->qp_type);
	if (ret)
		return ret;
	if (attr->send_cq == NULL || attr->recv_cq == NULL)
		return EINVAL;
	if (any_is_inherited(pd, attr))
		return softrdma_fork_refuse("ibv_create_qp");
	if (cap->max_send_wr > SOFTRDMA_WR_MAX || cap->max_recv_wr > SOFTRDMA_WR_MAX)
		return EINVAL;
	if (cap->max_send_sge > SOFTRDMA_SGE_MAX || cap->max_recv_sge > SOFTRDMA_SGE_MAX)
		return EINVAL;
	if (cap->max_inline_data > SOFTRDMA_INLINE_MAX)
		return EINVAL;
	return 0;
}

/*
 * Grants more than was requested, as drivers of hardware do, because programs rely on it. The send queue gets a
 * power of two (the ring has that size in any case), and inline data at least SOFTRDMA_INLINE_MIN bytes.
 */
static void
grant(struct ibv_qp_cap *cap)
{
	uint32_t slots = 1;
	while (slots < cap->max_send_wr)
		slots *= 2;
	if (cap->max_send_wr > 0)
		cap->max_send_wr = slots;
	if (cap->max_inline_data < SOFTRDMA_INLINE_MIN)
		cap->max_inline_data = SOFTRDMA_INLINE_MIN;
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

/* sets the members that the application sees */
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
	qp->qp.state = qp->kind->resets ? IBV_QPS_RESET : IBV_QPS_INIT;
	qp->sq_sig_all = attr->sq_sig_all;
	qp->cap = attr->cap;
	softrdma_post_ex_init(&qp->ex);
}

/* initializes a link that other threads cannot find yet; 0 or an errno value */
static int
init_link(struct softrdma_qp *qp, struct softrdma_link *link)
{
	struct ibv_qp *ibv_qp = &qp->qp;
	struct softrdma_cq *recv_cq = softrdma_cq_of(ibv_qp->recv_cq);
	struct softrdma_recv_queue *queue =
		ibv_qp->srq ? &softrdma_srq_of(ibv_qp->srq)->queue : &qp->recv_queue;
	int ret = softrdma_random(&link->seq, sizeof(link->seq));
	if (ret)
		return ret;
	link->qp = ibv_qp;
	link->by_hand = qp->kind->resets;
	const struct ibv_pd *pd = softrdma_domain_of_keys(ibv_qp->pd);
	softrdma_responder_init(&link->responder, pd, recv_cq, queue, ibv_qp->srq != NULL, ibv_qp->qp_num,
		link);
	ret = softrdma_requester_init(&link->requester, pd, softrdma_cq_of(ibv_qp->send_cq), ibv_qp->qp_num,
		&qp->cap);
	return ret == 0 && qp->kind->prepare ? qp->kind->prepare(link) : ret;
}

/* makes a link for the queue pair, and enters it in its completion queues and the device; 0 or an errno value */
static int
add_link(struct softrdma_qp *qp, struct softrdma_link **link_ptr)
{
	struct softrdma_cq *send_cq = softrdma_cq_of(qp->qp.send_cq);
	struct softrdma_cq *recv_cq = softrdma_cq_of(qp->qp.recv_cq);
	struct softrdma_link *link = qp->kind->new_link();
	if (link == NULL)
		return ENOMEM;
	int ret = init_link(qp, link);
	if (ret)
		goto err_put_link;
	ret = softrdma_cq_attach(send_cq, recv_cq, link);
	if (ret)
		goto err_put_link;
	softrdma_links_add(link);
	*link_ptr = link;
	return 0;

err_put_link:
	softrdma_link_put(link);
	return ret;
}

/*
 * Sends DISCONNECT if it is connected, and removes its completions; after this, no thread finds the queue pair through the
 * link, and the link completes nothing. The link's lock is held. (By a RESET also that of the pointer: the next link has
 * the same number, and completes nothing yet.)
 */
static void
shut_link(struct softrdma_qp *qp, struct softrdma_link *link)
{
	softrdma_gather_no_longer(link);
	softrdma_link_abandon(link);
	softrdma_connection_send(link); /* DISCONNECT, if the socket takes it */
	softrdma_connection_detach(link);
	link->state = SOFTRDMA_LINK_DOWN;
	softrdma_cq_purge(softrdma_cq_of(qp->qp.send_cq), qp->qp.qp_num);
	if (qp->qp.recv_cq != qp->qp.send_cq)
		softrdma_cq_purge(softrdma_cq_of(qp->qp.recv_cq), qp->qp.qp_num);
}

/* the link has been shut */
static void
remove_link(struct softrdma_qp *qp, struct softrdma_link *link)
{
	/* a local peer may still be accessing memory that it reached by this connection */
	softrdma_shm_path_wait();

	softrdma_links_remove(link);
	softrdma_connection_stop_leading(link);
	softrdma_cq_detach(softrdma_cq_of(qp->qp.send_cq), softrdma_cq_of(qp->qp.recv_cq), link);
}

struct softrdma_qp *
softrdma_qp_new(struct ibv_pd *pd, struct ibv_qp_init_attr_ex *attr, const struct softrdma_qp_kind *kind,
	uint32_t qp_num)
{
	int ret = qp_num ? 0 : new_qp_num(&qp_num);
	if (ret == 0)
		ret = check_init_attr(pd, attr, kind);
	if (ret)
		goto err_errno;
	struct softrdma_qp *qp = calloc(1, sizeof(*qp));
	if (qp == NULL) {
		ret = ENOMEM;
		goto err_errno;
	}
	qp->kind = kind;
	qp->resets = kind->resets;
	grant(&attr->cap);
	fill_in(qp, pd, attr, qp_num);
	uint32_t recv_wr = attr->srq ? 0 : attr->cap.max_recv_wr;
	ret = softrdma_recv_queue_init(&qp->recv_queue, recv_wr, attr->cap.max_recv_sge);
	if (ret)
		goto err_free;
	ret = add_link(qp, &qp->link);
	if (ret)
		goto err_fini_recv_queue;
	pthread_mutex_init(&qp->link_lock, NULL);
	pthread_mutex_init(&qp->sq_lock, NULL);
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	use_srq(attr->srq, 1);
	atomic_fetch_add(&softrdma_pd_of(pd)->users, 1);
	return qp;

err_fini_recv_queue:
	softrdma_recv_queue_fini(&qp->recv_queue);
err_free:
	free(qp);
err_errno:
	errno = ret;
	return NULL;
}

int
softrdma_qp_reset(struct softrdma_qp *qp)
{
	struct softrdma_link *link;
	int ret = add_link(qp, &link);
	if (ret)
		return ret;
	pthread_mutex_lock(&qp->link_lock);
	struct softrdma_link *before = qp->link;
	pthread_mutex_lock(&before->lock);
	shut_link(qp, before);
	qp->link = link;
	qp->qp.state = IBV_QPS_RESET;
	pthread_mutex_unlock(&before->lock);
	pthread_mutex_unlock(&qp->link_lock);
	remove_link(qp, before);
	softrdma_link_put(before);
	return 0;
}

void
softrdma_qp_fail(struct softrdma_qp *qp)
{
	struct softrdma_link *link = softrdma_qp_lock_link(qp);
	softrdma_connection_collect(link);
	softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
	softrdma_connection_send(link);
	pthread_mutex_unlock(&link->lock);
}

void
softrdma_qp_delete(struct softrdma_qp *qp)
{
	struct ibv_qp *ibv_qp = &qp->qp;
	pthread_mutex_lock(&qp->link->lock);
	shut_link(qp, qp->link);
	pthread_mutex_unlock(&qp->link->lock);
	remove_link(qp, qp->link);
	use_srq(ibv_qp->srq, -1);
	atomic_fetch_sub(&softrdma_pd_of(ibv_qp->pd)->users, 1);
	softrdma_link_put(qp->link);
	softrdma_recv_queue_fini(&qp->recv_queue);
	pthread_cond_destroy(&ibv_qp->cond);
	pthread_mutex_destroy(&ibv_qp->mutex);
	pthread_mutex_destroy(&qp->sq_lock);
	pthread_mutex_destroy(&qp->link_lock);
	free(qp);
}

/* --- the interface for applications --- */

struct ibv_qp_ex *
softrdma_ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return &softrdma_qp_of(qp)->ex;
}

uint64_t
softrdma_crc_errors(struct ibv_qp *qp)
{
	return atomic_load(&softrdma_connection_of(softrdma_qp_of(qp)->link)->crc_errors);
}
