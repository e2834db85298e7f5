/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* objects.c -- scenarios without a connection: each call that makes an object */

#include "torture.h"

#define UNTOUCHED (-1234)

static bool
context_local(struct world *w)
{
	struct ibv_context *ctx;

	return world_context(w, true, &ctx);
}

static bool
context_remote(struct world *w)
{
	struct ibv_context *ctx;

	return world_context(w, false, &ctx);
}

static bool
odp_capable(struct world *w)
{
	struct ibv_context *ctx;
	int capable = UNTOUCHED;
	int ret;

	if (!world_context(w, true, &ctx))
		return false;
	ret = rpma_utils_ibv_context_is_odp_capable(ctx, &capable);
	return judge_output("rpma_utils_ibv_context_is_odp_capable", ret, capable == UNTOUCHED);
}

static bool
peer(struct world *w)
{
	return world_peer(w, &w->server);
}

static bool
peer_cfg(struct world *w)
{
	struct rpma_peer_cfg *out = SENTINEL, *cfg = NULL, *other = NULL;
	uint8_t desc[8];
	size_t size;
	bool ok;
	int ret = rpma_peer_cfg_new(&out);

	(void)w;
	if (!MAKES("rpma_peer_cfg_new", ret, out, cfg))
		return false;
	ok = judge("rpma_peer_cfg_get_descriptor_size", rpma_peer_cfg_get_descriptor_size(cfg, &size)) &&
		judge("rpma_peer_cfg_get_descriptor", rpma_peer_cfg_get_descriptor(cfg, desc));
	if (ok) {
		out = SENTINEL;
		ret = rpma_peer_cfg_from_descriptor(desc, size, &out);
		ok = MAKES("rpma_peer_cfg_from_descriptor", ret, out, other);
	}
	rpma_peer_cfg_delete(&other);
	rpma_peer_cfg_delete(&cfg);
	return ok;
}

static bool
conn_cfg(struct world *w)
{
	return world_cfg(w, &w->client);
}

static bool
memory(struct world *w)
{
	return world_peer(w, &w->server) && world_memory(w, &w->server, w->plan.detail) &&
		world_remote(&w->client, &w->server);
}

static bool
memory_twice(struct world *w)
{
	struct rpma_mr_local *out = SENTINEL, *second = NULL;
	int ret;

	if (!memory(w))
		return false;
	ret = rpma_mr_reg(w->server.peer, w->server.mem, w->plan.size, w->plan.detail, &out);
	if (!MAKES("rpma_mr_reg", ret, out, second))
		return false;
	return judge("rpma_mr_dereg", rpma_mr_dereg(&second));
}

static bool
srq(struct world *w)
{
	return world_peer(w, &w->server) && world_cfg(w, &w->server);
}

static bool
srq_default(struct world *w)
{
	struct rpma_srq *out = SENTINEL;
	int ret;

	if (!world_peer(w, &w->server))
		return false;
	ret = rpma_srq_new(w->server.peer, NULL, &out);
	return MAKES("rpma_srq_new", ret, out, w->server.srq);
}

static bool
listen_on(struct world *w)
{
	return world_peer(w, &w->server) && world_listen(w);
}

static bool
request(struct world *w)
{
	/* any port: no message is sent before rpma_conn_req_connect() */
	w->port[0] = '1';
	return world_peer(w, &w->client) && world_cfg(w, &w->client) && world_req_new(w, &w->client);
}

static bool
request_with_receive(struct world *w)
{
	return request(w) && world_memory(w, &w->client, RPMA_MR_USAGE_RECV) &&
		world_req_recv(w, &w->client, 1);
}

#define PERSISTENT \
	(RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT | \
		RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)

const struct torture_scenario object_scenarios[] = {
	{ "context-local", context_local, { 0 }, NULL },
	{ "context-local-ipv6", context_local, { .addr = "::1" }, NULL },
	{ "context-remote", context_remote, { 0 }, NULL },
	{ "context-auto-local", context_local, { .device = "auto" }, NULL },
	{ "context-auto-remote", context_remote, { .device = "auto" }, NULL },
	{ "context-odp", odp_capable, { 0 }, NULL },
	{ "peer", peer, { 0 }, NULL },
	{ "peer-cfg", peer_cfg, { 0 }, NULL },
	{ "conn-cfg", conn_cfg, { 0 }, NULL },
	{ "mr-read-source", memory, { .detail = RPMA_MR_USAGE_READ_SRC }, NULL },
	{ "mr-persistent-anonymous", memory, { .detail = PERSISTENT }, NULL },
	{ "mr-persistent-file", memory, { .memory = MEMORY_FILE, .detail = PERSISTENT }, NULL },
	{ "mr-persistent-memfd", memory, { .memory = MEMORY_MEMFD, .detail = PERSISTENT }, NULL },
	{ "mr-twice", memory_twice, { .memory = MEMORY_FILE, .detail = PERSISTENT }, NULL },
	{ "srq", srq, { .srq = true }, NULL },
	{ "srq-without-rcq", srq, { .srq_without_rcq = true }, NULL },
	{ "srq-default", srq_default, { 0 }, NULL },
	{ "ep", listen_on, { 0 }, NULL },
	{ "ep-ipv6", listen_on, { .addr = "::1" }, NULL },
	{ "ep-wildcard", listen_on, { .addr = "0.0.0.0" }, NULL },
	{ "req", request, { 0 }, NULL },
	{ "req-rcq", request, { .rcq = true }, NULL },
	{ "req-shared", request, { .rcq = true, .shared = true }, NULL },
	{ "req-receive", request_with_receive, { 0 }, NULL },
	{ "verbs-peer", peer, { .faulty_verbs = true }, NULL },
	{ "verbs-mr", memory, { .faulty_verbs = true, .memory = MEMORY_FILE, .detail = PERSISTENT }, NULL },
	{ "verbs-srq", srq, { .faulty_verbs = true, .srq = true }, NULL },
	{ "verbs-ep", listen_on, { .faulty_verbs = true }, NULL },
	{ "verbs-req-shared", request, { .faulty_verbs = true, .rcq = true, .shared = true }, NULL },
	{ "verbs-req-plain", request, { .faulty_verbs = true, .rcq = true, .read_flushes = true }, NULL },
	{ 0 },
};
