/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * cq_ex.c -- extended completion queues: ibv_start_poll to ibv_end_poll, and the fields that can be read
 *
 * Polling takes a completion (CQE) out of the queue, and the application reads its fields from a copy. From a
 * start that finds a completion until the end, the polling thread holds poll_lock, as ibv_start_poll(3) allows. A
 * plain ibv_poll_cq() in between takes the completions that follow.
 */

#include <assert.h>
#include <errno.h>

#include "softrdma/base/fork.h"
#include "softrdma/base/missing.h"
#include "softrdma/bounds.h"
#include "softrdma/verbs/completion.h"
#include "softrdma/verbs/domain.h"

static_assert(offsetof(struct ibv_cq_ex, async_events_completed) ==
		offsetof(struct ibv_cq, async_events_completed),
	"an extended queue begins as a plain one");

/*
 * Timestamps are not among them. The device has no clock that a program could compare them with, and the time
 * at which a socket is read does not show when the bytes arrived.
 */
#define WC_FLAGS_KNOWN ((uint64_t)IBV_WC_STANDARD_FLAGS)

static struct softrdma_cq *
cq_of(struct ibv_cq_ex *cq)
{
	return softrdma_cq_of(ibv_cq_ex_to_cq(cq));
}

/* --- polling --- */

static int
show(struct softrdma_cq *cq, int count)
{
	if (count <= 0)
		return count == 0 ? ENOENT : EIO;
	cq->ex.status = cq->polled.status;
	cq->ex.wr_id = cq->polled.wr_id;
	return 0;
}

static int
start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct softrdma_cq *cq = cq_of(ex);
	if (attr->comp_mask)
		return EINVAL;
	if (softrdma_is_inherited(cq->cq.context))
		return softrdma_fork_refuse("ibv_start_poll");
	pthread_mutex_lock(&cq->poll_lock);
	int ret = show(cq, softrdma_poll_cq(&cq->cq, 1, &cq->polled));
	if (ret)
		pthread_mutex_unlock(&cq->poll_lock); /* after an error there is no ibv_end_poll */
	return ret;
}

static int
next_poll(struct ibv_cq_ex *ex)
{
	struct softrdma_cq *cq = cq_of(ex);
	if (softrdma_is_inherited(cq->cq.context)) /* forked since the start */
		return softrdma_fork_refuse("ibv_next_poll");
	return show(cq, softrdma_cq_pop(cq, 1, &cq->polled));
}

static void
end_poll(struct ibv_cq_ex *ex)
{
	pthread_mutex_unlock(&cq_of(ex)->poll_lock);
}

/* --- fields --- */

static enum ibv_wc_opcode
read_opcode(struct ibv_cq_ex *cq)
{
	return cq_of(cq)->polled.opcode;
}

static uint32_t
read_vendor_err(struct ibv_cq_ex *cq)
{
	return cq_of(cq)->polled.vendor_err;
}

static unsigned int
read_wc_flags(struct ibv_cq_ex *cq)
{
	return cq_of(cq)->polled.wc_flags;
}

static uint32_t
read_byte_len(struct ibv_cq_ex *cq)
{
	return cq_of(cq)->polled.byte_len;
}

static __be32
read_imm_data(struct ibv_cq_ex *cq)
{
	return cq_of(cq)->polled.imm_data;
}

static uint32_t
read_qp_num(struct ibv_cq_ex *cq)
{
	return cq_of(cq)->polled.qp_num;
}

static uint32_t
read_src_qp(struct ibv_cq_ex *cq)
{
	return cq_of(cq)->polled.src_qp;
}

static uint32_t
read_slid(struct ibv_cq_ex *cq)
{
	return cq_of(cq)->polled.slid;
}

static uint8_t
read_sl(struct ibv_cq_ex *cq)
{
	return cq_of(cq)->polled.sl;
}

static uint8_t
read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	return cq_of(cq)->polled.dlid_path_bits;
}

/* as on hardware, a field that was not requested at creation cannot be read */
static void
fill_in(struct ibv_cq_ex *cq, uint64_t wc_flags)
{
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	cq->end_poll = end_poll;
	cq->read_opcode = read_opcode;
	cq->read_vendor_err = read_vendor_err;
	cq->read_wc_flags = read_wc_flags;
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		cq->read_byte_len = read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		cq->read_imm_data = read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		cq->read_qp_num = read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		cq->read_src_qp = read_src_qp;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		cq->read_slid = read_slid;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		cq->read_sl = read_sl;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		cq->read_dlid_path_bits = read_dlid_path_bits;
}

/* --- the interface for applications --- */

/* 0 or an errno value */
static int
check_attr(const struct ibv_cq_init_attr_ex *attr)
{
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	if ((attr->comp_mask & ~known) || (attr->wc_flags & ~WC_FLAGS_KNOWN))
		return softrdma_missing("ibv_create_cq_ex", " with these attributes", SOFTRDMA_SEE_MANUAL);
	/* refuses to ignore an overrun, which is an error here; SINGLE_THREADED needs no action, as locks do no harm */
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
		(attr->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED))
		return softrdma_missing("ibv_create_cq_ex", " with these flags", SOFTRDMA_SEE_MANUAL);
	/* only a parent domain can be bound to a thread */
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
		(attr->parent_domain == NULL || softrdma_pd_of(attr->parent_domain)->stands_for == NULL))
		return EINVAL;
	return attr->cqe > SOFTRDMA_CQE_MAX || attr->comp_vector > 0 ? EINVAL : 0;
}

struct ibv_cq_ex *
softrdma_ibv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_pd *domain = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? attr->parent_domain : NULL;
	int ret = check_attr(attr);
	if (ret) {
		errno = ret;
		return NULL;
	}
	struct ibv_cq *cq =
		softrdma_ibv_create_cq(context, (int)attr->cqe, attr->cq_context, attr->channel, 0);
	if (cq == NULL)
		return NULL;
	if (domain) {
		softrdma_cq_of(cq)->domain = softrdma_pd_of(domain);
		atomic_fetch_add(&softrdma_pd_of(domain)->users, 1);
	}
	fill_in(&softrdma_cq_of(cq)->ex, attr->wc_flags);
	return &softrdma_cq_of(cq)->ex;
}

/* events are always raised at once, so no other moderation is supported */
int
softrdma_ibv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	(void)cq;
	if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
		return EINVAL;
	if (attr->moderate.cq_count <= 1 && attr->moderate.cq_period == 0)
		return 0;
	return softrdma_missing("ibv_modify_cq", " with moderation",
		"leave it out: each event is raised at once");
}
