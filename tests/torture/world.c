/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* world.c -- the steps that scenarios are made of */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault.h"
#include "pattern.h"
#include "torture.h"

/* after this many ms without an event the product's clock jumps ahead, by SKIP_MS each time */
#define PATIENCE_MS 200
#define SKIP_MS 5000
/* ms of a whole wait; with the jumps longer than the longest deadline of the device, a minute */
#define PATIENCE_IN_ALL_MS 8000
/* ms until a side gives up if the other one may be silent; an early end is harmless there */
#define PATIENCE_IN_SILENCE_MS 30

#define DEPTH 16
#define DESCRIPTOR_MAX 64

char sentinel_object;

bool
judge(const char *function, int ret)
{
	if (ret == 0)
		return true;
	if (!documented(function, ret))
		wrong("%s() returns %d (%s), which the header does not say", function, ret,
			rpma_err_2str(ret));
	/* all arguments are valid */
	if (ret == RPMA_E_INVAL)
		wrong("%s() says that an argument is wrong", function);
	if (!fault_used())
		wrong("%s() fails without a fault: %s", function, rpma_err_2str(ret));
	return false;
}

bool
judge_output(const char *function, int ret, bool untouched)
{
	if (ret && !untouched)
		wrong("%s() fails (%s) and has touched its output", function, rpma_err_2str(ret));
	if (!ret && untouched)
		wrong("%s() succeeds without an output", function);
	return judge(function, ret);
}

/* ---- waiting ---- */

static int patience_ms = PATIENCE_MS;

int
world_wait_any(const int *fds, int count, int skips_max)
{
	struct pollfd pfd[4];

	for (int i = 0; i < count; i++)
		pfd[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	for (int skips = 0; skips < skips_max; skips++) {
		if (poll(pfd, (nfds_t)count, patience_ms) > 0) {
			for (int i = 0; i < count; i++) {
				if (pfd[i].revents)
					return i;
			}
		}
		/* without a fault every peer responds, so no deadline need pass */
		if (fault_used())
			fault_skip_time(SKIP_MS);
	}
	return -1;
}

static int
wait_any(const int *fds, int count)
{
	return world_wait_any(fds, count, PATIENCE_IN_ALL_MS / patience_ms);
}

void
world_wait(int fd, const char *what)
{
	if (wait_any(&fd, 1) < 0)
		wrong("%s does not come", what);
}

int
world_event_fd(const struct side *s)
{
	int fd = -1;

	if (s->conn && !s->ended && !judge("rpma_conn_get_event_fd", rpma_conn_get_event_fd(s->conn, &fd)))
		wrong("a connection has no descriptor");
	return fd;
}

/* ---- a world ---- */

static void
side_open(struct side *s)
{
	memset(s, 0, sizeof(*s));
	s->fd = -1;
}

void
world_open(struct world *w, const struct plan *plan, const char *dir)
{
	memset(w, 0, sizeof(*w));
	w->plan = *plan;
	w->dir = dir;
	if (!w->plan.addr)
		w->plan.addr = "127.0.0.1";
	if (!w->plan.size)
		w->plan.size = 64;
	patience_ms = w->plan.silence ? PATIENCE_IN_SILENCE_MS : PATIENCE_MS;
	w->domains = w->plan.faulty_verbs ? FAULT_VERBS : FAULT_SYSTEM;
	setenv("RPMA_DEVICE", w->plan.device ? w->plan.device : "soft", 1);
	side_open(&w->server);
	side_open(&w->client);
}

/* A delete always consumes its object. It may fail only if a verb of the device has failed. */
static void
deleted(const struct world *w, const char *function, int ret, bool consumed)
{
	if (!consumed)
		wrong("%s() leaves the pointer as it was", function);
	if (ret && !(w->domains & FAULT_VERBS))
		wrong("%s() fails: %s", function, rpma_err_2str(ret));
	(void)judge(function, ret);
}

static void
delete_conn(const struct world *w, struct side *s)
{
	int ret = rpma_conn_req_delete(&s->req);

	deleted(w, "rpma_conn_req_delete", ret, s->req == NULL);
	ret = rpma_conn_delete(&s->conn);
	deleted(w, "rpma_conn_delete", ret, s->conn == NULL);
}

static void
unlink_file(struct side *s)
{
	if (s->path)
		unlink(s->path);
	free(s->path);
	s->path = NULL;
}

static void
delete_side(const struct world *w, struct side *s)
{
	int ret = rpma_mr_remote_delete(&s->remote);

	deleted(w, "rpma_mr_remote_delete", ret, s->remote == NULL);
	ret = rpma_mr_dereg(&s->mr);
	deleted(w, "rpma_mr_dereg", ret, s->mr == NULL);
	ret = rpma_srq_delete(&s->srq);
	deleted(w, "rpma_srq_delete", ret, s->srq == NULL);
	ret = rpma_conn_cfg_delete(&s->cfg);
	deleted(w, "rpma_conn_cfg_delete", ret, s->cfg == NULL);
	ret = rpma_peer_delete(&s->peer);
	deleted(w, "rpma_peer_delete", ret, s->peer == NULL);
	if (s->mem)
		munmap(s->mem, w->plan.size);
	if (s->fd >= 0)
		close(s->fd);
	unlink_file(s);
}

void
world_take_event(struct side *s)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	int ret = rpma_conn_next_event(s->conn, &event);

	if (ret && event != RPMA_CONN_UNDEFINED)
		wrong("rpma_conn_next_event() fails and has touched its output");
	if (ret && !judge("rpma_conn_next_event", ret) && ret != RPMA_E_NO_EVENT)
		s->ended = true; /* the error is the report of the end */
	if (ret == 0 && event == RPMA_CONN_ESTABLISHED)
		s->established = true;
	else if (ret == 0)
		s->ended = true;
}

/*
 * The device waits for a silent peer, because it may be alive; a program may disconnect at any time. While the
 * connection is being made, the device has deadlines.
 */
static bool
may_give_up(const struct world *w, const struct side *s)
{
	return w->plan.silence && s->established && !s->gave_up;
}

/* not before the fault has happened: until then the peer is only slow */
static void
give_up(const struct world *w, struct side *s)
{
	if (!may_give_up(w, s) || !fault_used())
		return;
	s->gave_up = true;
	judge("rpma_conn_disconnect", rpma_conn_disconnect(s->conn));
}

static void
await_event(const struct world *w, struct side *s, const char *what)
{
	int fd = world_event_fd(s);

	while (may_give_up(w, s) && world_wait_any(&fd, 1, 1) < 0)
		give_up(w, s);
	world_wait(fd, what);
}

/* the other side is deleted, so the event of the end must come */
static void
await_end(const struct world *w, struct side *s)
{
	while (s->conn && !s->ended) {
		await_event(w, s, "the event of a connection's end");
		world_take_event(s);
	}
}

void
world_close(struct world *w)
{
	int ret;

	delete_conn(w, &w->server);
	ret = rpma_ep_shutdown(&w->ep);
	deleted(w, "rpma_ep_shutdown", ret, w->ep == NULL);
	await_end(w, &w->client);
	delete_conn(w, &w->client);
	delete_side(w, &w->server);
	delete_side(w, &w->client);
}

/* ---- objects ---- */

bool
world_context(struct world *w, bool is_server, struct ibv_context **ctx)
{
	struct ibv_context *out = SENTINEL;
	int ret = rpma_utils_get_ibv_context(w->plan.addr,
		is_server ? RPMA_UTIL_IBV_CONTEXT_LOCAL : RPMA_UTIL_IBV_CONTEXT_REMOTE, &out);

	return MAKES("rpma_utils_get_ibv_context", ret, out, *ctx);
}

bool
world_peer(struct world *w, struct side *s)
{
	struct rpma_peer *out = SENTINEL;
	struct ibv_context *ctx;
	int ret;

	if (!world_context(w, s == &w->server, &ctx))
		return false;
	ret = w->plan.faulty_verbs ? faulty_peer_new(ctx, w->plan.read_flushes, &out)
				   : rpma_peer_new(ctx, &out);
	return MAKES("rpma_peer_new", ret, out, s->peer);
}

static bool
make_srq(struct world *w, struct side *s)
{
	struct rpma_srq_cfg *cfg = SENTINEL;
	struct rpma_srq_cfg *kept = NULL;
	struct rpma_srq *out = SENTINEL;
	int ret = rpma_srq_cfg_new(&cfg);

	if (!MAKES("rpma_srq_cfg_new", ret, cfg, kept))
		return false;
	rpma_srq_cfg_set_rq_size(kept, DEPTH);
	rpma_srq_cfg_set_rcq_size(kept, w->plan.srq_without_rcq ? 0 : DEPTH);
	ret = rpma_srq_new(s->peer, kept, &out);
	rpma_srq_cfg_delete(&kept);
	return MAKES("rpma_srq_new", ret, out, s->srq);
}

bool
world_cfg(struct world *w, struct side *s)
{
	struct rpma_conn_cfg *out = SENTINEL;
	int ret;

	if ((w->plan.srq || w->plan.srq_without_rcq) && s == &w->server && !make_srq(w, s))
		return false;
	ret = rpma_conn_cfg_new(&out);
	if (!MAKES("rpma_conn_cfg_new", ret, out, s->cfg))
		return false;
	rpma_conn_cfg_set_cq_size(s->cfg, 2 * DEPTH);
	rpma_conn_cfg_set_sq_size(s->cfg, DEPTH);
	rpma_conn_cfg_set_rq_size(s->cfg, DEPTH);
	rpma_conn_cfg_set_rcq_size(s->cfg, w->plan.rcq ? DEPTH : 0);
	rpma_conn_cfg_set_compl_channel(s->cfg, w->plan.shared);
	if (w->plan.max_sge && s == &w->client)
		rpma_conn_cfg_set_max_sge(s->cfg, w->plan.max_sge);
	if (w->plan.inline_size && s == &w->client)
		rpma_conn_cfg_set_inline_size(s->cfg, w->plan.inline_size);
	if (w->plan.connect_timeout)
		rpma_conn_cfg_set_connect_timeout(s->cfg, w->plan.connect_timeout);
	if (s->srq)
		rpma_conn_cfg_set_srq(s->cfg, s->srq);
	return true;
}

static int
memory_file(const struct world *w, struct side *s)
{
	char path[4096];
	int fd;

	if (w->plan.memory == MEMORY_MEMFD)
		return memfd_create("torture", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "%s/torture-XXXXXX", w->dir);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		s->path = strdup(path);
	return fd;
}

bool
world_memory(struct world *w, struct side *s, int usage)
{
	struct rpma_mr_local *out = SENTINEL;
	bool has_file = s == &w->server && w->plan.memory != MEMORY_ANONYMOUS;
	int ret;

	if (has_file) {
		s->fd = memory_file(w, s);
		if (s->fd < 0 || ftruncate(s->fd, (off_t)w->plan.size))
			wrong("cannot make a file in %s: %s", w->dir, strerror(errno));
	}
	s->mem = mmap(NULL, w->plan.size, PROT_READ | PROT_WRITE,
		has_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, s->fd, 0);
	if (s->mem == MAP_FAILED)
		wrong("cannot map memory: %s", strerror(errno));
	ret = rpma_mr_reg(s->peer, s->mem, w->plan.size, usage, &out);
	return MAKES("rpma_mr_reg", ret, out, s->mr);
}

bool
world_remote(struct side *of, const struct side *from)
{
	struct rpma_mr_remote *out = SENTINEL;
	uint8_t desc[DESCRIPTOR_MAX];
	size_t size = 0;
	int ret;

	if (!judge("rpma_mr_get_descriptor_size", rpma_mr_get_descriptor_size(from->mr, &size)) ||
		!judge("rpma_mr_get_descriptor", rpma_mr_get_descriptor(from->mr, desc)))
		return false;
	ret = rpma_mr_remote_from_descriptor(desc, size, &out);
	return MAKES("rpma_mr_remote_from_descriptor", ret, out, of->remote);
}

/* ---- connections ---- */

bool
world_listen(struct world *w)
{
	struct rpma_ep *out = SENTINEL;
	int ret;

	/* a port from the kernel is not reserved: another process may take it first */
	for (int attempt = 0; attempt < 20; attempt++) {
		if (net_free_port(w->plan.addr, w->port))
			wrong("no free port: %s", strerror(errno));
		ret = rpma_ep_listen(w->server.peer, w->plan.addr, w->port, &out);
		if (ret == 0 || fault_used())
			break;
	}
	return MAKES("rpma_ep_listen", ret, out, w->ep);
}

bool
world_req_new(struct world *w, struct side *s)
{
	struct rpma_conn_req *out = SENTINEL;
	int ret = rpma_conn_req_new(s->peer, w->plan.addr, w->port, s->cfg, &out);

	return MAKES("rpma_conn_req_new", ret, out, s->req);
}

bool
world_req_recv(struct world *w, struct side *s, uint64_t ctx)
{
	const void *op_context = (const void *)(uintptr_t)ctx;

	if (s->srq)
		return judge("rpma_srq_recv", rpma_srq_recv(s->srq, s->mr, 0, w->plan.size, op_context));
	return judge("rpma_conn_req_recv", rpma_conn_req_recv(s->req, s->mr, 0, w->plan.size, op_context));
}

bool
world_connect(struct world *w, struct side *s)
{
	uint8_t bytes[UINT8_MAX];
	struct rpma_conn_private_data pdata = { .ptr = bytes, .len = w->plan.pdata };
	struct rpma_conn *out = SENTINEL;
	int ret;

	pattern_fill(bytes, sizeof(bytes), 1, 0);
	ret = rpma_conn_req_connect(&s->req, pdata.len ? &pdata : NULL, &out);
	if (s->req)
		wrong("rpma_conn_req_connect() has not consumed the request");
	if (!MAKES("rpma_conn_req_connect", ret, out, s->conn))
		return false;
	return judge("rpma_conn_get_cq", rpma_conn_get_cq(s->conn, &s->cq)) &&
		judge("rpma_conn_get_rcq", rpma_conn_get_rcq(s->conn, &s->rcq));
}

bool
world_next_req(struct world *w)
{
	struct rpma_conn_req *out = SENTINEL;
	int ret;
	int fds[2];

	if (!judge("rpma_ep_get_fd", rpma_ep_get_fd(w->ep, &fds[0])))
		return false;
	do {
		fds[1] = world_event_fd(&w->client);
		switch (wait_any(fds, 2)) {
		case 0:
			break;
		case 1:
			/* the request has failed */
			if (world_event(w, &w->client, RPMA_CONN_ESTABLISHED))
				wrong("a connection is established that the server has not accepted");
			return false;
		default:
			wrong("neither the request nor an event of its end comes");
		}
		ret = rpma_ep_next_conn_req(w->ep, w->server.cfg, &out);
	} while (ret == RPMA_E_NO_EVENT && fault_used());
	return MAKES("rpma_ep_next_conn_req", ret, out, w->server.req);
}

bool
world_ask(struct world *w)
{
	return world_peer(w, &w->server) && world_cfg(w, &w->server) && world_listen(w) &&
		world_peer(w, &w->client) && world_cfg(w, &w->client) && world_req_new(w, &w->client) &&
		world_connect(w, &w->client);
}

bool
world_event(struct world *w, struct side *s, enum rpma_conn_event expected)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	int ret;

	do {
		await_event(w, s, "the event of a connection");
		ret = rpma_conn_next_event(s->conn, &event);
		if (ret && event != RPMA_CONN_UNDEFINED)
			wrong("rpma_conn_next_event() fails and has touched its output");
	} while (ret == RPMA_E_NO_EVENT && fault_used());
	if (!judge("rpma_conn_next_event", ret)) {
		s->ended = true; /* the error is the report of the end */
		return false;
	}
	if (event == RPMA_CONN_ESTABLISHED)
		s->established = true;
	else
		s->ended = true;
	if (event == expected)
		return true;
	if (!fault_used())
		wrong("event \"%s\" instead of \"%s\" without a fault", rpma_utils_conn_event_2str(event),
			rpma_utils_conn_event_2str(expected));
	return false;
}

static void
check_private_data(const struct world *w, const struct side *s)
{
	struct rpma_conn_private_data pdata = { NULL, 0 };

	if (!judge("rpma_conn_get_private_data", rpma_conn_get_private_data(s->conn, &pdata)))
		return;
	if (pdata.len != w->plan.pdata || pattern_check(pdata.ptr, pdata.len, 1, 0) >= 0)
		wrong("the private data of an established connection is not what was sent");
}

bool
world_established(struct world *w)
{
	struct side *const sides[2] = { &w->client, &w->server };

	while (!w->client.established || !w->server.established) {
		int fds[2];
		int i;

		for (i = 0; i < 2; i++)
			fds[i] = sides[i]->established ? -1 : world_event_fd(sides[i]);
		i = wait_any(fds, 2);
		if (i < 0)
			wrong("the %s gets no event of its connection",
				w->client.established ? "server" : "client");
		struct side *s = sides[i == 1];
		if (!world_event(w, s, RPMA_CONN_ESTABLISHED))
			return false;
		check_private_data(w, s);
	}
	return true;
}

bool
world_pair(struct world *w, int server_usage, int client_usage)
{
	return world_peer(w, &w->server) && world_cfg(w, &w->server) && world_listen(w) &&
		world_peer(w, &w->client) && world_cfg(w, &w->client) &&
		(!server_usage || world_memory(w, &w->server, server_usage)) &&
		(!client_usage || world_memory(w, &w->client, client_usage)) &&
		(!server_usage || world_remote(&w->client, &w->server)) && world_req_new(w, &w->client) &&
		world_connect(w, &w->client) && world_next_req(w) &&
		(!(server_usage & RPMA_MR_USAGE_RECV) || world_req_recv(w, &w->server, 1)) &&
		world_connect(w, &w->server) && world_established(w);
}

bool
world_disconnect(struct world *w, struct side *s)
{
	struct side *other = s == &w->client ? &w->server : &w->client;

	if (!judge("rpma_conn_disconnect", rpma_conn_disconnect(s->conn)))
		return false;
	return world_event(w, s, RPMA_CONN_CLOSED) && world_event(w, other, RPMA_CONN_CLOSED);
}

/* ---- completions ---- */

/* waits for an event of the completion queue or of the connection; false if the wait has failed */
static bool
wait_for_completion(struct world *w, struct side *s, struct rpma_cq *cq)
{
	int fds[2];
	int ret;

	if (w->plan.shared)
		ret = rpma_conn_get_compl_fd(s->conn, &fds[0]);
	else
		ret = rpma_cq_get_fd(cq, &fds[0]);
	if (ret)
		wrong("a completion queue has no descriptor");
	fds[1] = world_event_fd(s);
	switch (may_give_up(w, s) ? world_wait_any(fds, 2, 1) : wait_any(fds, 2)) {
	case 0:
		if (w->plan.shared) {
			struct rpma_cq *which = SENTINEL;

			ret = rpma_conn_wait(s->conn, 0, &which, NULL);
			if (ret && which != SENTINEL)
				wrong("rpma_conn_wait() fails and has touched its output");
			return (ret == RPMA_E_NO_COMPLETION && fault_used()) || judge("rpma_conn_wait", ret);
		}
		ret = rpma_cq_wait(cq);
		return (ret == RPMA_E_NO_COMPLETION && fault_used()) || judge("rpma_cq_wait", ret);
	case 1:
		world_take_event(s);
		/* the receives are flushed once this side has disconnected, too */
		return !s->ended || judge("rpma_conn_disconnect", rpma_conn_disconnect(s->conn));
	default:
		if (may_give_up(w, s)) {
			give_up(w, s);
			return true;
		}
		wrong("a completion does not come");
	}
}

bool
world_completion(struct world *w, struct side *s, struct rpma_cq *cq, uint64_t ctx, struct ibv_wc *wc)
{
	int ret;

	while ((ret = rpma_cq_get_wc(cq, 1, wc, NULL)) == RPMA_E_NO_COMPLETION) {
		if (!wait_for_completion(w, s, cq))
			return false;
	}
	if (!judge("rpma_cq_get_wc", ret))
		return false;
	if (wc->wr_id != ctx)
		wrong("a completion of context %llu instead of %llu", (unsigned long long)wc->wr_id,
			(unsigned long long)ctx);
	if (wc->status == IBV_WC_SUCCESS)
		return true;
	if (!fault_used())
		wrong("completion \"%s\" without a fault", ibv_wc_status_str(wc->status));
	return false;
}
