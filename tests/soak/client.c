/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.c -- a client of the soak: operations of all kinds and sizes, on one connection after the other
 *
 * The client reads back each write, gets back each message, and checks the sum of what it has added to a
 * counter. Each post must complete once, in the order of its queue. Faults are injected into some connections:
 * these may break at any point, but a success must still be true.
 */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <librpma.h>

#include "deadline.h"
#include "pattern.h"
#include "soak.h"
#include "wait.h"

/* ms, in a window of any length */
#define CONNECTION_MS_MAX 60000
/* ms, in the warm-up: its connections coincide as often as those of hours afterwards */
#define WARM_UP_CONNECTION_MS_MAX 1000
#define BURST 32
#define SMALL ((size_t)4096) /* latencies are taken of at most this many bytes */
#define FLUSHED_MAX ((size_t)64 << 10)

/* offsets in the client's own memory */
#define SOURCE_AT ((size_t)0)
#define BACK_AT SOAK_WRITE_MAX
#define NUMBER_AT (2 * SOAK_WRITE_MAX)
#define MEMORY (NUMBER_AT + 4096)

#define RECEIVED ((uintptr_t)1 << 63) /* marks the context of a receive */

/* one connection of this many gets one of the faults below */
#define FAULTY_ONE_IN 4
static const char *const faults[] = { "disconnect-after=300", "drop-after=2000,retry-timeout=200ms",
	"delay=1ms@2%", "wc-error=rem_access@500", "disconnect=700ms", "wc-error=general@0.1%,seed=3" };

static struct soak_client *report;
static uint8_t *memory;
static struct rpma_mr_local *mr;
static uint64_t chance;
static unsigned window;

struct visit {
	struct rpma_conn *conn;
	struct rpma_cq *cq;
	struct rpma_mr_remote *remote;
	bool faulty;
	bool broken;
	uint64_t posted, completed; /* of the send queue; the count is the context */
	uint64_t receives, received;
	uint64_t counter; /* value of the server's counter, from its last response */
};

/* the last range that was read back: the next connection must read the same */
static struct {
	size_t at, len; /* 0: none */
	uint64_t seed;
} kept;

/* splitmix64 */
static uint64_t
any(uint64_t below)
{
	uint64_t z = chance += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (z ^ z >> 31) % below;
}

/* each power of two is as likely as any other */
static size_t
any_size(size_t max)
{
	unsigned bits = (unsigned)any(64 - (unsigned)__builtin_clzll(max));
	size_t len = ((size_t)1 << bits) + any((size_t)1 << bits);

	return len < max ? len : max;
}

static uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* ---- posts and completions ---- */

static void *
next_context(const struct visit *v)
{
	return (void *)(uintptr_t)v->posted;
}

/* true if it was posted */
static bool
posted(struct visit *v, const char *what, int ret)
{
	if (ret == 0) {
		v->posted++;
		return true;
	}
	if (!v->faulty)
		soak_must(what, ret);
	v->broken = true;
	return false;
}

static void
count(struct visit *v, const struct ibv_wc *wc)
{
	uint64_t due = wc->wr_id & RECEIVED ? RECEIVED | v->received++ : v->completed++;

	if (wc->wr_id != due)
		soak_fail("a completion is lost, comes twice, or out of order");
	if (wc->status == IBV_WC_SUCCESS)
		return;
	if (!v->faulty) {
		fprintf(stderr, "soak: an operation has failed: %s\n", ibv_wc_status_str(wc->status));
		exit(1);
	}
	v->broken = true;
}

/* Collects the completions of all that was posted. True if all have succeeded. */
static bool
complete(struct visit *v)
{
	struct ibv_wc wc;

	while (v->completed < v->posted || v->received < v->receives) {
		if (v->broken && v->completed == v->posted)
			break; /* a receive is flushed only at the disconnect */
		soak_must("a completion", wait_wc(v->cq, &wc, WAIT_MS));
		count(v, &wc);
	}
	return !v->broken;
}

/* ---- operations ---- */

static bool
read_back(struct visit *v, size_t at, size_t len, uint64_t seed)
{
	memset(memory + BACK_AT, 0, len);
	if (!posted(v, "read",
		    rpma_read(v->conn, mr, BACK_AT, v->remote, at, len, RPMA_F_COMPLETION_ALWAYS,
			    next_context(v))) ||
		!complete(v))
		return false;
	if (pattern_check(memory + BACK_AT, len, seed, at) >= 0)
		soak_fail("a read returns other bytes than the write has written");
	return true;
}

static void
write_and_read(struct visit *v)
{
	const size_t len = any_size(SOAK_WRITE_MAX);
	const size_t at = SOAK_DATA_AT + any(SOAK_SLOT - SOAK_DATA_AT - len + 1);
	const uint64_t seed = any(UINT64_MAX);
	/* often in the warm-up: flushes of all clients coincide there, so all threads for them are started */
	const bool flushed = len <= FLUSHED_MAX && any(window < SOAK_WARM_UP ? 2 : 16) == 0;
	const uint64_t begin = now_ns();
	int ret;

	kept.len = 0;
	pattern_fill(memory + SOURCE_AT, len, seed, at);
	if (flushed)
		ret = rpma_write_flush(v->conn, v->remote, at, mr, SOURCE_AT, len, RPMA_FLUSH_TYPE_PERSISTENT,
			RPMA_F_COMPLETION_ALWAYS, next_context(v));
	else
		ret = rpma_write(v->conn, v->remote, at, mr, SOURCE_AT, len, RPMA_F_COMPLETION_ALWAYS,
			next_context(v));
	if (!posted(v, "write", ret) || !complete(v) || !read_back(v, at, len, seed))
		return;
	if (!flushed && !v->faulty && len <= SMALL)
		report->latencies[window].count[soak_bucket(now_ns() - begin)]++;
	report->bytes += 2 * len;
	kept.at = at;
	kept.len = len;
	kept.seed = seed;
}

/* posts 32 writes at a time to adjacent pieces, and reads them back as one range */
static void
write_burst(struct visit *v)
{
	const size_t piece = any_size(SOAK_WRITE_MAX / BURST);
	const size_t at = SOAK_DATA_AT + any(SOAK_SLOT - SOAK_DATA_AT - BURST * piece + 1);
	const uint64_t seed = any(UINT64_MAX);

	kept.len = 0;
	pattern_fill(memory + SOURCE_AT, BURST * piece, seed, at);
	for (size_t i = 0; i < BURST; i++) {
		int flags = RPMA_F_COMPLETION_ALWAYS | (i % 8 != 7 ? RPMA_F_MORE : 0);

		if (!posted(v, "write of a burst",
			    rpma_write(v->conn, v->remote, at + i * piece, mr, SOURCE_AT + i * piece, piece,
				    flags, next_context(v))))
			break;
	}
	if (complete(v) && read_back(v, at, BURST * piece, seed))
		report->bytes += 2 * BURST * piece;
}

/* sends a message, and receives it back */
static void
exchange(struct visit *v)
{
	const size_t len = any_size(SOAK_MESSAGE_MAX);
	const uint64_t seed = any(UINT64_MAX);

	pattern_fill(memory + SOURCE_AT, len, seed, 0);
	memset(memory + BACK_AT, 0, len);
	int ret = rpma_recv(v->conn, mr, BACK_AT, len, (void *)(RECEIVED | v->receives));
	if (ret == 0)
		v->receives++;
	else if (!v->faulty)
		soak_must("receive", ret);
	if (ret ||
		!posted(v, "send",
			rpma_send(v->conn, mr, SOURCE_AT, len, RPMA_F_COMPLETION_ALWAYS, next_context(v)))) {
		v->broken = true;
		return;
	}
	if (!complete(v))
		return;
	if (pattern_check(memory + BACK_AT, len, seed, 0) >= 0)
		soak_fail("an answer is not what was sent");
	report->bytes += 2 * len;
}

static bool
add(struct visit *v, uint64_t addend, uint64_t *before)
{
	if (!posted(v, "fetch and add",
		    rpma_fetch_and_add(v->conn, mr, NUMBER_AT, v->remote, 0, addend, RPMA_F_COMPLETION_ALWAYS,
			    next_context(v))) ||
		!complete(v))
		return false;
	memcpy(before, memory + NUMBER_AT, sizeof(*before));
	return true;
}

static void
count_up(struct visit *v)
{
	const uint64_t addend = 1 + any(1000);
	uint64_t before;

	if (!add(v, addend, &before))
		return;
	if (before != v->counter)
		soak_fail("the counter is not what was added to it");
	v->counter += addend;
}

/* ---- connections ---- */

static void
begin(struct visit *v, struct rpma_peer *peer, const char *port, uint8_t who)
{
	const struct rpma_conn_private_data name = { &who, sizeof(who) };
	struct rpma_conn_private_data pdata = { NULL, 0 };
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct rpma_conn_cfg *cfg;
	struct rpma_conn_req *req;

	soak_must("configuration", rpma_conn_cfg_new(&cfg));
	soak_must("send queue", rpma_conn_cfg_set_sq_size(cfg, 2 * BURST));
	soak_must("completion queue", rpma_conn_cfg_set_cq_size(cfg, 4 * BURST));
	soak_must("request", rpma_conn_req_new(peer, "127.0.0.1", port, cfg, &req));
	soak_must("delete the configuration", rpma_conn_cfg_delete(&cfg));
	soak_must("connect", rpma_conn_req_connect(&req, &name, &v->conn));
	soak_must("wait for the connection", wait_event(v->conn, &event, WAIT_MS));
	if (event != RPMA_CONN_ESTABLISHED)
		soak_fail(rpma_utils_conn_event_2str(event));
	soak_must("queue", rpma_conn_get_cq(v->conn, &v->cq));
	soak_must("private data", rpma_conn_get_private_data(v->conn, &pdata));
	soak_must("descriptor", rpma_mr_remote_from_descriptor(pdata.ptr, pdata.len, &v->remote));
	report->connections++;
}

/* after the end of the connection only the unused receives may complete */
static void
finish(struct visit *v)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct ibv_wc wc;

	(void)rpma_conn_disconnect(v->conn); /* it may have ended by itself */
	soak_must("wait for the end", wait_event(v->conn, &event, WAIT_MS));
	while (v->received < v->receives) {
		soak_must("a flushed receive", wait_wc(v->cq, &wc, WAIT_MS));
		count(v, &wc);
	}
	if (rpma_cq_get_wc(v->cq, 1, &wc, NULL) != RPMA_E_NO_COMPLETION)
		soak_fail("a completion without a post");
	report->broken += v->broken;
	soak_must("delete the connection", rpma_conn_delete(&v->conn));
	soak_must("delete the description", rpma_mr_remote_delete(&v->remote));
}

static void
operate(struct visit *v)
{
	switch (any(4)) {
	case 0:
		write_burst(v);
		break;
	case 1:
		exchange(v);
		break;
	case 2:
		count_up(v);
		break;
	default:
		write_and_read(v);
	}
	report->operations++;
}

static void
visit(struct rpma_peer *peer, const char *port, uint8_t who, const char *fault, int64_t end)
{
	struct visit v = { .faulty = fault != NULL };

	if (fault)
		setenv("SOFTRDMA_FAULTS", fault, 1);
	else
		unsetenv("SOFTRDMA_FAULTS");
	begin(&v, peer, port, who);
	if (add(&v, 0, &v.counter) && kept.len > 0)
		read_back(&v, kept.at, kept.len, kept.seed);
	while (!v.broken && now_ms() < end)
		operate(&v);
	finish(&v);
}

/* connections of half a second to a minute (to a second in the warm-up), until the window is over */
static void
work(struct rpma_peer *peer, const char *port, uint8_t who, int64_t end)
{
	const uint64_t longest = window < SOAK_WARM_UP ? WARM_UP_CONNECTION_MS_MAX : CONNECTION_MS_MAX;

	while (now_ms() < end) {
		const char *fault = NULL;
		int64_t until = now_ms() + 500 + (int64_t)any(longest - 500);

		if (any(FAULTY_ONE_IN) == 0) {
			fault = faults[any(sizeof(faults) / sizeof(faults[0]))];
			until = now_ms() + 2000; /* if the fault does not happen */
		}
		visit(peer, port, who, fault, until < end ? until : end);
	}
}

void
soak_be_client(struct soak_shared *shared, unsigned index, uint64_t seed, unsigned window_ms)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	struct rpma_peer *peer;
	struct ibv_context *ctx;

	report = &shared->clients[index];
	memset(report, 0,
		sizeof(*report)); /* touches its pages now, so that they do not count as growth later */
	chance = seed + index;
	memory = aligned_alloc(4096, MEMORY);
	if (memory == NULL)
		soak_fail("no memory");
	memset(memory, 0, MEMORY);
	soak_must("device", rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_REMOTE, &ctx));
	soak_must("peer", rpma_peer_new(ctx, &peer));
	soak_must("register",
		rpma_mr_reg(peer, memory, MEMORY,
			RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_SEND |
				RPMA_MR_USAGE_RECV,
			&mr));
	while (window < SOAK_WINDOWS) {
		work(peer, shared->port, (uint8_t)index, now_ms() + window_ms);
		shared->resting++;
		while (shared->window == window)
			nanosleep(&moment, NULL);
		window++;
	}
	soak_must("deregister", rpma_mr_dereg(&mr));
	soak_must("delete the peer", rpma_peer_delete(&peer));
	free(memory);
}
