/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* rdma_core_flush.c -- RDMA FLUSH, for verbs headers that have it */

#include <assert.h>

#include "rdma.h"

static_assert((uint64_t)IBV_QP_EX_WITH_FLUSH == RPMAI_QP_EX_WITH_FLUSH, "as the header has it");
static_assert((int)IBV_ACCESS_FLUSH_GLOBAL == RPMAI_ACCESS_FLUSH_GLOBAL, "as the header has it");
static_assert((int)IBV_ACCESS_FLUSH_PERSISTENT == RPMAI_ACCESS_FLUSH_PERSISTENT, "as the header has it");
static_assert((int)IBV_FLUSH_GLOBAL == RPMAI_FLUSH_GLOBAL, "as the header has it");
static_assert((int)IBV_FLUSH_PERSISTENT == RPMAI_FLUSH_PERSISTENT, "as the header has it");
static_assert((int)IBV_WC_FLUSH == RPMAI_WC_FLUSH, "as the header has it");

const uint64_t rpmai_rdma_core_usable_caps = UINT64_MAX;

void
rpmai_rdma_core_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type)
{
	ibv_wr_flush(qp, rkey, remote_addr, len, type, IBV_FLUSH_RANGE);
}
