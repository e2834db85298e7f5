/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* peer.h -- a peer: a device in use */

#ifndef RPMAI_PEER_H
#define RPMAI_PEER_H

#include "public.h"
#include "rdma.h"
#include "stats.h"
#include "users.h"

struct conn_table;

/*
 * Any thread may read it: after rpma_peer_new only its credentials and its counts change.
 *
 * The program may call rpma_peer_delete before it deletes what it made from the peer. The protection domain
 * lives until the last object in it is deleted. The structure lives until the last endpoint is deleted as
 * well.
 */
struct rpma_peer {
	const struct rdma_api *rdma;
	struct ibv_pd *pd;
	const struct ibv_context
		*process;         /* the domain's context, which tells whose process it is: see inherited.h */
	uint32_t caps;            /* RPMA_CAP_* */
	uint32_t max_sge;         /* segments (SGEs) that one operation of the device can have */
	bool is_iwarp;            /* true if the destination of an RDMA READ needs the remote write right */
	struct conn_table *conns; /* the connections made from the peer */
	struct softrdma_credentials *credentials; /* NULL: the device uses its own */
	counter refused_connections;              /* requests that the program has refused */
	struct users pd_users; /* in the domain: regions, requests, connections, shared receive queues */
	atomic_uint refs;      /* references to the structure: one from the domain, one from each endpoint */
};

/* queries the device's capabilities and, unless max_sge is NULL, its most SGEs. RPMA_E_PROVIDER */
int rpmai_peer_query(const struct rdma_api *rdma, struct ibv_context *ctx, uint32_t *caps, uint32_t *max_sge);

/* rpma_peer_new, with the device's table already found */
int rpmai_peer_new(const struct rdma_api *rdma, struct ibv_context *ctx, struct rpma_peer **peer_ptr);

/*
 * Counts an object in the protection domain. The peer must not be deleted yet, unless the caller is itself
 * such an object.
 */
static inline void
rpmai_peer_use(struct rpma_peer *peer)
{
	users_add(&peer->pd_users);
}

/* uncounts a deleted object; after the last one, frees the rest of a deleted peer. RPMA_E_PROVIDER */
int rpmai_peer_unuse(struct rpma_peer *peer);

/* for endpoints: they need the structure, but no protection domain */
void rpmai_peer_get(struct rpma_peer *peer);
void rpmai_peer_put(struct rpma_peer *peer);

/* gives the peer's credentials, if any, to a new id */
void rpmai_peer_credentials_for(const struct rpma_peer *peer, struct rdma_cm_id *id);

#endif /* RPMAI_PEER_H */
