/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* verbs.c -- the device's objects under libibverbs' names: domains, regions, queues, queue pairs */

#include <errno.h>
#include <string.h>

#include "preload.h"
#include "softrdma/base/missing.h"
#include "softrdma/verbs/qp.h"
#include "softrdma/verbs/srq.h"

/* --- protection domains and regions --- */

struct ibv_pd *
ibv_alloc_pd(struct ibv_context *context)
{
	return softrdma_ibv_alloc_pd(context);
}

int
ibv_dealloc_pd(struct ibv_pd *pd)
{
	return softrdma_ibv_dealloc_pd(pd);
}

/* optional rights are hints: libibverbs drops those that a device does not know (ibv_reg_mr(3)) */
#undef ibv_reg_mr
struct ibv_mr *
ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return softrdma_ibv_reg_mr(pd, addr, length, access & ~(int)IBV_ACCESS_OPTIONAL_RANGE);
}

struct ibv_mr *
ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	if (iova != (uintptr_t)addr) {
		errno = softrdma_missing("ibv_reg_mr_iova", " at another address",
			"let iova be the address of the memory");
		return NULL;
	}
	return ibv_reg_mr(pd, addr, length, (int)access);
}

#undef ibv_reg_mr_iova
struct ibv_mr *
ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

int
ibv_dereg_mr(struct ibv_mr *mr)
{
	return softrdma_ibv_dereg_mr(mr);
}

/* --- address handles --- */

struct ibv_ah *
ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	return softrdma_ibv_create_ah(pd, attr);
}

int
ibv_destroy_ah(struct ibv_ah *ah)
{
	return softrdma_ibv_destroy_ah(ah);
}

int
ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh,
	struct ibv_ah_attr *ah_attr)
{
	return softrdma_ibv_init_ah_from_wc(context, port_num, wc, grh, ah_attr);
}

struct ibv_ah *
ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num)
{
	return softrdma_ibv_create_ah_from_wc(pd, wc, grh, port_num);
}

/* --- completions --- */

struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *context)
{
	return softrdma_ibv_create_comp_channel(context);
}

int
ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return softrdma_ibv_destroy_comp_channel(channel);
}

struct ibv_cq *
ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
	int comp_vector)
{
	return softrdma_ibv_create_cq(context, cqe, cq_context, channel, comp_vector);
}

int
ibv_destroy_cq(struct ibv_cq *cq)
{
	return softrdma_ibv_destroy_cq(cq);
}

int
ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	return softrdma_ibv_get_cq_event(channel, cq, cq_context);
}

void
ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	softrdma_ibv_ack_cq_events(cq, nevents);
}

/* --- shared receive queues --- */

struct ibv_srq *
ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr)
{
	return softrdma_ibv_create_srq(pd, srq_init_attr);
}

int
ibv_destroy_srq(struct ibv_srq *srq)
{
	return softrdma_ibv_destroy_srq(srq);
}

int
ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr)
{
	const struct softrdma_recv_queue *queue = &softrdma_srq_of(srq)->queue;
	memset(srq_attr, 0, sizeof(*srq_attr));
	srq_attr->max_wr = queue->capacity;
	srq_attr->max_sge = queue->max_sge;
	return 0;
}

/* --- queue pairs --- */

struct ibv_qp *
ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
{
	return softrdma_ibv_create_qp(pd, qp_init_attr);
}

int
ibv_destroy_qp(struct ibv_qp *qp)
{
	return softrdma_ibv_destroy_qp(qp);
}

struct ibv_qp_ex *
ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return softrdma_ibv_qp_to_qp_ex(qp);
}

int
ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	return softrdma_ibv_modify_qp(qp, attr, attr_mask);
}

int
ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr)
{
	return softrdma_ibv_query_qp(qp, attr, attr_mask, init_attr);
}

/* no promise: a message may arrive in several parts, and the kernel copies each in any order */
int
ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}
