/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* peer.c -- a device in use: protection domain and capabilities */

#include <errno.h>
#include <stdlib.h>

#include "err.h"
#include "log.h"
#include "peer.h"

int
rpmai_peer_query_caps(const struct rdma_api *rdma, struct ibv_context *ctx, uint32_t *caps_ptr)
{
	struct ibv_device_attr_ex attr = { 0 };
	int errnum = rdma->query_device_ex(ctx, NULL, &attr);
	if (errnum)
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL, "ibv_query_device_ex()");

	const uint64_t flush = RPMAI_CAP_FLUSH_GLOBAL | RPMAI_CAP_FLUSH_PERSISTENT;
	const uint32_t odp = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
	uint32_t caps = 0;

	if (rdma->is_soft)
		caps |= PEER_CAP_SOFT;
	if ((attr.odp_caps.general_caps & IBV_ODP_SUPPORT) &&
		(attr.odp_caps.per_transport_caps.rc_odp_caps & odp) == odp)
		caps |= PEER_CAP_ODP;
	if ((attr.device_cap_flags_ex & flush) == flush)
		caps |= PEER_CAP_NATIVE_FLUSH;
	if (attr.device_cap_flags_ex & RPMAI_CAP_ATOMIC_WRITE)
		caps |= PEER_CAP_NATIVE_ATOMIC_WRITE;
	if (attr.orig_attr.atomic_cap != IBV_ATOMIC_NONE)
		caps |= PEER_CAP_ATOMICS;

	*caps_ptr = caps;
	return 0;
}

int
rpmai_peer_new(const struct rdma_api *rdma, struct ibv_context *ctx, struct rpma_peer **peer_ptr)
{
	uint32_t caps;
	int ret = rpmai_peer_query_caps(rdma, ctx, &caps);
	if (ret)
		return ret;

	struct rpma_peer *peer = malloc(sizeof(*peer));
	if (peer == NULL)
		return RPMAI_FAIL_NOMEM();

	errno = 0;
	struct ibv_pd *pd = rdma->alloc_pd(ctx);
	if (pd == NULL) {
		if (errno == 0)
			ret = RPMAI_FAIL(RPMA_E_UNKNOWN, "ibv_alloc_pd() failed without a reason");
		else
			ret = RPMAI_FAIL_ERRNO(errno == ENOMEM ? RPMA_E_NOMEM : RPMA_E_PROVIDER, errno, NULL,
				"ibv_alloc_pd()");
		goto err_free;
	}

	*peer = (struct rpma_peer){
		.rdma = rdma,
		.pd = pd,
		.caps = caps,
		.is_iwarp = ctx->device->transport_type == IBV_TRANSPORT_IWARP,
	};
	*peer_ptr = peer;
	return 0;

err_free:
	free(peer);
	return ret;
}

int
rpma_peer_new(struct ibv_context *ibv_ctx, struct rpma_peer **peer_ptr)
{
	if (ibv_ctx == NULL || peer_ptr == NULL)
		return RPMAI_FAIL_NULL();

	return rpmai_peer_new(rpmai_rdma_api_of(ibv_ctx), ibv_ctx, peer_ptr);
}

int
rpma_peer_delete(struct rpma_peer **peer_ptr)
{
	if (peer_ptr == NULL)
		return RPMAI_FAIL_NULL();

	struct rpma_peer *peer = *peer_ptr;
	if (peer == NULL)
		return 0;
	*peer_ptr = NULL;

	int ret = 0;
	int errnum = peer->rdma->dealloc_pd(peer->pd);
	if (errnum)
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum,
			errnum == EBUSY ? "delete what was made from the peer first" : NULL,
			"ibv_dealloc_pd()");
	free(peer);
	return ret;
}
