/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* connections.c -- scenarios that make and end connections */

#include "torture.h"

enum detail {
	BY_CLIENT,
	BY_SERVER,
};

static struct side *
who(struct world *w)
{
	return w->plan.detail == BY_CLIENT ? &w->client : &w->server;
}

static bool
connect(struct world *w)
{
	return world_pair(w, 0, 0) && world_disconnect(w, who(w));
}

/* deletes the connection without a disconnect: the other side must get the event of its end */
static bool
connect_and_delete(struct world *w)
{
	struct side *s = who(w);
	struct side *other = s == &w->client ? &w->server : &w->client;

	return world_pair(w, 0, 0) && judge("rpma_conn_delete", rpma_conn_delete(&s->conn)) &&
		world_event(w, other, RPMA_CONN_CLOSED);
}

static bool
ask(struct world *w)
{
	return world_peer(w, &w->server) && world_listen(w) && world_peer(w, &w->client) &&
		world_cfg(w, &w->client) && world_req_new(w, &w->client) && world_connect(w, &w->client);
}

static bool
reject(struct world *w)
{
	return ask(w) && world_next_req(w) &&
		judge("rpma_conn_req_delete", rpma_conn_req_delete(&w->server.req)) &&
		world_event(w, &w->client, RPMA_CONN_REJECTED);
}

/* world_close() deletes the objects while the request waits */
static bool
pending(struct world *w)
{
	return ask(w);
}

static bool
withdraw(struct world *w)
{
	return ask(w) && world_next_req(w) && judge("rpma_conn_delete", rpma_conn_delete(&w->client.conn)) &&
		world_connect(w, &w->server);
}

static bool
shutdown_endpoint(struct world *w)
{
	return ask(w) && world_next_req(w) && judge("rpma_ep_shutdown", rpma_ep_shutdown(&w->ep)) &&
		judge("rpma_conn_req_delete", rpma_conn_req_delete(&w->server.req)) &&
		world_event(w, &w->client, RPMA_CONN_REJECTED);
}

static bool
outlive_endpoint(struct world *w)
{
	return ask(w) && world_next_req(w) && judge("rpma_ep_shutdown", rpma_ep_shutdown(&w->ep)) &&
		world_connect(w, &w->server) && world_established(w) && world_disconnect(w, &w->client);
}

/* the port is one whose endpoint is deleted */
static bool
nobody_listens(struct world *w)
{
	return world_peer(w, &w->server) && world_listen(w) &&
		judge("rpma_ep_shutdown", rpma_ep_shutdown(&w->ep)) && world_peer(w, &w->client) &&
		world_req_new(w, &w->client) && world_connect(w, &w->client) &&
		world_event(w, &w->client, RPMA_CONN_REJECTED);
}

static void
forget(struct side *s)
{
	s->established = s->ended = false;
	s->cq = s->rcq = NULL;
}

static bool
again(struct world *w)
{
	if (!world_pair(w, 0, 0) || !world_disconnect(w, &w->client) ||
		!judge("rpma_conn_delete", rpma_conn_delete(&w->client.conn)) ||
		!judge("rpma_conn_delete", rpma_conn_delete(&w->server.conn)))
		return false;
	forget(&w->client);
	forget(&w->server);
	return world_req_new(w, &w->client) && world_connect(w, &w->client) && world_next_req(w) &&
		world_connect(w, &w->server) && world_established(w) && world_disconnect(w, &w->server);
}

const struct torture_scenario connection_scenarios[] = {
	{ "connect", connect, { 0 }, NULL },
	{ "connect-ipv6", connect, { .addr = "::1" }, NULL },
	{ "connect-private-data", connect, { .pdata = 255 }, NULL },
	{ "connect-rcq", connect, { .rcq = true }, NULL },
	{ "connect-shared", connect, { .rcq = true, .shared = true }, NULL },
	{ "connect-srq", connect, { .srq = true }, NULL },
	{ "connect-srq-without-rcq", connect, { .srq_without_rcq = true }, NULL },
	{ "disconnect-by-server", connect, { .detail = BY_SERVER }, NULL },
	{ "delete-by-client", connect_and_delete, { .detail = BY_CLIENT }, NULL },
	{ "delete-by-server", connect_and_delete, { .detail = BY_SERVER }, NULL },
	{ "connect-again", again, { 0 }, NULL },
	{ "reject", reject, { 0 }, NULL },
	{ "request-pending", pending, { 0 }, NULL },
	{ "request-withdrawn", withdraw, { 0 }, NULL },
	{ "ep-shutdown-before-reject", shutdown_endpoint, { 0 }, NULL },
	{ "ep-shutdown-before-accept", outlive_endpoint, { 0 }, NULL },
	{ "nobody-listens", nobody_listens, { 0 }, NULL },
	{ "verbs-connect", connect, { .faulty_verbs = true, .pdata = 56 }, NULL },
	{ "verbs-connect-shared", connect, { .faulty_verbs = true, .rcq = true, .shared = true }, NULL },
	{ "verbs-connect-srq", connect, { .faulty_verbs = true, .srq = true }, NULL },
	{ "verbs-connect-plain", connect, { .faulty_verbs = true, .read_flushes = true }, NULL },
	{ "verbs-reject", reject, { .faulty_verbs = true }, NULL },
	{ "verbs-delete-by-server", connect_and_delete, { .faulty_verbs = true, .detail = BY_SERVER }, NULL },
	{ 0 },
};
