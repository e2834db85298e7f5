/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conn_req.c -- a connection before it is established
 *
 * An outgoing request resolves address and route on a synchronous id. When the request is sent, the events of
 * the id move to a channel of their own.
 *
 * An incoming request starts from the id of the client's event, which moves at once: the endpoint with the
 * listening channel may be gone before the request is accepted, and later events of the client are not the
 * endpoint's. Its queues are made when they are first needed, to post a receive or to accept. Therefore a
 * client that only asks costs little. A client that has given up makes only its own acceptance fail.
 *
 * Either is a struct rpma_conn. It becomes the connection when the request is sent or accepted, or it is
 * deleted with the request.
 */

#include <errno.h>
#include <stdlib.h>

#include "conn_cfg.h"
#include "conn_req.h"
#include "conn_table.h"
#include "connect_timer.h"
#include "err.h"
#include "info.h"
#include "inherited.h"
#include "log.h"
#include "op.h"

/*
 * For a message that is not acknowledged. The maximum is 7, but SoftRoCE takes that to mean "for ever": then
 * the operations of a connection whose other side is gone would never complete.
 */
#define RETRY_COUNT 6
#define RNR_RETRY_COUNT 7 /* for a message that finds no receive posted: 7 means for ever */

/* ---- making ---- */

static int
wrap(struct rpma_conn *conn, const struct conn_params *params, bool is_passive,
	struct rpma_conn_req **req_ptr)
{
	struct rpma_conn_req *req = malloc(sizeof(*req));
	if (req == NULL)
		return RPMAI_FAIL_NOMEM();

	*req = (struct rpma_conn_req){ .conn = conn, .is_passive = is_passive, .params = *params };
	*req_ptr = req;
	return 0;
}

/* makes a synchronous id that is bound to a device and has its route */
static int
resolve(const struct rdma_api *rdma, const char *addr, const char *port, int timeout_ms,
	struct rdma_cm_id **id_ptr)
{
	struct rdma_addrinfo *rai;
	char reason[INFO_REASON_MAX];
	int ret;

	if (!rpmai_info_get(rdma, addr, port, INFO_ACTIVE, &rai, reason))
		return RPMAI_FAIL(RPMA_E_PROVIDER, "%s:%s: %s", addr, port, reason);

	struct rdma_cm_id *id;
	if (rdma->create_id(NULL, &id, NULL, RDMA_PS_TCP)) {
		/* message(endpoint-made) */
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "rdma_create_id()");
		goto err_freeaddrinfo;
	}
	if (rdma->resolve_addr(id, rai->ai_src_addr, rai->ai_dst_addr, timeout_ms)) {
		/*
		 * message(connect, no-way-to-server): a client finds no way to the server -> *Network is
		 * unreachable*: no route. Over hardware *Connection timed out*: the address is of no
		 * machine in this network.
		 */
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, rpmai_info_way_out(errno),
			"%s:%s: rdma_resolve_addr()", addr, port);
		goto err_destroy_id;
	}
	if (rdma->resolve_route(id, timeout_ms)) {
		/* message(no-way-to-server) */
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "%s:%s: rdma_resolve_route()", addr,
			port);
		goto err_destroy_id;
	}

	rdma->freeaddrinfo(rai);
	*id_ptr = id;
	return 0;

err_destroy_id:
	(void)rdma->destroy_id(id);
err_freeaddrinfo:
	rdma->freeaddrinfo(rai);
	return ret;
}

int
rpma_conn_req_new(struct rpma_peer *peer, const char *addr, const char *port, const struct rpma_conn_cfg *cfg,
	struct rpma_conn_req **req_ptr)
{
	if (peer == NULL || addr == NULL || port == NULL || req_ptr == NULL)
		return RPMAI_FAIL_NULL();
	if (rpmai_peer_is_inherited(peer))
		return rpmai_refuse_inherited();

	const struct rdma_api *rdma = peer->rdma;
	const struct conn_params params = rpmai_conn_cfg_params(cfg);
	struct rdma_cm_id *id = NULL;
	int ret = resolve(rdma, addr, port, params.timeout_ms, &id);
	if (ret)
		return ret;

	rpmai_peer_credentials_for(peer, id);
	struct rpma_conn *conn;
	ret = rpmai_conn_new(peer, id, &params, &conn);
	if (ret)
		goto err_destroy_id;

	ret = rpmai_conn_make_queues(conn, &params, false);
	if (ret)
		goto err_delete_conn;

	ret = wrap(conn, &params, false, req_ptr);
	if (ret)
		goto err_delete_conn;

	RPMAI_LOG(NOTICE, "requesting a connection to %s:%s (%s)", addr, port, rdma->name);
	return 0;

err_destroy_id:
	(void)rdma->destroy_id(id);
	return ret;
err_delete_conn:
	(void)rpma_conn_delete(&conn);
	return ret;
}

int
rpmai_conn_req_new_passive(struct rpma_peer *peer, struct rdma_cm_id *id,
	struct rpma_conn_private_data *pdata, const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req_ptr)
{
	const struct rdma_api *rdma = peer->rdma;
	const struct conn_params params = rpmai_conn_cfg_params(cfg);
	struct rpma_conn *conn;
	int ret = rpmai_conn_new(peer, id, &params, &conn);
	if (ret)
		goto err_destroy_id;

	ret = rpmai_conn_open_events(conn, params.connect_timeout_ms);
	if (ret)
		goto err_delete_conn;

	ret = wrap(conn, &params, true, req_ptr);
	if (ret)
		goto err_delete_conn;

	conn->private_data = *pdata;
	return 0;

err_destroy_id:
	(void)rpmai_private_data_reject(rdma, id, NULL);
	(void)rdma->destroy_id(id);
	rpmai_private_data_free(pdata);
	return ret;
err_delete_conn:
	(void)rpmai_private_data_reject(rdma, id, NULL);
	(void)rpma_conn_delete(&conn);
	rpmai_private_data_free(pdata);
	return ret;
}

/* makes the queues of an incoming request on first use */
static int
ensure_queues(struct rpma_conn_req *req)
{
	if (req->conn->cq)
		return 0;
	return rpmai_conn_make_queues(req->conn, &req->params, req->is_passive);
}

/* ---- its end: rejected or deleted, or turned into a connection ---- */

static int
check_private_data(const struct rpma_conn_private_data *pdata, uint8_t max, const char *with)
{
	if (pdata == NULL)
		return 0;
	/*
	 * message(connect, private-data): private data of rpma_conn_req_connect(3) or
	 * rpma_conn_req_reject(3) -> Send less, or send the rest as a message after the connection is
	 * established.
	 */
	if (pdata->ptr == NULL || pdata->len == 0)
		return RPMAI_FAIL(RPMA_E_INVAL,
			"private data without bytes: pass NULL instead of the structure");
	/* message(private-data) */
	if (pdata->len > max)
		return RPMAI_FAIL(RPMA_E_INVAL, "%u bytes of private data: at most %u can go with %s",
			pdata->len, max, with);
	return 0;
}

/* rejects an incoming request, and frees the request in any case */
static int
end(struct rpma_conn_req **req_ptr, const struct rpma_conn_private_data *reason)
{
	struct rpma_conn_req *req = *req_ptr;
	*req_ptr = NULL;
	if (rpmai_peer_is_inherited(req->conn->peer))
		return rpmai_bury_inherited(req);

	int ret = 0;
	struct rpma_conn *conn = req->conn;
	if (req->is_passive) {
		rpmai_stats_add(&conn->peer->refused_connections, 1);
		USDT(librpma, refuse, conn->qp_num);
		if (rpmai_private_data_reject(conn->peer->rdma, conn->id, reason)) {
			/* the kernel's connection manager says this when the client has given up */
			if (errno == EINVAL)
				RPMAI_LOG(NOTICE, "a client gave up before its request was rejected");
			else
				/* message(connection-begins) */
				ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "rdma_reject()");
		}
	}
	ret = rpmai_first_error(ret, rpma_conn_delete(&conn));
	free(req);
	return ret;
}

int
rpma_conn_req_delete(struct rpma_conn_req **req_ptr)
{
	if (req_ptr == NULL)
		return RPMAI_FAIL_NULL();

	return *req_ptr ? end(req_ptr, NULL) : 0;
}

int
rpma_conn_req_reject(struct rpma_conn_req **req_ptr, const struct rpma_conn_private_data *pdata)
{
	if (req_ptr == NULL || *req_ptr == NULL)
		return RPMAI_FAIL_NULL();

	int ret;
	if ((*req_ptr)->is_passive)
		ret = check_private_data(pdata, (*req_ptr)->conn->peer->rdma->reject_data_max, "a rejection");
	else
		/*
		 * message(connect): rpma_conn_req_reject(3) with a request of rpma_conn_req_new(3) -> Use
		 * rpma_conn_req_delete(3).
		 */
		ret = RPMAI_FAIL(RPMA_E_INVAL,
			"an outgoing request cannot be rejected: it is deleted instead");
	return rpmai_first_error(ret, end(req_ptr, ret ? NULL : pdata));
}

static int
connect_or_accept(struct rpma_conn_req *req, const struct rpma_conn_private_data *pdata, uint8_t max)
{
	struct rpma_conn *conn = req->conn;
	const struct rdma_api *rdma = conn->peer->rdma;
	uint8_t buf[UINT8_MAX];
	const struct rpma_conn_private_data data = rpmai_private_data_prepare(rdma, pdata, buf, max);
	struct rdma_conn_param param = {
		.private_data = data.ptr,
		.private_data_len = data.len,
		.responder_resources = RDMA_MAX_RESP_RES,
		.initiator_depth = RDMA_MAX_INIT_DEPTH,
		.flow_control = 1,
		.retry_count = RETRY_COUNT,
		.rnr_retry_count = RNR_RETRY_COUNT,
	};

	/* its completions may be there before this function returns */
	int ret = rpmai_conn_table_add(conn->peer->conns, conn);
	if (ret)
		return ret;
	if (conn->connect_timer) {
		ret = rpmai_connect_timer_start(conn->connect_timer);
		if (ret)
			return ret;
	}
	USDT(librpma, connect, conn->qp_num, req->is_passive);
	if (req->is_passive) {
		/* message(connection-begins) */
		if (rdma->accept(conn->id, &param))
			return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "rdma_accept()");
	} else {
		/* message(connection-begins) */
		if (rdma->connect(conn->id, &param))
			return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno,
				rpmai_info_way_out_of_start(rdma, errno), "rdma_connect()");
	}
	return 0;
}

int
rpma_conn_req_connect(struct rpma_conn_req **req_ptr, const struct rpma_conn_private_data *pdata,
	struct rpma_conn **conn_ptr)
{
	if (req_ptr == NULL || *req_ptr == NULL)
		return RPMAI_FAIL_NULL();

	struct rpma_conn_req *req = *req_ptr;
	int ret;

	if (rpmai_peer_is_inherited(req->conn->peer)) {
		*req_ptr = NULL;
		return rpmai_bury_inherited(req);
	}
	if (conn_ptr == NULL) {
		ret = RPMAI_FAIL_NULL();
		goto err_delete_req;
	}
	const struct rdma_api *rdma = req->conn->peer->rdma;
	const uint8_t max = req->is_passive ? rdma->accept_data_max : rdma->connect_data_max;
	ret = check_private_data(pdata, max, req->is_passive ? "an acceptance" : "a request");
	if (ret)
		goto err_delete_req;
	ret = ensure_queues(req);
	if (ret)
		goto err_delete_req;
	if (!req->is_passive) {
		ret = rpmai_conn_open_events(req->conn, req->params.connect_timeout_ms);
		if (ret)
			goto err_delete_req;
	}
	ret = connect_or_accept(req, pdata, max);
	if (ret)
		goto err_delete_conn;

	*conn_ptr = req->conn;
	*req_ptr = NULL;
	free(req);
	return 0;

err_delete_req:
	(void)rpma_conn_req_delete(req_ptr);
	return ret;
err_delete_conn:
	/* after a failed acceptance a rejection is impossible; destroying the id tells the client */
	(void)rpma_conn_delete(&req->conn);
	*req_ptr = NULL;
	free(req);
	return ret;
}

/* ---- use ---- */

int
rpma_conn_req_recv(struct rpma_conn_req *req, struct rpma_mr_local *dst, size_t offset, size_t len,
	const void *op_context)
{
	if (req == NULL || dst == NULL)
		return RPMAI_FAIL_NULL();

	if (rpmai_peer_is_inherited(req->conn->peer))
		return rpmai_refuse_inherited();
	int ret = ensure_queues(req);
	if (ret)
		return ret;
	return rpmai_op_recv(req->conn, dst, offset, len, op_context);
}

int
rpma_conn_req_get_private_data(const struct rpma_conn_req *req, struct rpma_conn_private_data *pdata)
{
	if (req == NULL || pdata == NULL)
		return RPMAI_FAIL_NULL();

	return rpma_conn_get_private_data(req->conn, pdata);
}
