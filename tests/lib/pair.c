/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* pair.c -- two connected peers in one process */

#include <string.h>

#include "pair.h"
#include "wait.h"

/* a port from the kernel is free, but not reserved: another process may bind it first */
#define LISTEN_ATTEMPTS 20

int
pair_listen(struct rpma_peer *peer, const char *addr, char port[NET_PORT_LEN], struct rpma_ep **ep)
{
	int ret = RPMA_E_PROVIDER;

	for (int i = 0; ret && i < LISTEN_ATTEMPTS; i++) {
		if (net_free_port(addr, port))
			return RPMA_E_PROVIDER;
		ret = rpma_ep_listen(peer, addr, port, ep);
	}
	return ret;
}

static int
open_peer(const char *addr, enum rpma_util_ibv_context_type type, struct rpma_peer **peer)
{
	struct ibv_context *ctx;
	int ret = rpma_utils_get_ibv_context(addr, type, &ctx);

	return ret ? ret : rpma_peer_new(ctx, peer);
}

static int
accept_client(struct pair *p, const struct rpma_conn_cfg *cfg)
{
	struct rpma_conn_req *req;
	int ret = wait_conn_req(p->ep, cfg, &req, WAIT_MS);

	return ret ? ret : rpma_conn_req_connect(&req, NULL, &p->server.conn);
}

static int
establish(struct pair_side *side)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	int ret = wait_event(side->conn, &event, WAIT_MS);

	if (ret)
		return ret;
	if (event != RPMA_CONN_ESTABLISHED)
		return RPMA_E_UNKNOWN;
	return rpma_conn_get_cq(side->conn, &side->cq);
}

static int
connect_client(struct pair *p, const char *addr, const struct rpma_conn_cfg *cfg)
{
	struct rpma_conn_req *req;
	int ret = rpma_conn_req_new(p->client.peer, addr, p->port, cfg, &req);

	return ret ? ret : rpma_conn_req_connect(&req, NULL, &p->client.conn);
}

int
pair_open(struct pair *p, const char *addr, const struct rpma_conn_cfg *client_cfg,
	const struct rpma_conn_cfg *server_cfg)
{
	int ret;

	memset(p, 0, sizeof(*p));
	ret = open_peer(addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &p->server.peer);
	if (!ret)
		ret = pair_listen(p->server.peer, addr, p->port, &p->ep);
	if (!ret)
		ret = open_peer(addr, RPMA_UTIL_IBV_CONTEXT_REMOTE, &p->client.peer);
	if (!ret)
		ret = connect_client(p, addr, client_cfg);
	if (!ret)
		ret = accept_client(p, server_cfg);
	if (!ret)
		ret = establish(&p->client);
	return ret ? ret : establish(&p->server);
}

/* RPMA_CONN_CLOSED (or LOST) ends a connection; earlier events do not matter here */
static void
await_end(struct pair_side *side)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	while (side->cq && event != RPMA_CONN_CLOSED && event != RPMA_CONN_LOST) {
		if (wait_event(side->conn, &event, WAIT_MS))
			return;
	}
}

void
pair_close(struct pair *p)
{
	if (p->client.cq)
		rpma_conn_disconnect(p->client.conn);
	await_end(&p->client);
	await_end(&p->server);
	rpma_conn_delete(&p->client.conn);
	rpma_conn_delete(&p->server.conn);
	rpma_ep_shutdown(&p->ep);
	rpma_peer_delete(&p->client.peer);
	rpma_peer_delete(&p->server.peer);
	memset(p, 0, sizeof(*p));
}
