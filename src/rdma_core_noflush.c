/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* rdma_core_noflush.c -- RDMA FLUSH, for verbs headers that do not have it */

#include <assert.h>

#include "rdma.h"

const uint64_t rpmai_rdma_core_usable_caps = ~(RPMAI_CAP_FLUSH_GLOBAL | RPMAI_CAP_FLUSH_PERSISTENT);

void
rpmai_rdma_core_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type)
{
	(void)qp;
	(void)rkey;
	(void)remote_addr;
	(void)len;
	(void)type;
	assert(false); /* never called without the capability */
}
