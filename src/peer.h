/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* peer.h -- a device in use */

#ifndef RPMAI_PEER_H
#define RPMAI_PEER_H

#include "public.h"
#include "rdma.h"

/* what a device can do, as the library can use it */
enum {
	PEER_CAP_SOFT = 1 << 0,
	PEER_CAP_ODP = 1 << 1,          /* on-demand paging, for reads and for writes */
	PEER_CAP_NATIVE_FLUSH = 1 << 2, /* to visibility and to persistence */
	PEER_CAP_NATIVE_ATOMIC_WRITE = 1 << 3,
	PEER_CAP_ATOMICS = 1 << 4, /* compare-and-swap, fetch-and-add */
};

/* never changes after rpma_peer_new, so any thread may read it */
struct rpma_peer {
	const struct rdma_api *rdma;
	struct ibv_pd *pd;
	uint32_t caps; /* PEER_CAP_* */
	bool is_iwarp; /* an RDMA READ needs the right of a remote write on its destination */
};

/* asks the device. RPMA_E_PROVIDER */
int rpmai_peer_query_caps(const struct rdma_api *rdma, struct ibv_context *ctx, uint32_t *caps);

/* rpma_peer_new with the table already found */
int rpmai_peer_new(const struct rdma_api *rdma, struct ibv_context *ctx, struct rpma_peer **peer_ptr);

#endif /* RPMAI_PEER_H */
