/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * exchange.c -- scenarios with several operations at a time, which account for each of them
 *
 * A scenario is a list of operations, written as letters (see post()). The client posts all of them. Operation
 * i has its own slot in both memories, with a guard after it. With any cut of the stream these must hold:
 *
 *	- the completions come in order, each once, successes before errors
 *	- the payload of an operation that has succeeded is in its place
 *	- the payload of one that has failed may be there in part; no other byte has changed
 *	- each receive completes once, with a message or as flushed
 *	- both sides get the event of the connection's end, and no completion afterwards
 */

#include <string.h>

#include "mode.h"
#include "fault.h"
#include "pattern.h"

#define OPS_MAX 16
#define SEED 0x51
/* guard after each slot; the slot itself begins with BEFORE_BYTE */
#define GUARD_LEN 64
#define GUARD_BYTE 0xa5
#define BEFORE_BYTE 0x3b
/* bytes of a slot with its guard, unless the scenario sets a size */
#define SLOT_LEN (128 + GUARD_LEN)
#define INLINE_LEN 64
#define IMM 0x600d
#define ATOMIC_BEFORE 5
#define ATOMIC_AFTER 7
/* turns of world_wait_any(), 30 or 200 ms each, before an operation that does not complete is wrong */
#define TURNS 270

#define SERVER_USAGE \
	(RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_RECV | \
		RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)
#define CLIENT_USAGE (RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_SEND)

/* completions of one queue; the context of the n-th post is n, from 0 */
struct account {
	bool silent[OPS_MAX]; /* true if it completes only on failure */
	bool succeeded[OPS_MAX];
	unsigned posted;
	unsigned next;
	bool failed;
};

struct exchange {
	struct world *w;
	const char *ops;
	size_t slot, len;
	struct account sends, receives;
	unsigned receiver[OPS_MAX]; /* the operation whose message the receive gets */
};

static const void *
ctx(unsigned number)
{
	return (const void *)(uintptr_t)number;
}

static uint64_t
load(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static void
store(uint8_t *at, uint64_t value)
{
	memcpy(at, &value, sizeof(value));
}

/* ---- memory ---- */

/* true if the operation moves data to the client */
static bool
fetches(char op)
{
	return op == 'r';
}

static bool
is_atomic(char op)
{
	return op == 'c' || op == 'f';
}

static bool
takes_receive(char op)
{
	return op == 's' || op == 'S' || op == 'i';
}

/* true for a flush, which has no payload of its own */
static bool
moves_nothing(char op)
{
	return op == 'p' || op == 'v';
}

static size_t
length_of(const struct exchange *x, unsigned i)
{
	char op = x->ops[i];

	if (moves_nothing(op))
		return 0;
	if (is_atomic(op) || op == 'a')
		return 8;
	return op == 'n' ? INLINE_LEN : x->len;
}

static void
prepare_memory(struct exchange *x)
{
	struct world *w = x->w;
	size_t count = strlen(x->ops);

	x->slot = w->plan.size / count & ~(size_t)7;
	x->len = x->slot - GUARD_LEN;
	memset(w->server.mem, GUARD_BYTE, w->plan.size);
	memset(w->client.mem, GUARD_BYTE, w->plan.size);
	for (unsigned i = 0; i < count; i++) {
		size_t at = i * x->slot, len = length_of(x, i);
		uint8_t *src = fetches(x->ops[i]) ? w->server.mem : w->client.mem;
		uint8_t *dst = fetches(x->ops[i]) ? w->client.mem : w->server.mem;

		pattern_fill(src + at, len, SEED, at);
		memset(dst + at, BEFORE_BYTE, len);
		if (is_atomic(x->ops[i]))
			store(w->server.mem + at, ATOMIC_BEFORE);
	}
}

/* the destination of the operation */
static const uint8_t *
target_of(const struct exchange *x, unsigned i)
{
	return (fetches(x->ops[i]) ? x->w->client.mem : x->w->server.mem) + i * x->slot;
}

/* operation i has succeeded, so its payload must be there */
static void
check_done(const struct exchange *x, unsigned i)
{
	const uint8_t *at = target_of(x, i);

	if (is_atomic(x->ops[i])) {
		if (load(at) != ATOMIC_AFTER || load(x->w->client.mem + i * x->slot) != ATOMIC_BEFORE)
			wrong("atomic operation %u has succeeded, and is not there", i);
	} else if (pattern_check(at, length_of(x, i), SEED, i * x->slot) >= 0) {
		wrong("operation %u ('%c') has succeeded, and the payload differs", i, x->ops[i]);
	}
}

/* success or not: each byte must be the old or the new one */
static void
check_any(const struct exchange *x, unsigned i)
{
	const uint8_t *at = target_of(x, i);
	uint8_t expected[4096];
	size_t len = length_of(x, i);

	if (is_atomic(x->ops[i])) {
		if (load(at) != ATOMIC_BEFORE && load(at) != ATOMIC_AFTER)
			wrong("atomic operation %u has left a part of itself", i);
		return;
	}
	for (size_t done = 0; done < len; done += sizeof(expected)) {
		size_t n = len - done < sizeof(expected) ? len - done : sizeof(expected);

		pattern_fill(expected, n, SEED, i * x->slot + done);
		for (size_t b = 0; b < n; b++) {
			if (at[done + b] != expected[b] && at[done + b] != BEFORE_BYTE)
				wrong("operation %u ('%c') has left other bytes than its own", i, x->ops[i]);
		}
	}
}

static void
check_guards(const struct exchange *x)
{
	for (unsigned i = 0; x->ops[i]; i++) {
		size_t at = i * x->slot + length_of(x, i), len = x->slot - length_of(x, i);
		size_t fetched = is_atomic(x->ops[i]) ? 0 : length_of(x, i);

		if (pattern_check_byte(x->w->server.mem + at, len, GUARD_BYTE) >= 0 ||
			pattern_check_byte(x->w->client.mem + at, len, GUARD_BYTE) >= 0)
			wrong("memory behind operation %u has changed", i);
		/* the source of an operation must not change */
		const uint8_t *src = (fetches(x->ops[i]) ? x->w->server.mem : x->w->client.mem) + i * x->slot;
		if (pattern_check(src, fetched, SEED, i * x->slot) >= 0)
			wrong("the source of operation %u has changed", i);
		check_any(x, i);
	}
}

/* ---- posting ---- */

static int
post_vector(struct exchange *x, size_t at, int flags, unsigned i)
{
	const struct side *c = &x->w->client;
	const struct rpma_sge pieces[2] = { { c->mr, at, 10 }, { c->mr, at + 10, x->len - 10 } };

	return rpma_writev(c->conn, c->remote, at, pieces, 2, flags, ctx(i));
}

static int
post(struct exchange *x, unsigned i, int flags)
{
	struct side *c = &x->w->client;
	size_t at = i * x->slot;

	switch (x->ops[i]) {
	case 'r':
		return rpma_read(c->conn, c->mr, at, c->remote, at, x->len, flags, ctx(i));
	case 's':
		return rpma_send(c->conn, c->mr, at, x->len, flags, ctx(i));
	case 'S':
		return rpma_send_with_imm(c->conn, c->mr, at, x->len, flags, IMM, ctx(i));
	case 'i':
		return rpma_write_with_imm(c->conn, c->remote, at, c->mr, at, x->len, flags, IMM, ctx(i));
	case 'a':
		return rpma_atomic_write(c->conn, c->remote, at, (const char *)c->mem + at, flags, ctx(i));
	case 'c':
		return rpma_compare_and_swap(c->conn, c->mr, at, c->remote, at, ATOMIC_BEFORE, ATOMIC_AFTER,
			flags, ctx(i));
	case 'f':
		return rpma_fetch_and_add(c->conn, c->mr, at, c->remote, at, ATOMIC_AFTER - ATOMIC_BEFORE,
			flags, ctx(i));
	case 'p':
		return rpma_flush(c->conn, c->remote, 0, at, RPMA_FLUSH_TYPE_PERSISTENT, flags, ctx(i));
	case 'v':
		return rpma_flush(c->conn, c->remote, 0, at, RPMA_FLUSH_TYPE_VISIBILITY, flags, ctx(i));
	case 'n':
		return rpma_write_inline(c->conn, c->remote, at, c->mem + at, INLINE_LEN, flags, ctx(i));
	case 'd':
		return rpma_write_flush(c->conn, c->remote, at, c->mr, at, x->len, RPMA_FLUSH_TYPE_PERSISTENT,
			flags, ctx(i));
	case 'g':
		return post_vector(x, at, flags, i);
	default:
		return rpma_write(c->conn, c->remote, at, c->mr, at, x->len, flags, ctx(i));
	}
}

static const char *
function_of(char op)
{
	static const struct {
		char op;
		const char *function;
	} functions[] = { { 'r', "rpma_read" }, { 's', "rpma_send" }, { 'S', "rpma_send_with_imm" },
		{ 'i', "rpma_write_with_imm" }, { 'a', "rpma_atomic_write" },
		{ 'c', "rpma_compare_and_swap" }, { 'f', "rpma_fetch_and_add" }, { 'p', "rpma_flush" },
		{ 'v', "rpma_flush" }, { 'n', "rpma_write_inline" }, { 'd', "rpma_write_flush" },
		{ 'g', "rpma_writev" } };

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		if (functions[i].op == op)
			return functions[i].function;
	}
	return "rpma_write";
}

enum detail {
	ALL_SAY_SO,
	LAST_SAYS_SO, /* the others complete only on failure */
	HELD,         /* likewise, and the posts are held back (RPMA_F_MORE) */
};

static void
post_all(struct exchange *x)
{
	int detail = x->w->plan.detail;

	for (unsigned i = 0; x->ops[i]; i++) {
		bool silent = detail != ALL_SAY_SO && x->ops[i + 1];
		int flags = silent ? RPMA_F_COMPLETION_ON_ERROR : RPMA_F_COMPLETION_ALWAYS;

		if (detail == HELD && silent)
			flags |= RPMA_F_MORE;
		if (!judge(function_of(x->ops[i]), post(x, i, flags)))
			break;
		x->sends.silent[i] = silent;
		x->sends.posted++;
	}
}

/* in the order of the operations that consume them */
static bool
post_receives(struct exchange *x)
{
	struct world *w = x->w;

	for (unsigned i = 0; x->ops[i]; i++) {
		if (!takes_receive(x->ops[i]))
			continue;
		x->receiver[x->receives.posted] = i;
		if (!judge("rpma_conn_req_recv",
			    rpma_conn_req_recv(w->server.req, w->server.mr, i * x->slot, x->len,
				    ctx(x->receives.posted))))
			return false;
		x->receives.posted++;
	}
	return true;
}

/* ---- completions ---- */

static void
take_completion(struct exchange *x, struct account *a, const struct ibv_wc *wc)
{
	bool success = wc->status == IBV_WC_SUCCESS;
	bool is_send = a == &x->sends;

	/* silent operations before this one have succeeded */
	for (; a->next < wc->wr_id && a->next < a->posted; a->next++) {
		if (a->failed || !a->silent[a->next])
			wrong("completion %u is missing", a->next);
		check_done(x, a->next);
	}
	if (wc->wr_id != a->next || a->next >= a->posted)
		wrong("completion %llu instead of %u", (unsigned long long)wc->wr_id, a->next);
	if (success && a->failed)
		wrong("completion %u is a success after a failure", a->next);
	if (!success && !fault_used())
		wrong("completion %u: \"%s\" without a cut", a->next, ibv_wc_status_str(wc->status));
	a->succeeded[a->next] = success;
	a->failed = a->failed || !success;
	if (success && is_send)
		check_done(x, a->next);
	if (success && !is_send)
		check_done(x, x->receiver[a->next]);
	a->next++;
}

static void
take_completions(struct exchange *x, struct account *a, struct rpma_cq *cq)
{
	struct ibv_wc wc;
	int ret;

	while ((ret = rpma_cq_get_wc(cq, 1, &wc, NULL)) == 0)
		take_completion(x, a, &wc);
	if (ret != RPMA_E_NO_COMPLETION)
		judge("rpma_cq_get_wc", ret);
}

static bool
is_settled(const struct account *a)
{
	return a->next == a->posted;
}

static void
take_event(struct side *s)
{
	world_take_event(s);
	/* the receives are flushed once this side has disconnected, too */
	if (s->ended)
		judge("rpma_conn_disconnect", rpma_conn_disconnect(s->conn));
}

static int
fd_of(struct rpma_cq *cq)
{
	int fd = -1;

	if (rpma_cq_get_fd(cq, &fd))
		wrong("a completion queue has no descriptor");
	return fd;
}

static void
give_up(struct side *s)
{
	if (!s->ended && !s->gave_up)
		judge("rpma_conn_disconnect", rpma_conn_disconnect(s->conn));
	s->gave_up = true;
}

/* Nothing has happened for a turn. If the stream may be silent, both programs give up. */
static void
wait_longer(struct exchange *x, int turns)
{
	if (turns == TURNS)
		wrong("only %u of %u operations and %u of %u receives complete", x->sends.next,
			x->sends.posted, x->receives.next, x->receives.posted);
	if (x->w->plan.silence && fault_used()) {
		give_up(&x->w->client);
		give_up(&x->w->server);
	}
}

static void
settle(struct exchange *x)
{
	struct side *c = &x->w->client, *s = &x->w->server;
	int turns = 0;

	for (;;) {
		take_completions(x, &x->sends, c->cq);
		take_completions(x, &x->receives, s->cq);
		if (is_settled(&x->sends) && is_settled(&x->receives))
			return;
		const int fds[4] = { is_settled(&x->sends) ? -1 : fd_of(c->cq),
			is_settled(&x->receives) ? -1 : fd_of(s->cq), world_event_fd(c), world_event_fd(s) };
		int ready = world_wait_any(fds, 4, 1);
		if (ready < 0)
			wait_longer(x, ++turns);
		if (ready == 0 || ready == 1)
			judge("rpma_cq_wait", rpma_cq_wait(ready == 0 ? c->cq : s->cq));
		if (ready == 2 || ready == 3)
			take_event(ready == 2 ? c : s);
	}
}

/* each side gets the event of the end, and no further completion */
static void
end(struct exchange *x)
{
	struct side *const sides[2] = { &x->w->client, &x->w->server };

	give_up(sides[0]);
	for (int i = 0; i < 2; i++) {
		while (!sides[i]->ended) {
			int fd = world_event_fd(sides[i]);

			if (x->w->plan.silence && world_wait_any(&fd, 1, 2) < 0)
				give_up(sides[i]);
			world_wait(fd, "the event of a connection's end");
			world_take_event(sides[i]);
		}
	}
	take_completions(x, &x->sends, sides[0]->cq);
	take_completions(x, &x->receives, sides[1]->cq);
}

/* ---- */

static bool
connect(struct exchange *x)
{
	struct world *w = x->w;

	if (!world_peer(w, &w->server) || !world_cfg(w, &w->server) || !world_listen(w) ||
		!world_peer(w, &w->client) || !world_cfg(w, &w->client) ||
		!world_memory(w, &w->server, SERVER_USAGE) || !world_memory(w, &w->client, CLIENT_USAGE) ||
		!world_remote(&w->client, &w->server))
		return false;
	prepare_memory(x);
	return world_req_new(w, &w->client) && world_connect(w, &w->client) && world_next_req(w) &&
		post_receives(x) && world_connect(w, &w->server) && world_established(w);
}

static bool
exchange(struct world *w)
{
	struct exchange x = { .w = w, .ops = w->plan.ops };

	if (w->plan.size < SLOT_LEN)
		w->plan.size = strlen(x.ops) * SLOT_LEN;
	w->plan.max_sge = 2;
	w->plan.inline_size = INLINE_LEN;
	if (!connect(&x))
		return false;
	post_all(&x);
	settle(&x);
	end(&x);
	check_guards(&x);
	return !x.sends.failed;
}

const struct torture_scenario exchange_scenarios[] = {
	{ "exchange-write", exchange, { .ops = "w" }, NULL },
	{ "exchange-read", exchange, { .ops = "r" }, NULL },
	{ "exchange-send", exchange, { .ops = "s" }, NULL },
	{ "exchange-durable", exchange, { .ops = "d", .memory = MEMORY_MEMFD }, NULL },
	{ "exchange-writes", exchange, { .ops = "wwgn" }, NULL },
	{ "exchange-writes-held", exchange, { .ops = "wwgn", .detail = HELD }, NULL },
	{ "exchange-messages", exchange, { .ops = "sSis" }, NULL },
	{ "exchange-messages-unsaid", exchange, { .ops = "sSis", .detail = LAST_SAYS_SO }, NULL },
	{ "exchange-atomics", exchange, { .ops = "caf" }, NULL },
	{ "exchange-flushes", exchange, { .ops = "wpwvd", .memory = MEMORY_MEMFD }, NULL },
	{ "exchange-all", exchange, { .ops = "wrscpiSafdgnv", .memory = MEMORY_MEMFD }, NULL },
	{ "exchange-all-unsaid", exchange,
		{ .ops = "wrscpiSafdgnv", .memory = MEMORY_MEMFD, .detail = LAST_SAYS_SO }, NULL },
	{ "exchange-all-ipv6", exchange, { .ops = "wrscpiSafdgnv", .memory = MEMORY_MEMFD, .addr = "::1" },
		NULL },
	{ "exchange-long", exchange, { .ops = "wrs", .size = PAYLOAD_MAX }, NULL },
	{ 0 },
};
