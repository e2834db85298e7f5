/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* peer.c -- a peer: a device in use, with its protection domain and capabilities */

#include <errno.h>
#include <stdlib.h>

#include "conn_table.h"
#include "err.h"
#include "inherited.h"
#include "log.h"
#include "peer.h"

int
rpmai_peer_query(const struct rdma_api *rdma, struct ibv_context *ctx, uint32_t *caps_ptr, uint32_t *max_sge)
{
	struct ibv_device_attr_ex attr = { 0 };
	int errnum = rdma->query_device_ex(ctx, NULL, &attr);
	/*
	 * message(find): a device does not answer -> Look at the kernel's log (`dmesg`), and at
	 * `ibv_devinfo`.
	 */
	if (errnum)
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL, "ibv_query_device_ex()");

	const uint64_t flush = RPMAI_CAP_FLUSH_GLOBAL | RPMAI_CAP_FLUSH_PERSISTENT;
	const uint32_t odp = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
	uint32_t caps = 0;

	if (rdma->is_soft)
		caps |= RPMA_CAP_SOFT;
	if ((attr.odp_caps.general_caps & IBV_ODP_SUPPORT) &&
		(attr.odp_caps.per_transport_caps.rc_odp_caps & odp) == odp)
		caps |= RPMA_CAP_ODP;
	if ((attr.device_cap_flags_ex & flush) == flush)
		caps |= RPMA_CAP_NATIVE_FLUSH;
	if (attr.device_cap_flags_ex & RPMAI_CAP_ATOMIC_WRITE)
		caps |= RPMA_CAP_NATIVE_ATOMIC_WRITE;
	if (attr.orig_attr.atomic_cap != IBV_ATOMIC_NONE)
		caps |= RPMA_CAP_ATOMICS;

	*caps_ptr = caps;
	if (max_sge)
		*max_sge = attr.orig_attr.max_sge > 0 ? (uint32_t)attr.orig_attr.max_sge : 1;
	return 0;
}

int
rpmai_peer_new(const struct rdma_api *rdma, struct ibv_context *ctx, struct rpma_peer **peer_ptr)
{
	uint32_t caps, max_sge;
	int ret = rpmai_peer_query(rdma, ctx, &caps, &max_sge);
	if (ret)
		return ret;

	struct rpma_peer *peer = malloc(sizeof(*peer));
	if (peer == NULL)
		return RPMAI_FAIL_NOMEM();

	struct conn_table *conns;
	ret = rpmai_conn_table_new(&conns);
	if (ret)
		goto err_free;

	errno = 0;
	struct ibv_pd *pd = rdma->alloc_pd(ctx);
	if (pd == NULL) {
		/* message(system, domain): a peer is made or deleted -> The system's text says why. */
		if (errno == 0)
			ret = RPMAI_FAIL(RPMA_E_UNKNOWN, "ibv_alloc_pd() failed without a reason");
		else
			/* message(domain) */
			ret = RPMAI_FAIL_ERRNO(errno == ENOMEM ? RPMA_E_NOMEM : RPMA_E_PROVIDER, errno, NULL,
				"ibv_alloc_pd()");
		goto err_delete_table;
	}

	*peer = (struct rpma_peer){
		.rdma = rdma,
		.pd = pd,
		.process = rdma->is_inherited ? pd->context : ctx,
		.caps = caps,
		.max_sge = max_sge,
		.conns = conns,
		.is_iwarp = ctx->device->transport_type == IBV_TRANSPORT_IWARP,
	};
	users_init(&peer->pd_users);
	atomic_init(&peer->refs, 1);
	*peer_ptr = peer;
	return 0;

err_delete_table:
	rpmai_conn_table_delete(conns);
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

void
rpmai_peer_get(struct rpma_peer *peer)
{
	atomic_fetch_add(&peer->refs, 1);
}

void
rpmai_peer_put(struct rpma_peer *peer)
{
	if (atomic_fetch_sub(&peer->refs, 1) > 1)
		return;

	if (peer->credentials)
		peer->rdma->credentials_put(peer->credentials);
	rpmai_conn_table_delete(peer->conns);
	free(peer);
}

/* frees the protection domain of a deleted peer, in which nothing is left */
static int
end_domain(struct rpma_peer *peer)
{
	int ret = 0;
	int errnum = peer->rdma->dealloc_pd(peer->pd);
	/* message(domain) */
	if (errnum)
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL, "ibv_dealloc_pd()");
	rpmai_peer_put(peer);
	return ret;
}

int
rpmai_peer_unuse(struct rpma_peer *peer)
{
	return users_drop(&peer->pd_users) ? end_domain(peer) : 0;
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
	if (rpmai_peer_is_inherited(peer))
		return rpmai_bury_inherited(peer);

	/* message(arguments): rpma_peer_delete(3) too early -> Delete in the reverse order of making. */
	if (!users_close(&peer->pd_users))
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, EBUSY,
			"regions, requests, connections or shared receive queues of the peer are left: "
			"delete them before it; its protection domain now ends with the last of them",
			"the protection domain of the peer");
	return end_domain(peer);
}

int
rpma_peer_set_tls(struct rpma_peer *peer, const char *cert_file, const char *key_file, const char *ca_file)
{
	if (peer == NULL || cert_file == NULL || key_file == NULL || ca_file == NULL)
		return RPMAI_FAIL_NULL();
	if (rpmai_peer_is_inherited(peer))
		return rpmai_refuse_inherited();

	const struct rdma_api *rdma = peer->rdma;
	/*
	 * message(tls): rpma_peer_set_tls(3) with a peer on RDMA hardware -> Use IPsec, or a network of its
	 * own.
	 */
	if (rdma->credentials_load == NULL)
		return RPMAI_FAIL(RPMA_E_NOSUPP, "TLS is for the software device only");

	int errnum = rdma->credentials_load(cert_file, key_file, ca_file, &peer->credentials);
	switch (errnum) {
	case 0:
		return 0;
	case ENOMEM:
		return RPMAI_FAIL_NOMEM();
	case EOPNOTSUPP:
		/*
		 * message(tls, built-without-tls): TLS is configured, and the library cannot -> Install a
		 * build with TLS (`-DWITH_TLS=ON`, libssl-dev).
		 */
		return RPMAI_FAIL(RPMA_E_NOSUPP, "this library was built without TLS");
	default:
		/* message(tls): rpma_peer_set_tls(3) -> See that line. */
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum,
			"the previous line of the log names the file", "credentials for TLS");
	}
}

void
rpmai_peer_credentials_for(const struct rpma_peer *peer, struct rdma_cm_id *id)
{
	if (peer->credentials)
		peer->rdma->set_credentials(id, peer->credentials);
}

int
rpma_peer_get_caps(const struct rpma_peer *peer, uint32_t *caps)
{
	if (peer == NULL || caps == NULL)
		return RPMAI_FAIL_NULL();

	*caps = peer->caps;
	return 0;
}

int
rpma_peer_find_conn(struct rpma_peer *peer, uint32_t qp_num, struct rpma_conn **conn_ptr)
{
	if (peer == NULL || conn_ptr == NULL)
		return RPMAI_FAIL_NULL();
	if (rpmai_peer_is_inherited(peer))
		return rpmai_refuse_inherited();

	struct rpma_conn *conn = rpmai_conn_table_find(peer->conns, qp_num);
	/*
	 * message(post): rpma_peer_find_conn(3); not in the log -> A completion of a connection that is
	 * gone: ignore it.
	 */
	if (conn == NULL)
		return rpmai_refuse(RPMA_E_INVAL,
			"the peer has no connection with this queue pair number: it may have been deleted");

	*conn_ptr = conn;
	return 0;
}
