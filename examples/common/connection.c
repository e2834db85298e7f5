/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <stdint.h>
#include <stdio.h>

#include "connection.h"

void
report(const char *call, int ret)
{
	fprintf(stderr, "%s failed: %s\n", call, rpma_err_2str(ret));
}

int
peer_new_by_addr(const char *addr, enum rpma_util_ibv_context_type type, struct rpma_peer **peer,
	const char **device)
{
	struct ibv_context *ibv_ctx;

	int ret = rpma_utils_get_ibv_context(addr, type, &ibv_ctx);
	if (ret) {
		fprintf(stderr, "no device for the address %s: %s\n", addr, rpma_err_2str(ret));
		return ret;
	}

	ret = rpma_peer_new(ibv_ctx, peer);
	if (ret)
		report("rpma_peer_new", ret);
	else if (device)
		*device = ibv_get_device_name(ibv_ctx->device);

	return ret;
}

static int
wait_event(struct rpma_conn *conn, enum rpma_conn_event expected)
{
	enum rpma_conn_event event;

	int ret = rpma_conn_next_event(conn, &event);
	if (ret) {
		report("rpma_conn_next_event", ret);
		return ret;
	}
	if (event != expected) {
		fprintf(stderr, "%s\n", rpma_utils_conn_event_2str(event));
		return RPMA_E_UNKNOWN;
	}

	return 0;
}

/* req is used up, whatever happens */
static int
establish(struct rpma_conn_req *req, const struct rpma_conn_private_data *pdata, struct rpma_conn **conn)
{
	int ret = rpma_conn_req_connect(&req, pdata, conn);
	if (ret) {
		report("rpma_conn_req_connect", ret);
		return ret;
	}

	ret = wait_event(*conn, RPMA_CONN_ESTABLISHED);
	if (ret)
		(void)rpma_conn_delete(conn);

	return ret;
}

int
client_connect(struct rpma_peer *peer, const char *addr, const char *port, struct rpma_conn **conn)
{
	struct rpma_conn_req *req = NULL;

	int ret = rpma_conn_req_new(peer, addr, port, NULL, &req);
	if (ret) {
		report("rpma_conn_req_new", ret);
		return ret;
	}

	return establish(req, NULL, conn);
}

int
server_accept(struct rpma_ep *ep, const struct rpma_conn_private_data *pdata, struct rpma_conn **conn)
{
	struct rpma_conn_req *req = NULL;

	int ret = rpma_ep_next_conn_req(ep, NULL, &req);
	if (ret) {
		report("rpma_ep_next_conn_req", ret);
		return ret;
	}

	return establish(req, pdata, conn);
}

int
conn_wait_closed(struct rpma_conn **conn)
{
	int ret = wait_event(*conn, RPMA_CONN_CLOSED);

	/* the other side is gone already, but our half is still to be closed */
	(void)rpma_conn_disconnect(*conn);
	int ret_delete = rpma_conn_delete(conn);
	if (ret_delete)
		report("rpma_conn_delete", ret_delete);

	return ret ? ret : ret_delete;
}

int
conn_disconnect(struct rpma_conn **conn)
{
	int ret = rpma_conn_disconnect(*conn);
	if (ret)
		report("rpma_conn_disconnect", ret);
	else
		ret = wait_event(*conn, RPMA_CONN_CLOSED);

	int ret_delete = rpma_conn_delete(conn);
	if (ret_delete)
		report("rpma_conn_delete", ret_delete);

	return ret ? ret : ret_delete;
}

int
conn_wait_completion(struct rpma_conn *conn, const void *op_context)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;

	int ret = rpma_conn_get_cq(conn, &cq);
	/* a wait may end without a completion to collect: it is no error, there is just nothing yet */
	while (ret == 0 && (ret = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
		ret = rpma_cq_wait(cq);
	if (ret) {
		report("waiting for a completion", ret);
		return ret;
	}

	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "the operation failed: %s\n", ibv_wc_status_str(wc.status));
		return RPMA_E_UNKNOWN;
	}
	if (wc.wr_id != (uintptr_t)op_context) {
		fprintf(stderr, "a completion that nobody asked for\n");
		return RPMA_E_UNKNOWN;
	}

	return 0;
}
