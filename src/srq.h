/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* srq.h -- shared receive queues */

#ifndef RPMAI_SRQ_H
#define RPMAI_SRQ_H

#include "cq.h"

/* never changes after rpma_srq_new, so any thread may read it */
struct rpma_srq {
	struct rpma_peer *peer;
	struct ibv_srq *ibv_srq;
	struct rpma_cq *rcq; /* NULL: receives complete in each connection's queue */
};

#endif /* RPMAI_SRQ_H */
