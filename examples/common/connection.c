/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connection.h"

/*
 * The library's sentence about the last failure of this thread, if ret came from that failure. Some calls
 * that the examples check are not calls of librpma, and an empty queue is not a failure. The original
 * library, with which most of the examples can be built as well, has only the code.
 */
static const char *
sentence(const char *call, int ret)
{
#ifdef RPMA_F_MORE /* came together with rpma_errormsg */
	if (strncmp(call, "rpma_", 5) == 0 && ret != RPMA_E_NO_COMPLETION && ret != RPMA_E_NO_EVENT)
		return rpma_errormsg();
#endif
	(void)call;
	(void)ret;

	return NULL;
}

void
report(const char *call, int ret)
{
	const char *why = sentence(call, ret);

	fprintf(stderr, "%s failed: %s%s%s\n", call, rpma_err_2str(ret), why ? ": " : "", why ? why : "");
}

int
checked(const char *call, int ret)
{
	if (ret)
		report(call, ret);

	return ret;
}

int
first_error(int earlier, int later)
{
	return earlier ? earlier : later;
}

void
show_log(void)
{
	(void)rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_INFO);
	(void)rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_INFO);
}

int
peer_new_by_addr(const char *addr, enum rpma_util_ibv_context_type type, struct rpma_peer **peer,
	const char **device)
{
	struct ibv_context *ibv_ctx;

	int ret = checked("rpma_utils_get_ibv_context", rpma_utils_get_ibv_context(addr, type, &ibv_ctx));
	if (ret)
		return ret;

	ret = checked("rpma_peer_new", rpma_peer_new(ibv_ctx, peer));
	if (ret == 0 && device)
		*device = ibv_get_device_name(ibv_ctx->device);

	return ret;
}

void *
memory_new(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t whole = (size + page - 1) / page * page;

	void *ptr = aligned_alloc(page, whole);
	if (ptr == NULL)
		perror("aligned_alloc");
	else
		memset(ptr, 0, whole);

	return ptr;
}

static int
wait_event(struct rpma_conn *conn, enum rpma_conn_event expected)
{
	enum rpma_conn_event event;

	int ret = checked("rpma_conn_next_event", rpma_conn_next_event(conn, &event));
	if (ret)
		return ret;
	if (event != expected) {
		fprintf(stderr, "%s\n", rpma_utils_conn_event_2str(event));
		return RPMA_E_UNKNOWN;
	}

	return 0;
}

int
conn_establish(struct rpma_conn_req **req, const struct rpma_conn_private_data *pdata,
	struct rpma_conn **conn)
{
	int ret = checked("rpma_conn_req_connect", rpma_conn_req_connect(req, pdata, conn));
	if (ret)
		return ret;

	ret = wait_event(*conn, RPMA_CONN_ESTABLISHED);
	if (ret)
		(void)rpma_conn_delete(conn);

	return ret;
}

int
client_connect(struct rpma_peer *peer, const char *addr, const char *port, const struct rpma_conn_cfg *cfg,
	const struct rpma_conn_private_data *pdata, struct rpma_conn **conn)
{
	struct rpma_conn_req *req = NULL;

	int ret = checked("rpma_conn_req_new", rpma_conn_req_new(peer, addr, port, cfg, &req));

	return ret ? ret : conn_establish(&req, pdata, conn);
}

int
server_accept(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, const struct rpma_conn_private_data *pdata,
	struct rpma_conn **conn)
{
	struct rpma_conn_req *req = NULL;

	int ret = checked("rpma_ep_next_conn_req", rpma_ep_next_conn_req(ep, cfg, &req));

	return ret ? ret : conn_establish(&req, pdata, conn);
}

int
conn_wait_closed(struct rpma_conn **conn)
{
	int ret = wait_event(*conn, RPMA_CONN_CLOSED);

	/* the other side has disconnected, but on hardware it waits until this side does so too */
	(void)rpma_conn_disconnect(*conn);

	return first_error(ret, checked("rpma_conn_delete", rpma_conn_delete(conn)));
}

int
conn_disconnect(struct rpma_conn **conn)
{
	int ret = checked("rpma_conn_disconnect", rpma_conn_disconnect(*conn));
	if (ret == 0)
		ret = wait_event(*conn, RPMA_CONN_CLOSED);

	return first_error(ret, checked("rpma_conn_delete", rpma_conn_delete(conn)));
}

int
wc_checked(const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		return 0;

	fprintf(stderr, "an operation failed: %s\n", ibv_wc_status_str(wc->status));
	return RPMA_E_UNKNOWN;
}

int
cq_next(struct rpma_cq *cq, struct ibv_wc *wc)
{
	int ret;

	/* a wait may end without a completion to collect: that is no error, so wait again */
	while ((ret = rpma_cq_get_wc(cq, 1, wc, NULL)) == RPMA_E_NO_COMPLETION) {
		ret = rpma_cq_wait(cq);
		if (ret)
			break;
	}

	return ret ? checked("waiting for a completion", ret) : wc_checked(wc);
}

int
conn_next_completion(struct rpma_conn *conn, struct ibv_wc *wc)
{
	struct rpma_cq *cq;

	int ret = checked("rpma_conn_get_cq", rpma_conn_get_cq(conn, &cq));

	return ret ? ret : cq_next(cq, wc);
}

int
conn_wait_completion(struct rpma_conn *conn, const void *op_context)
{
	struct ibv_wc wc;

	int ret = conn_next_completion(conn, &wc);
	if (ret == 0 && wc.wr_id != (uintptr_t)op_context) {
		fprintf(stderr, "a completion that nobody asked for\n");
		ret = RPMA_E_UNKNOWN;
	}

	return ret;
}
