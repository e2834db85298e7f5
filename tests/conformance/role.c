/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* role.c -- what most scenarios need */

#include "pair.h"
#include "role.h"

/* opcodes from headers newer than rdma-core 44 */
#define WC_FLUSH 8

static uint32_t
or_depth(uint32_t value)
{
	return value ? value : DEPTH;
}

struct rpma_conn_cfg *
cfg_new(const struct conn_opts *opts)
{
	static const struct conn_opts none;
	struct rpma_conn_cfg *cfg = NULL;

	if (!opts)
		opts = &none;
	CHECK_OK(rpma_conn_cfg_new(&cfg));
	CHECK_OK(rpma_conn_cfg_set_cq_size(cfg, opts->cq ? opts->cq : 2 * DEPTH));
	CHECK_OK(rpma_conn_cfg_set_rcq_size(cfg, opts->rcq));
	CHECK_OK(rpma_conn_cfg_set_sq_size(cfg, or_depth(opts->sq)));
	CHECK_OK(rpma_conn_cfg_set_rq_size(cfg, or_depth(opts->rq)));
	if (opts->max_sge)
		CHECK_OK(rpma_conn_cfg_set_max_sge(cfg, opts->max_sge));
	if (opts->inline_size)
		CHECK_OK(rpma_conn_cfg_set_inline_size(cfg, opts->inline_size));
	if (opts->connect_timeout)
		CHECK_OK(rpma_conn_cfg_set_connect_timeout(cfg, opts->connect_timeout));
	CHECK_OK(rpma_conn_cfg_set_compl_channel(cfg, opts->shared));
	if (opts->srq)
		CHECK_OK(rpma_conn_cfg_set_srq(cfg, opts->srq));
	return cfg;
}

struct rpma_peer *
role_new_peer(struct role *r)
{
	enum rpma_util_ibv_context_type type =
		r->is_target ? RPMA_UTIL_IBV_CONTEXT_LOCAL : RPMA_UTIL_IBV_CONTEXT_REMOTE;
	struct ibv_context *ctx = NULL;
	struct rpma_peer *peer = NULL;

	CHECK_OK(rpma_utils_get_ibv_context(r->addr, type, &ctx));
	CHECK_OK(rpma_peer_new(ctx, &peer));
	return peer;
}

void
role_open(struct role *r)
{
	r->peer = role_new_peer(r);
}

void
role_listen(struct role *r)
{
	size_t len;

	if (r->is_target) {
		CHECK_OK(pair_listen(r->peer, r->addr, r->port, &r->ep));
		ctl_put(r, r->port);
		return;
	}
	len = ctl_recv(r, r->port, sizeof(r->port) - 1);
	r->port[len] = '\0';
}

/* hardware may have limits, which skip the scenario; the software device must do what was asked for */
static void
check_made(int ret)
{
	if (ret == RPMA_E_NOSUPP && !check_role()->soft)
		check_skip(check_role(), "not on this device: %s", rpma_errormsg());
	CHECK_OK(ret);
}

struct rpma_conn *
conn_request(struct role *r, const struct conn_opts *opts, const struct rpma_conn_private_data *pdata)
{
	struct rpma_conn_cfg *cfg = cfg_new(opts);
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;

	check_made(rpma_conn_req_new(r->peer, r->addr, r->port, cfg, &req));
	CHECK_OK(rpma_conn_cfg_delete(&cfg));
	CHECK_OK(rpma_conn_req_connect(&req, pdata, &conn));
	CHECK(req == NULL);
	return conn;
}

struct rpma_conn_req *
req_next(struct role *r, const struct conn_opts *opts)
{
	struct rpma_conn_cfg *cfg = cfg_new(opts);
	struct rpma_conn_req *req = NULL;

	CHECK_OK(wait_conn_req(r->ep, cfg, &req, WAIT_MS));
	CHECK_OK(rpma_conn_cfg_delete(&cfg));
	return req;
}

struct rpma_conn *
req_accept(struct rpma_conn_req *req, const struct rpma_conn_private_data *pdata)
{
	struct rpma_conn *conn = NULL;

	check_made(rpma_conn_req_connect(&req, pdata, &conn));
	CHECK(req == NULL);
	return conn;
}

struct rpma_conn *
conn_connect(struct role *r, const struct conn_opts *opts)
{
	struct rpma_conn *conn = conn_request(r, opts, NULL);

	expect_event(conn, RPMA_CONN_ESTABLISHED);
	return conn;
}

struct rpma_conn *
conn_accept(struct role *r, const struct conn_opts *opts)
{
	struct rpma_conn *conn = req_accept(req_next(r, opts), NULL);

	expect_event(conn, RPMA_CONN_ESTABLISHED);
	return conn;
}

void
expect_event_at(const char *file, int line, struct rpma_conn *conn, enum rpma_conn_event expected)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	int ret = wait_event(conn, &event, WAIT_MS);

	if (ret)
		check_failed(file, line, "no event: %s", rpma_err_2str(ret));
	if (event != expected)
		check_failed(file, line, "event \"%s\", not \"%s\"", rpma_utils_conn_event_2str(event),
			rpma_utils_conn_event_2str(expected));
}

void
expect_end(struct rpma_conn *conn)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	CHECK_OK(wait_event(conn, &event, WAIT_MS));
	if (event != RPMA_CONN_CLOSED && event != RPMA_CONN_LOST)
		check_failed(__FILE__, __LINE__, "event \"%s\" at the end of a connection",
			rpma_utils_conn_event_2str(event));
	/*
	 * librdmacm reports the end to the side that disconnects only after the other side has disconnected
	 * as well or has deleted its connection. The software device does not wait for that.
	 */
	if (!check_role()->soft)
		CHECK_OK(rpma_conn_disconnect(conn));
}

void
role_connect(struct role *r, const struct conn_opts *opts)
{
	role_open(r);
	role_listen(r);
	r->conn = r->is_target ? conn_accept(r, opts) : conn_connect(r, opts);
	r->cq = conn_cq(r->conn);
}

void
role_disconnect(struct role *r)
{
	ctl_sync(r);
	if (!r->is_target)
		CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	conn_delete(&r->conn);
	r->cq = NULL;
}

void
role_delete(struct role *r)
{
	if (r->conn)
		conn_delete(&r->conn);
	if (r->ep)
		CHECK_OK(rpma_ep_shutdown(&r->ep));
	if (r->peer)
		CHECK_OK(rpma_peer_delete(&r->peer));
}

void
role_close(struct role *r)
{
	role_disconnect(r);
	role_delete(r);
}

void
conn_delete(struct rpma_conn **conn)
{
	CHECK_OK(rpma_conn_delete(conn));
	CHECK(*conn == NULL);
}

struct rpma_cq *
conn_cq(struct rpma_conn *conn)
{
	struct rpma_cq *cq = NULL;

	CHECK_OK(rpma_conn_get_cq(conn, &cq));
	CHECK(cq != NULL);
	return cq;
}

struct rpma_cq *
conn_rcq(struct rpma_conn *conn)
{
	struct rpma_cq *rcq = NULL;

	CHECK_OK(rpma_conn_get_rcq(conn, &rcq));
	return rcq;
}

uint32_t
conn_qp_num(struct rpma_conn *conn)
{
	uint32_t qp_num = 0;

	CHECK_OK(rpma_conn_get_qp_num(conn, &qp_num));
	CHECK(qp_num != 0);
	return qp_num;
}

struct ibv_wc
next_wc_at(const char *file, int line, struct rpma_cq *cq)
{
	struct ibv_wc wc = { 0 };
	int ret = wait_wc(cq, &wc, WAIT_MS);

	if (ret)
		check_failed(file, line, "no completion: %s", rpma_err_2str(ret));
	return wc;
}

struct ibv_wc
expect_wc_at(const char *file, int line, struct rpma_cq *cq, uint64_t ctx, enum ibv_wc_status status)
{
	struct ibv_wc wc = next_wc_at(file, line, cq);

	if (wc.wr_id != ctx || wc.status != status)
		check_failed(file, line, "completion %" PRIu64 " \"%s\" (%d), not %" PRIu64 " \"%s\"",
			wc.wr_id, ibv_wc_status_str(wc.status), wc.status, ctx, ibv_wc_status_str(status));
	return wc;
}

bool
is_local_error(const struct role *r, enum ibv_wc_status status, enum ibv_wc_status exact)
{
	if (status == exact)
		return true;
	/*
	 * SoftRoCE has one status for all receives that it cannot fill. And where it cannot read what is to
	 * be sent, its change to the error state may come before the error.
	 */
	return !r->soft && (status == IBV_WC_LOC_QP_OP_ERR || status == IBV_WC_WR_FLUSH_ERR);
}

void
expect_local_error_at(const char *file, int line, struct role *r, uint64_t ctx, enum ibv_wc_status exact)
{
	struct ibv_wc wc = next_wc_at(file, line, r->cq);

	if (wc.wr_id != ctx || !is_local_error(r, wc.status, exact))
		check_failed(file, line, "completion %" PRIu64 " \"%s\" (%d), not %" PRIu64 " \"%s\"",
			wc.wr_id, ibv_wc_status_str(wc.status), wc.status, ctx, ibv_wc_status_str(exact));
}

struct ibv_wc
expect_recv_at(const char *file, int line, struct rpma_cq *cq, uint64_t ctx, size_t len)
{
	struct ibv_wc wc = expect_wc_at(file, line, cq, ctx, IBV_WC_SUCCESS);

	check_eq(file, line, "received bytes", wc.byte_len, (intmax_t)len);
	if (!(wc.opcode & IBV_WC_RECV))
		check_failed(file, line, "opcode %d of a receive", wc.opcode);
	return wc;
}

void
expect_none_at(const char *file, int line, struct rpma_cq *cq)
{
	struct ibv_wc wc;
	int ret = rpma_cq_get_wc(cq, 1, &wc, NULL);

	if (!ret)
		check_failed(file, line, "a completion too many: %" PRIu64 " \"%s\"", wc.wr_id,
			ibv_wc_status_str(wc.status));
	check_ret(file, line, "rpma_cq_get_wc()", ret, RPMA_E_NO_COMPLETION);
}

void
declare_direct_write(struct role *r)
{
	struct rpma_peer_cfg *pcfg = NULL;

	CHECK_OK(rpma_peer_cfg_new(&pcfg));
	CHECK_OK(rpma_peer_cfg_set_direct_write_to_pmem(pcfg, true));
	CHECK_OK(rpma_conn_apply_remote_peer_cfg(r->conn, pcfg));
	CHECK_OK(rpma_peer_cfg_delete(&pcfg));
}

void
post_flush(struct role *r, struct rpma_mr_remote *dst, size_t offset, size_t len, enum rpma_flush_type type,
	int flags, uint64_t ctx)
{
	int ret = rpma_flush(r->conn, dst, offset, len, type, flags, CTX(ctx));

	if (ret == RPMA_E_NOSUPP && !r->soft)
		check_skip(r, "no such flush on this device");
	CHECK_OK(ret);
}

bool
wc_is_flush(const struct role *r, const struct ibv_wc *wc)
{
	if ((int)wc->opcode == WC_FLUSH)
		return true;
	/* without a native flush it is done by reading */
	return !r->soft && wc->opcode == IBV_WC_RDMA_READ;
}

void
post_write_flush(struct role *r, struct rpma_mr_remote *dst, const struct mem *src, size_t offset, size_t len,
	enum rpma_flush_type type, int flags, uint64_t ctx)
{
	int ret = rpma_write_flush(r->conn, dst, offset, src->mr, offset, len, type, flags, CTX(ctx));

	if (ret == RPMA_E_NOSUPP && !r->soft)
		check_skip(r, "no such flush on this device");
	CHECK_OK(ret);
}

void
need_caps(struct role *r, uint32_t caps)
{
	uint32_t has = 0;

	CHECK_OK(rpma_peer_get_caps(r->peer, &has));
	if ((has & caps) == caps)
		return;
	CHECK(!r->soft);
	check_skip(r, "the device lacks capabilities 0x%x", (unsigned)(caps & ~has));
}
