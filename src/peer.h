/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* peer.h -- a device in use */

#ifndef RPMAI_PEER_H
#define RPMAI_PEER_H

#include "public.h"
#include "rdma.h"
#include "users.h"

struct conn_table;

/*
 * Never changes after rpma_peer_new, but for its credentials and its counts, so any thread may read it.
 *
 * rpma_peer_delete may come before the deletion of what was made from the peer. The protection domain lives
 * until the last object in it is deleted; the structure lives until the last endpoint is deleted as well.
 */
struct rpma_peer {
	const struct rdma_api *rdma;
	struct ibv_pd *pd;
	const struct ibv_context
		*process;         /* of the domain, which says whose process it is: see inherited.h */
	uint32_t caps;            /* RPMA_CAP_* */
	uint32_t max_sge;         /* pieces that an operation of the device can have */
	bool is_iwarp;            /* an RDMA READ needs the right of a remote write on its destination */
	struct conn_table *conns; /* made from it */
	struct softrdma_credentials *credentials; /* NULL: the device decides */
	struct users pd_users; /* regions, requests, connections and shared receive queues: in the domain */
	atomic_uint refs;      /* of the structure: one of the domain, and one of each endpoint */
};

/* asks the device for its capabilities and (unless NULL) its most pieces. RPMA_E_PROVIDER */
int rpmai_peer_query(const struct rdma_api *rdma, struct ibv_context *ctx, uint32_t *caps, uint32_t *max_sge);

/* rpma_peer_new with the table already found */
int rpmai_peer_new(const struct rdma_api *rdma, struct ibv_context *ctx, struct rpma_peer **peer_ptr);

/*
 * An object in the protection domain, from here on. The peer is not deleted yet, or the caller is such an
 * object.
 */
static inline void
rpmai_peer_use(struct rpma_peer *peer)
{
	users_add(&peer->pd_users);
}

/* the object is deleted; frees what is left of a deleted peer after its last object. RPMA_E_PROVIDER */
int rpmai_peer_unuse(struct rpma_peer *peer);

/* of an endpoint: it needs the structure, and no protection domain */
void rpmai_peer_get(struct rpma_peer *peer);
void rpmai_peer_put(struct rpma_peer *peer);

/* what the peer was given is for this new id */
void rpmai_peer_credentials_for(const struct rpma_peer *peer, struct rdma_cm_id *id);

#endif /* RPMAI_PEER_H */
