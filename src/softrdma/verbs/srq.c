/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* srq.c -- shared receive queues */

#include <errno.h>
#include <stdlib.h>

#include "softrdma/base/fork.h"
#include "softrdma/bounds.h"
#include "softrdma/verbs/domain.h"
#include "softrdma/verbs/post.h"
#include "softrdma/verbs/srq.h"

struct ibv_srq *
softrdma_ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct ibv_srq_attr *attr = &init->attr;
	if (attr->max_wr < 1 || attr->max_wr > SOFTRDMA_WR_MAX || attr->max_sge > SOFTRDMA_SGE_MAX) {
		errno = EINVAL;
		return NULL;
	}
	if (softrdma_is_inherited(pd->context)) {
		errno = softrdma_fork_refuse("ibv_create_srq");
		return NULL;
	}
	struct softrdma_srq *srq = calloc(1, sizeof(*srq));
	if (srq == NULL)
		return NULL;
	int ret = softrdma_recv_queue_init(&srq->queue, attr->max_wr, attr->max_sge);
	if (ret) {
		free(srq);
		errno = ret;
		return NULL;
	}
	srq->srq.context = pd->context;
	srq->srq.srq_context = init->srq_context;
	srq->srq.pd = pd;
	pthread_mutex_init(&srq->srq.mutex, NULL);
	pthread_cond_init(&srq->srq.cond, NULL);
	atomic_fetch_add(&softrdma_pd_of(pd)->users, 1);
	attr->max_sge = srq->queue.max_sge;
	return &srq->srq;
}

int
softrdma_ibv_destroy_srq(struct ibv_srq *ibv_srq)
{
	struct softrdma_srq *srq = softrdma_srq_of(ibv_srq);
	if (softrdma_is_inherited(ibv_srq->context))
		return softrdma_fork_refuse("ibv_destroy_srq");
	pthread_mutex_lock(&srq->queue.lock);
	unsigned users = srq->users;
	pthread_mutex_unlock(&srq->queue.lock);
	if (users)
		return EBUSY;

	atomic_fetch_sub(&softrdma_pd_of(srq->srq.pd)->users, 1);
	pthread_cond_destroy(&srq->srq.cond);
	pthread_mutex_destroy(&srq->srq.mutex);
	softrdma_recv_queue_fini(&srq->queue);
	free(srq);
	return 0;
}

int
softrdma_post_srq_recv(struct ibv_srq *ibv_srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct softrdma_srq *srq = softrdma_srq_of(ibv_srq);
	int ret = 0;
	for (; wr && ret == 0; wr = wr->next) {
		ret = softrdma_recv_queue_put(&srq->queue, wr);
		if (ret)
			*bad_wr = wr;
	}
	softrdma_post_replenished(&srq->queue);
	return ret;
}
