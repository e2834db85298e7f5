/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* role.h -- what most scenarios need: peers, connections, and checks of completions */

#ifndef CONF_ROLE_H
#define CONF_ROLE_H

#include "check.h"
#include "control.h"
#include "mem.h"
#include "wait.h"

/* the depth of all queues when a scenario does not care */
#define DEPTH 64

/* what a scenario wants of a connection; zero members mean the depth above (rcq: none) */
struct conn_opts {
	uint32_t cq;
	uint32_t rcq;
	uint32_t sq;
	uint32_t rq;
	uint32_t max_sge;     /* zero: the library's default, likewise of the next two */
	uint32_t inline_size; /* bytes */
	int connect_timeout;  /* ms */
	bool shared;
	struct rpma_srq *srq;
};

struct rpma_conn_cfg *cfg_new(const struct conn_opts *opts);

/* opens the role's peer from the address; nothing else is open yet */
void role_open(struct role *r);
/* a further peer (protection domain) on the same device */
struct rpma_peer *role_new_peer(struct role *r);
/* the target listens and sends the port, the initiator receives it */
void role_listen(struct role *r);

/* one more connection, up to the event ESTABLISHED; the other role calls its counterpart */
struct rpma_conn *conn_accept(struct role *r, const struct conn_opts *opts);
struct rpma_conn *conn_connect(struct role *r, const struct conn_opts *opts);
/*
 * The first half of conn_connect: the request is sent, no event has come yet. Skips the scenario if a
 * hardware device cannot do as much at once as opts ask for; req_accept does the same.
 */
struct rpma_conn *conn_request(struct role *r, const struct conn_opts *opts,
	const struct rpma_conn_private_data *pdata);
struct rpma_conn_req *req_next(struct role *r, const struct conn_opts *opts);
struct rpma_conn *req_accept(struct rpma_conn_req *req, const struct rpma_conn_private_data *pdata);

/* the next event must be this one */
#define expect_event(conn, event) expect_event_at(__FILE__, __LINE__, conn, event)
void expect_event_at(const char *file, int line, struct rpma_conn *conn, enum rpma_conn_event expected);
/* waits for the end of the connection: CLOSED or LOST */
void expect_end(struct rpma_conn *conn);

/* peer, endpoint and one connection, r->conn and r->cq, on both sides */
void role_connect(struct role *r, const struct conn_opts *opts);
/*
 * Ends r->conn in an orderly way, begun by the initiator, and deletes everything that role_connect made. Both
 * roles call it. All memory must be deregistered and all else deleted before.
 */
void role_close(struct role *r);
/* r->conn ends on both sides and is deleted; endpoint and peer stay */
void role_disconnect(struct role *r);
/* deletes what is open, without telling the other role */
void role_delete(struct role *r);

void conn_delete(struct rpma_conn **conn);
struct rpma_cq *conn_cq(struct rpma_conn *conn);
struct rpma_cq *conn_rcq(struct rpma_conn *conn);
uint32_t conn_qp_num(struct rpma_conn *conn);

/* contexts of operations: small numbers */
#define CTX(n) ((const void *)(uintptr_t)(n))

/* waits for the next completion */
#define next_wc(cq) next_wc_at(__FILE__, __LINE__, cq)
struct ibv_wc next_wc_at(const char *file, int line, struct rpma_cq *cq);
/* waits for it and checks its context and status (the rest of a failed completion is undefined) */
#define expect_wc(cq, ctx, status) expect_wc_at(__FILE__, __LINE__, cq, ctx, status)
struct ibv_wc expect_wc_at(const char *file, int line, struct rpma_cq *cq, uint64_t ctx,
	enum ibv_wc_status status);
#define expect_ok(cq, ctx) expect_wc(cq, ctx, IBV_WC_SUCCESS)
/* a local error; the software device gives exactly this one */
#define expect_local_error(r, ctx, exact) expect_local_error_at(__FILE__, __LINE__, r, ctx, exact)
void expect_local_error_at(const char *file, int line, struct role *r, uint64_t ctx,
	enum ibv_wc_status exact);
bool is_local_error(const struct role *r, enum ibv_wc_status status, enum ibv_wc_status exact);
/* a receive: success and its length */
#define expect_recv(cq, ctx, len) expect_recv_at(__FILE__, __LINE__, cq, ctx, len)
struct ibv_wc expect_recv_at(const char *file, int line, struct rpma_cq *cq, uint64_t ctx, size_t len);
/* checks that the queue has no completion now */
#define expect_none(cq) expect_none_at(__FILE__, __LINE__, cq)
void expect_none_at(const char *file, int line, struct rpma_cq *cq);

/*
 * declares to r->conn that the writes of its remote side reach persistent memory, which devices without FLUSH
 * need
 */
void declare_direct_write(struct role *r);
/* posts a flush and checks the call; skips the scenario if a hardware device cannot do it */
void post_flush(struct role *r, struct rpma_mr_remote *dst, size_t offset, size_t len,
	enum rpma_flush_type type, int flags, uint64_t ctx);
/* the same for a write and its flush, from and to the same offset */
void post_write_flush(struct role *r, struct rpma_mr_remote *dst, const struct mem *src, size_t offset,
	size_t len, enum rpma_flush_type type, int flags, uint64_t ctx);
bool wc_is_flush(const struct role *r, const struct ibv_wc *wc);
/* skips the scenario if the device lacks any of these capabilities, enum rpma_cap */
void need_caps(struct role *r, uint32_t caps);

#endif /* CONF_ROLE_H */
