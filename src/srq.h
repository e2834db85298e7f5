/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* srq.h -- shared receive queues */

#ifndef RPMAI_SRQ_H
#define RPMAI_SRQ_H

#include "cq.h"

/*
 * Never changes after rpma_srq_new, but for its count, so any thread may read it. It lives until the program
 * and the last connection that uses it are through with it.
 */
struct rpma_srq {
	struct rpma_peer *peer;
	struct ibv_srq *ibv_srq;
	struct rpma_cq *rcq; /* NULL: receives complete in each connection's queue */
	struct users conns;  /* and requests */
};

/* a connection uses it, from here on; the program has not deleted it yet */
static inline void
rpmai_srq_use(struct rpma_srq *srq)
{
	users_add(&srq->conns);
}

/* the connection is deleted; frees a deleted queue after its last connection. RPMA_E_PROVIDER */
int rpmai_srq_unuse(struct rpma_srq *srq);

#endif /* RPMAI_SRQ_H */
