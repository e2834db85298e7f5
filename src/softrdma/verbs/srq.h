/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* srq.h -- shared receive queues */

#ifndef SOFTRDMA_SRQ_H
#define SOFTRDMA_SRQ_H

#include "softrdma/core/recv_queue.h"
#include "softrdma/softrdma.h"

struct softrdma_srq {
	struct ibv_srq srq;
	struct softrdma_recv_queue queue;
	unsigned users; /* queue pairs; guarded by the queue's lock */
};

static inline struct softrdma_srq *
softrdma_srq_of(struct ibv_srq *srq)
{
	return (struct softrdma_srq *)srq;
}

/* the implementation of ibv_post_srq_recv() */
int softrdma_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

#endif /* SOFTRDMA_SRQ_H */
