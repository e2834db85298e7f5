/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * inherited.h -- objects that were made before fork(2), in the child
 *
 * They belong to the parent: a lock in one may have been held by a thread that the child does not have. What
 * posts or polls without a lock of the library is refused by the device. All that takes one, waits, makes
 * something new or deletes asks here first, and touches nothing.
 */

#ifndef RPMAI_INHERITED_H
#define RPMAI_INHERITED_H

#include "cq.h"
#include "peer.h"

/* never true of hardware: there a child has nothing but what ibv_fork_init(3) promises */
static inline bool
rpmai_is_inherited(const struct rdma_api *rdma, const struct ibv_context *ctx)
{
	return rdma->is_inherited && rdma->is_inherited(ctx);
}

static inline bool
rpmai_peer_is_inherited(const struct rpma_peer *peer)
{
	return rpmai_is_inherited(peer->rdma, peer->process);
}

static inline bool
rpmai_cq_is_inherited(const struct rpma_cq *cq)
{
	return rpmai_is_inherited(cq->rdma, cq->ibv_cq->context);
}

/* RPMA_E_PROVIDER, with a sentence */
int rpmai_refuse_inherited(void);

/*
 * The same for a call that deletes: there is nothing that it could end or free. The object stays, where leak
 * checkers find it with all that belongs to it.
 */
int rpmai_bury_inherited(void *object);

#endif /* RPMAI_INHERITED_H */
