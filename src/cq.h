/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* cq.h -- completion queues */

#ifndef RPMAI_CQ_H
#define RPMAI_CQ_H

#include "peer.h"

/* never changes after rpmai_cq_new, so any thread may read it */
struct rpma_cq {
	const struct rdma_api *rdma;
	struct ibv_comp_channel *channel;
	bool channel_is_shared; /* then it is not the queue's */
	struct ibv_cq *ibv_cq;
};

/*
 * Makes an armed completion queue of cqe entries on the given channel, or on one of its own (shared_channel
 * NULL). RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpmai_cq_new(const struct rpma_peer *peer, struct ibv_context *ctx, int cqe,
	struct ibv_comp_channel *shared_channel, struct rpma_cq **cq_ptr);

/* frees it; pointer to NULL is allowed. RPMA_E_PROVIDER */
int rpmai_cq_delete(struct rpma_cq **cq_ptr);

/*
 * Takes one event of a completion channel, acknowledges it at once and says of which queue it is.
 * RPMA_E_NO_COMPLETION, RPMA_E_PROVIDER
 */
int rpmai_cq_take_event(const struct rdma_api *rdma, struct ibv_comp_channel *channel,
	struct ibv_cq **ibv_cq);

/* arms it for its next event. RPMA_E_PROVIDER */
int rpmai_cq_arm(struct rpma_cq *cq);

#endif /* RPMAI_CQ_H */
