/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* qp.c -- queue pairs: what applications hold of a link */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"
#include "io.h"
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

/* --- posting --- */

/* copies the pieces or their content; 0 or an errno value */
static int
take_sges(const struct softrdma_qp *qp, struct softrdma_send *send, const struct ibv_sge *sge, int num_sge)
{
	if (num_sge < 0 || (uint32_t)num_sge > qp->link->requester.max_sge)
		return EINVAL;
	uint64_t length = 0;
	for (int i = 0; i < num_sge; i++)
		length += sge[i].length;
	send->length = length;
	if (!send->is_inline) {
		send->num_sge = num_sge;
		for (int i = 0; i < num_sge; i++)
			send->sge[i] = sge[i];
		return 0;
	}
	if (length > qp->cap.max_inline_data)
		return EINVAL;
	uint8_t *to = send->inline_data;
	for (int i = 0; i < num_sge; i++) {
		if (sge[i].length > 0)
			memcpy(to, (const void *)(uintptr_t)sge[i].addr, sge[i].length);
		to += sge[i].length;
	}
	return 0;
}

static void
take_flags(const struct softrdma_qp *qp, struct softrdma_send *send, unsigned int flags)
{
	send->signaled = qp->sq_sig_all || (flags & IBV_SEND_SIGNALED);
	send->fenced = flags & IBV_SEND_FENCE;
	send->solicited = flags & IBV_SEND_SOLICITED;
	send->is_inline = flags & IBV_SEND_INLINE;
}

/* atomics move 8 bytes into memory that must be there, to an aligned address (ibv_post_send(3)) */
static int
take_atomic(struct softrdma_send *send, const struct ibv_send_wr *wr)
{
	if (send->is_inline || send->length < 8)
		return EINVAL;
	send->length = 8;
	send->remote_addr = wr->wr.atomic.remote_addr;
	send->key = wr->wr.atomic.rkey;
	send->operand[0] = wr->wr.atomic.compare_add;
	send->operand[1] = wr->wr.atomic.swap;
	return 0;
}

/* a work request becomes a request in the slot; 0 or an errno value */
static int
take_wr(const struct softrdma_qp *qp, struct softrdma_send *send, const struct ibv_send_wr *wr)
{
	send->wr_id = wr->wr_id;
	take_flags(qp, send, wr->send_flags);
	int ret = take_sges(qp, send, wr->sg_list, wr->num_sge);
	if (ret)
		return ret;
	send->remote_addr = wr->wr.rdma.remote_addr;
	send->key = wr->wr.rdma.rkey;
	switch (wr->opcode) {
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND:
		send->opcode = SOFTRDMA_OP_SEND;
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_WRITE:
		send->opcode = SOFTRDMA_OP_WRITE;
		break;
	case IBV_WR_RDMA_READ:
		send->opcode = SOFTRDMA_OP_READ;
		return send->is_inline ? EINVAL : 0;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		send->opcode = SOFTRDMA_OP_COMPARE_SWAP;
		return take_atomic(send, wr);
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		send->opcode = SOFTRDMA_OP_FETCH_ADD;
		return take_atomic(send, wr);
	default:
		return EOPNOTSUPP;
	}
	send->has_imm = wr->opcode == IBV_WR_SEND_WITH_IMM || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	send->imm = wr->imm_data;
	return 0;
}

/* a free slot of a queue pair that may send; 0 or an errno value. The link's lock is held. */
static int
find_slot(struct softrdma_qp *qp, struct softrdma_send **send)
{
	if (qp->qp.state != IBV_QPS_RTS && qp->qp.state != IBV_QPS_ERR)
		return EINVAL;
	*send = softrdma_requester_slot(&qp->link->requester);
	return *send ? 0 : ENOMEM;
}

/* the slot is a request now. The link's lock is held. */
static void
commit(struct softrdma_qp *qp, const struct softrdma_send *send)
{
	struct softrdma_link *link = qp->link;
	struct softrdma_requester *req = &link->requester;
	bool too_long = send->opcode != SOFTRDMA_OP_FLUSH && send->length > SOFTRDMA_MSG_MAX;
	uint32_t seq = req->head;
	softrdma_requester_commit(req);
	if (req->failed) {
		softrdma_requester_fail(req, IBV_WC_WR_FLUSH_ERR);
	} else if (too_long) {
		softrdma_requester_fail_at(req, seq, IBV_WC_LOC_LEN_ERR);
		softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
	}
}

int
softrdma_post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct softrdma_qp *qp = softrdma_qp_of(ibv_qp);
	int ret = 0;
	pthread_mutex_lock(&qp->link->lock);
	for (; wr && ret == 0; wr = wr->next) {
		struct softrdma_send *send;
		ret = find_slot(qp, &send);
		if (ret == 0)
			ret = take_wr(qp, send, wr);
		if (ret == 0)
			commit(qp, send);
		else
			*bad_wr = wr;
	}
	softrdma_io_send(qp->link);
	pthread_mutex_unlock(&qp->link->lock);
	return ret;
}

/* posts one request that has no memory on this side */
static int
post_one(struct ibv_qp *ibv_qp, const struct softrdma_send *what, unsigned int wr_flags)
{
	struct softrdma_qp *qp = softrdma_qp_of(ibv_qp);
	struct softrdma_send *send;
	pthread_mutex_lock(&qp->link->lock);
	int ret = find_slot(qp, &send);
	if (ret == 0) {
		send->wr_id = what->wr_id;
		send->opcode = what->opcode;
		send->flush_type = what->flush_type;
		send->key = what->key;
		send->remote_addr = what->remote_addr;
		send->length = what->length;
		send->operand[0] = what->operand[0];
		take_flags(qp, send, wr_flags);
		commit(qp, send);
		softrdma_io_send(qp->link);
	}
	pthread_mutex_unlock(&qp->link->lock);
	return ret;
}

int
softrdma_post_flush(struct ibv_qp *qp, uint64_t wr_id, unsigned int wr_flags, uint32_t rkey,
	uint64_t remote_addr, size_t len, uint8_t type)
{
	if (type != SOFTRDMA_FLUSH_GLOBAL && type != SOFTRDMA_FLUSH_PERSISTENT)
		return EINVAL;
	const struct softrdma_send send = {
		.wr_id = wr_id,
		.opcode = SOFTRDMA_OP_FLUSH,
		.flush_type = type,
		.key = rkey,
		.remote_addr = remote_addr,
		.length = len,
	};
	return post_one(qp, &send, wr_flags);
}

int
softrdma_post_atomic_write(struct ibv_qp *qp, uint64_t wr_id, unsigned int wr_flags, uint32_t rkey,
	uint64_t remote_addr, const void *src)
{
	struct softrdma_send send = {
		.wr_id = wr_id,
		.opcode = SOFTRDMA_OP_ATOMIC_WRITE,
		.key = rkey,
		.remote_addr = remote_addr,
		.length = 8,
	};
	memcpy(send.operand, src, 8);
	return post_one(qp, &send, wr_flags);
}

/* receives that come after the error are flushed as those before it were */
static void
flush_receives(struct softrdma_link *link)
{
	if (!__atomic_load_n(&link->failed, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&link->lock);
	softrdma_responder_fail(&link->responder);
	pthread_mutex_unlock(&link->lock);
}

int
softrdma_post_recv(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct softrdma_qp *qp = softrdma_qp_of(ibv_qp);
	int ret = ibv_qp->srq ? EINVAL : 0;
	if (ret)
		*bad_wr = wr;
	for (; wr && ret == 0; wr = wr->next) {
		ret = softrdma_recv_queue_put(&qp->recv_queue, wr);
		if (ret)
			*bad_wr = wr;
	}
	flush_receives(qp->link);
	softrdma_recv_queue_feed(&qp->recv_queue);
	return ret;
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
