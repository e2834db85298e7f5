/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* post.c -- posting lists of work requests to a queue pair: ibv_post_send, ibv_post_recv */

#include <errno.h>
#include <string.h>

#include "softrdma/base/fork.h"
#include "softrdma/base/missing.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/gather.h"
#include "softrdma/verbs/address_handle.h"
#include "softrdma/verbs/gid.h"
#include "softrdma/verbs/post.h"

int
softrdma_post_append_inline(const struct softrdma_qp *qp, struct softrdma_send *send, const void *addr,
	size_t length)
{
	if (length > qp->cap.max_inline_data - send->length)
		return EINVAL;
	if (length > 0)
		memcpy(send->inline_data + send->length, addr, length);
	send->length += length;
	return 0;
}

int
softrdma_post_take_sges(const struct softrdma_qp *qp, struct softrdma_send *send, const struct ibv_sge *sge,
	size_t num_sge)
{
	int ret = num_sge <= softrdma_send_ring_max_sge(&qp->cap) ? 0 : EINVAL;
	send->length = 0;
	for (size_t i = 0; i < num_sge && ret == 0; i++) {
		if (send->is_inline) {
			ret = softrdma_post_append_inline(qp, send, (const void *)(uintptr_t)sge[i].addr,
				sge[i].length);
		} else {
			send->sge[i] = sge[i];
			send->num_sge = (int)i + 1;
			send->length += sge[i].length;
		}
	}
	return ret;
}

void
softrdma_post_take_flags(const struct softrdma_qp *qp, struct softrdma_send *send, unsigned int flags)
{
	send->signaled = qp->sq_sig_all || (flags & IBV_SEND_SIGNALED);
	send->fenced = flags & IBV_SEND_FENCE;
	send->solicited = flags & IBV_SEND_SOLICITED;
	send->is_inline = flags & IBV_SEND_INLINE;
}

int
softrdma_post_take_destination(const struct softrdma_qp *qp, struct softrdma_send *send, struct ibv_ah *ah,
	uint32_t qp_num, uint32_t qkey)
{
	struct softrdma_destination *to = send->to;
	if (to == NULL || ah == NULL || qp_num > SOFTRDMA_QP_NUM_MAX)
		return EINVAL;
	if (softrdma_is_inherited(ah->context))
		return softrdma_fork_refuse("ibv_post_send");
	if (softrdma_domain_of_keys(ah->pd) != softrdma_domain_of_keys(qp->qp.pd))
		return EINVAL;
	*to = softrdma_address_handle_of(ah)->to;
	to->qp_num = qp_num;
	to->qkey = qkey;
	to->address.sin6_port = htons(softrdma_gid_port(qp_num));
	return 0;
}

int
softrdma_post_check(const struct softrdma_qp *qp, struct softrdma_send *send)
{
	const int ret = softrdma_send_check(send);
	return ret == 0 && send->to ? qp->kind->check(send) : ret;
}

static void
take_atomic(struct softrdma_send *send, const struct ibv_send_wr *wr)
{
	send->remote_addr = wr->wr.atomic.remote_addr;
	send->key = wr->wr.atomic.rkey;
	send->operand[0] = wr->wr.atomic.compare_add;
	send->operand[1] = wr->wr.atomic.swap;
}

/* fills the slot from a work request; 0 or an errno value */
static int
take_wr(const struct softrdma_qp *qp, struct softrdma_send *send, const struct ibv_send_wr *wr)
{
	send->wr_id = wr->wr_id;
	softrdma_post_take_flags(qp, send, wr->send_flags);
	int ret = wr->num_sge < 0 ? EINVAL
				  : softrdma_post_take_sges(qp, send, wr->sg_list, (size_t)wr->num_sge);
	if (ret)
		return ret;
	if (send->to) {
		ret = softrdma_post_take_destination(qp, send, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
			wr->wr.ud.remote_qkey);
		if (ret)
			return ret;
	} else {
		send->remote_addr = wr->wr.rdma.remote_addr;
		send->key = wr->wr.rdma.rkey;
	}
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
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		send->opcode = SOFTRDMA_OP_COMPARE_SWAP;
		take_atomic(send, wr);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		send->opcode = SOFTRDMA_OP_FETCH_ADD;
		take_atomic(send, wr);
		break;
	default:
		return softrdma_missing("ibv_post_send", " of this operation", SOFTRDMA_SEE_MANUAL);
	}
	send->has_imm = wr->opcode == IBV_WR_SEND_WITH_IMM || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	send->imm = wr->imm_data;
	return softrdma_post_check(qp, send);
}

bool
softrdma_post_is_allowed(const struct softrdma_link *link)
{
	const struct ibv_qp *qp = link->qp; /* NULL: it was reset */
	return qp && (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_ERR);
}

/* gives a free slot; 0 or an errno value */
static int
find_slot(struct softrdma_link *link, struct softrdma_send **send)
{
	if (!softrdma_post_is_allowed(link))
		return EINVAL;
	*send = softrdma_send_ring_slot(&link->requester.ring);
	return *send ? 0 : ENOMEM;
}

void
softrdma_post_accepted(struct softrdma_link *link, uint32_t seq)
{
	struct softrdma_requester *req = &link->requester;
	if (req->failed) {
		softrdma_requester_fail(req, IBV_WC_WR_FLUSH_ERR);
	} else if (softrdma_requester_length(req, seq) > SOFTRDMA_MSG_MAX) {
		softrdma_requester_fail_at(req, seq, IBV_WC_LOC_LEN_ERR);
		softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
	}
}

void
softrdma_post_ring(struct softrdma_link *link, uint32_t from)
{
	struct softrdma_requester *req = &link->requester;
	req->posted_from = from;
	/* the shared-memory path completes requests without a response */
	if (link->shm_path || !softrdma_gather_may(softrdma_connection_of(link), from))
		softrdma_connection_send(link);
	req->posted_from = req->ring.head;
}

int
softrdma_post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct softrdma_qp *qp = softrdma_qp_of(ibv_qp);
	int ret = 0;
	pthread_mutex_lock(&qp->sq_lock); /* a batch has the next slots until it ends */
	struct softrdma_link *link = softrdma_qp_lock_link(qp);
	const uint32_t from = link->requester.ring.head;
	for (; wr && ret == 0; wr = wr->next) {
		struct softrdma_send *send;
		ret = find_slot(link, &send);
		if (ret == 0)
			ret = take_wr(qp, send, wr);
		if (ret == 0)
			softrdma_post_accepted(link, softrdma_send_ring_commit(&link->requester.ring));
		else
			*bad_wr = wr;
	}
	softrdma_post_ring(link, from);
	pthread_mutex_unlock(&link->lock);
	pthread_mutex_unlock(&qp->sq_lock);
	return ret;
}

/* flushes receives that are posted after the queue pair has failed */
static void
flush_receives(struct softrdma_qp *qp)
{
	/* a link that cannot be replaced is asked without its lock */
	if (!qp->resets && !atomic_load_explicit(&qp->link->failed, memory_order_acquire))
		return;
	struct softrdma_link *link = softrdma_qp_lock_link(qp);
	if (link->failed)
		softrdma_responder_fail(&link->responder);
	pthread_mutex_unlock(&link->lock);
}

void
softrdma_post_replenished(struct softrdma_recv_queue *queue)
{
	struct softrdma_link *link;
	while ((link = softrdma_recv_queue_pop_waiting(queue)) != NULL) {
		softrdma_connection_receive_posted(link);
		softrdma_link_put(link);
	}
}

/* false: the queue pair is in RESET */
static bool
takes_receives(struct softrdma_qp *qp)
{
	if (!qp->resets)
		return true;
	struct softrdma_link *link = softrdma_qp_lock_link(qp);
	bool takes = qp->qp.state != IBV_QPS_RESET;
	pthread_mutex_unlock(&link->lock);
	return takes;
}

int
softrdma_post_recv(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct softrdma_qp *qp = softrdma_qp_of(ibv_qp);
	int ret = ibv_qp->srq || !takes_receives(qp) ? EINVAL : 0;
	if (ret)
		*bad_wr = wr;
	for (; wr && ret == 0; wr = wr->next) {
		ret = softrdma_recv_queue_put(&qp->recv_queue, wr);
		if (ret)
			*bad_wr = wr;
	}
	flush_receives(qp);
	softrdma_post_replenished(&qp->recv_queue);
	return ret;
}
