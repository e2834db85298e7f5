/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* rdma_core_flush.c -- RDMA FLUSH by verbs headers that have it */

#include <assert.h>

#include "rdma.h"

static_assert((uint64_t)IBV_QP_EX_WITH_FLUSH == RPMAI_QP_EX_WITH_FLUSH, "as the header has it");
static_assert((int)IBV_ACCESS_FLUSH_GLOBAL == RPMAI_ACCESS_FLUSH_GLOBAL, "as the header has it");
static_assert((int)IBV_ACCESS_FLUSH_PERSISTENT == RPMAI_ACCESS_FLUSH_PERSISTENT, "as the header has it");
static_assert((int)IBV_FLUSH_GLOBAL == RPMAI_FLUSH_GLOBAL, "as the header has it");
static_assert((int)IBV_FLUSH_PERSISTENT == RPMAI_FLUSH_PERSISTENT, "as the header has it");
static_assert((int)IBV_WC_FLUSH == RPMAI_WC_FLUSH, "as the header has it");

const uint64_t rpmai_rdma_core_usable_caps = UINT64_MAX;

int
rpmai_rdma_core_post_flush(struct ibv_qp_ex *qp, uint64_t wr_id, unsigned int wr_flags, uint32_t rkey,
	uint64_t remote_addr, size_t len, uint8_t type)
{
	ibv_wr_start(qp);
	qp->wr_id = wr_id;
	qp->wr_flags = wr_flags;
	ibv_wr_flush(qp, rkey, remote_addr, len, type, IBV_FLUSH_RANGE);
	return ibv_wr_complete(qp);
}
