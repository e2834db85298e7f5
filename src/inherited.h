/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * inherited.h -- objects that were made before fork(2), in the child
 *
 * They belong to the parent: a lock in one of them may have been held by a thread that the child does not
 * have. The device itself refuses calls that post or poll without a lock of the library. Any other call that
 * takes a lock, waits, makes something new or deletes asks here first. If the object is inherited, it touches
 * nothing.
 */

#ifndef RPMAI_INHERITED_H
#define RPMAI_INHERITED_H

#include "cq.h"
#include "peer.h"

/* always false for hardware: there a child has only what ibv_fork_init(3) promises */
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

/* returns RPMA_E_PROVIDER and reports why */
int rpmai_refuse_inherited(void);

/*
 * The same for a call that deletes. A child can end and free nothing here. The object is kept where leak
 * checkers find it, with everything that belongs to it.
 */
int rpmai_bury_inherited(void *object);

#endif /* RPMAI_INHERITED_H */
