/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* srq.h -- shared receive queues */

#ifndef RPMAI_SRQ_H
#define RPMAI_SRQ_H

#include "cq.h"

/*
 * Any thread may read it: only its count changes after rpma_srq_new. It lives until the program has deleted
 * it and the last connection that uses it is deleted.
 */
struct rpma_srq {
	struct rpma_peer *peer;
	struct ibv_srq *ibv_srq;
	struct rpma_cq *rcq; /* NULL: receives complete in each connection's queue */
	struct users conns;  /* connections and requests that use the queue */
};

/* counts a connection that uses the queue; the program must not have deleted the queue yet */
static inline void
rpmai_srq_use(struct rpma_srq *srq)
{
	users_add(&srq->conns);
}

/* uncounts a deleted connection; after the last one, frees a deleted queue. RPMA_E_PROVIDER */
int rpmai_srq_unuse(struct rpma_srq *srq);

#endif /* RPMAI_SRQ_H */
