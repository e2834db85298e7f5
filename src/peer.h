/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* peer.h -- a device in use */

#ifndef RPMAI_PEER_H
#define RPMAI_PEER_H

#include "public.h"
#include "rdma.h"

struct conn_table;

/* never changes after rpma_peer_new, but for its credentials, so any thread may read it */
struct rpma_peer {
	const struct rdma_api *rdma;
	struct ibv_pd *pd;
	uint32_t caps;            /* RPMA_CAP_* */
	uint32_t max_sge;         /* pieces that an operation of the device can have */
	bool is_iwarp;            /* an RDMA READ needs the right of a remote write on its destination */
	struct conn_table *conns; /* made from it */
	struct softrdma_credentials *credentials; /* NULL: the device decides */
};

/* asks the device for its capabilities and (unless NULL) its most pieces. RPMA_E_PROVIDER */
int rpmai_peer_query(const struct rdma_api *rdma, struct ibv_context *ctx, uint32_t *caps, uint32_t *max_sge);

/* rpma_peer_new with the table already found */
int rpmai_peer_new(const struct rdma_api *rdma, struct ibv_context *ctx, struct rpma_peer **peer_ptr);

/* what the peer was given is for this new id */
void rpmai_peer_credentials_for(const struct rpma_peer *peer, struct rdma_cm_id *id);

#endif /* RPMAI_PEER_H */
