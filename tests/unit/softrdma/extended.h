/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* extended.h -- posts one operation of extended verbs, even if the headers have no name for it */

#ifndef SOFTRDMA_TEST_EXTENDED_H
#define SOFTRDMA_TEST_EXTENDED_H

#include <stddef.h>
#include <stdint.h>

#include "softrdma/softrdma.h"

/* returns 0 or an errno value */
static inline int
post_flush(struct ibv_qp *ibv_qp, uint64_t wr_id, unsigned int flags, uint32_t rkey, uint64_t addr,
	size_t len, uint8_t type)
{
	struct ibv_qp_ex *qp = softrdma_ibv_qp_to_qp_ex(ibv_qp);
	ibv_wr_start(qp);
	qp->wr_id = wr_id;
	qp->wr_flags = flags;
	softrdma_wr_flush(qp, rkey, addr, len, type);
	return ibv_wr_complete(qp);
}

/* returns 0 or an errno value */
static inline int
post_atomic_write(struct ibv_qp *ibv_qp, uint64_t wr_id, unsigned int flags, uint32_t rkey, uint64_t addr,
	const void *src)
{
	struct ibv_qp_ex *qp = softrdma_ibv_qp_to_qp_ex(ibv_qp);
	ibv_wr_start(qp);
	qp->wr_id = wr_id;
	qp->wr_flags = flags;
	ibv_wr_atomic_write(qp, rkey, addr, src);
	return ibv_wr_complete(qp);
}

#endif /* SOFTRDMA_TEST_EXTENDED_H */
