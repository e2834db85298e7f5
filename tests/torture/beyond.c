/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* beyond.c -- scenarios of functions that the original library does not have */

#include <string.h>

#include "fault.h"
#include "pattern.h"
#include "torture.h"

#define SEED 43
#define CTX ((const void *)(uintptr_t)7)
#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
#define MORE RPMA_F_MORE
#define PIECES 4
/* bound on a connection that must not be made */
#define TIMEOUT_MS 100
/* bound on a wait that must succeed */
#define WAIT_MS 10000

#define SERVER_USAGE \
	(RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | \
		RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)
#define WITH_RECV (SERVER_USAGE | RPMA_MR_USAGE_RECV)
#define CLIENT_USAGE (RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_SEND)

static bool
open_pair(struct world *w, int server_usage)
{
	if (!world_pair(w, server_usage, CLIENT_USAGE))
		return false;
	memset(w->server.mem, 0, w->plan.size);
	pattern_fill(w->client.mem, w->plan.size, SEED, 0);
	return true;
}

static bool
completed(struct world *w)
{
	struct ibv_wc wc;

	return world_completion(w, &w->client, w->client.cq, 7, &wc);
}

static bool
received(struct world *w)
{
	struct ibv_wc wc;

	return world_completion(w, &w->server, w->server.rcq ? w->server.rcq : w->server.cq, 1, &wc);
}

static bool
arrived(const struct world *w, const struct side *s)
{
	if (pattern_check(s->mem, w->plan.size, SEED, 0) >= 0)
		wrong("an operation has succeeded, and the payload is not there");
	return true;
}

static bool
over(struct world *w)
{
	return world_disconnect(w, &w->client);
}

/* the first post with RPMA_F_MORE allocates a list, and may fail: the header documents it at the flag */
static bool
judge_held(const char *function, int ret)
{
	return ret == RPMA_E_NOMEM && fault_used() ? false : judge(function, ret);
}

/* ---- pieces, inline ---- */

static void
cut(const struct world *w, struct rpma_sge sge[PIECES])
{
	size_t piece = w->plan.size / PIECES;

	for (size_t i = 0; i < PIECES; i++)
		sge[i] = (struct rpma_sge){ w->client.mr, i * piece, piece };
}

static bool
do_writev(struct world *w)
{
	struct rpma_sge sge[PIECES];

	if (!open_pair(w, SERVER_USAGE))
		return false;
	cut(w, sge);
	return judge("rpma_writev",
		       rpma_writev(w->client.conn, w->client.remote, 0, sge, PIECES, ALWAYS, CTX)) &&
		completed(w) && arrived(w, &w->server) && over(w);
}

static bool
do_readv(struct world *w)
{
	struct rpma_sge sge[PIECES];

	if (!open_pair(w, SERVER_USAGE))
		return false;
	pattern_fill(w->server.mem, w->plan.size, SEED, 0);
	memset(w->client.mem, 0, w->plan.size);
	cut(w, sge);
	return judge("rpma_readv",
		       rpma_readv(w->client.conn, sge, PIECES, w->client.remote, 0, ALWAYS, CTX)) &&
		completed(w) && arrived(w, &w->client) && over(w);
}

/* inline data need not be registered, and may change once the call has returned */
static void
overwrite(struct world *w)
{
	memset(w->client.mem, 0, w->plan.size);
}

static bool
do_write_inline(struct world *w)
{
	if (!open_pair(w, SERVER_USAGE) ||
		!judge("rpma_write_inline",
			rpma_write_inline(w->client.conn, w->client.remote, 0, w->client.mem, w->plan.size,
				ALWAYS, CTX)))
		return false;
	overwrite(w);
	return completed(w) && arrived(w, &w->server) && over(w);
}

static bool
do_write_inline_imm(struct world *w)
{
	if (!open_pair(w, WITH_RECV) ||
		!judge("rpma_write_inline_with_imm",
			rpma_write_inline_with_imm(w->client.conn, w->client.remote, 0, w->client.mem,
				w->plan.size, ALWAYS, 5, CTX)))
		return false;
	overwrite(w);
	return completed(w) && arrived(w, &w->server) && received(w) && over(w);
}

static bool
do_send_inline(struct world *w)
{
	if (!open_pair(w, WITH_RECV) ||
		!judge("rpma_send_inline",
			rpma_send_inline(w->client.conn, w->client.mem, w->plan.size, ALWAYS, CTX)))
		return false;
	overwrite(w);
	return completed(w) && received(w) && arrived(w, &w->server) && over(w);
}

/* ---- durable writes ---- */

/* if a fault has hidden the file of a region, the region has no right to be flushed */
static bool
can_flush(struct world *w)
{
	int has = 0;
	int needed = w->plan.detail == (int)RPMA_FLUSH_TYPE_PERSISTENT ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT
								       : RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;

	if (!judge("rpma_mr_remote_get_flush_type", rpma_mr_remote_get_flush_type(w->client.remote, &has)))
		return false;
	if (!(has & needed) && !fault_used())
		wrong("the region cannot be flushed");
	return has & needed;
}

static int
write_flush(struct world *w, int flags)
{
	return rpma_write_flush(w->client.conn, w->client.remote, 0, w->client.mr, 0, w->plan.size,
		(enum rpma_flush_type)w->plan.detail, flags, CTX);
}

static bool
do_write_flush(struct world *w)
{
	return open_pair(w, SERVER_USAGE) && can_flush(w) &&
		judge("rpma_write_flush", write_flush(w, ALWAYS)) && completed(w) && arrived(w, &w->server) &&
		judge("rpma_write_flush", write_flush(w, ON_ERROR)) &&
		judge("rpma_write_flush", write_flush(w, ALWAYS)) && completed(w) && over(w);
}

/* the write and the flush both fail, and give one completion */
static bool
do_write_flush_refused(struct world *w)
{
	struct ibv_wc wc;

	if (!open_pair(w, SERVER_USAGE) || !can_flush(w) ||
		!judge("rpma_mr_dereg", rpma_mr_dereg(&w->server.mr)) ||
		!judge("rpma_write_flush", write_flush(w, ALWAYS)))
		return false;
	while (rpma_cq_get_wc(w->client.cq, 1, &wc, NULL) == RPMA_E_NO_COMPLETION) {
		int fd = -1;

		rpma_cq_get_fd(w->client.cq, &fd);
		world_wait(fd, "the completion of a durable write that is refused");
		(void)rpma_cq_wait(w->client.cq);
	}
	if (wc.status == IBV_WC_SUCCESS)
		wrong("a durable write to memory that is gone has succeeded");
	if (rpma_cq_get_wc(w->client.cq, 1, &wc, NULL) == 0)
		wrong("a durable write has failed twice");
	return true;
}

/* ---- atomics ---- */

static bool
do_atomics(struct world *w)
{
	uint64_t value = 5;
	uint64_t old;

	if (!open_pair(w, SERVER_USAGE))
		return false;
	memcpy(w->server.mem, &value, sizeof(value));
	if (!judge("rpma_compare_and_swap",
		    rpma_compare_and_swap(w->client.conn, w->client.mr, 0, w->client.remote, 0, 5, 100,
			    ALWAYS, CTX)) ||
		!completed(w))
		return false;
	memcpy(&old, w->client.mem, sizeof(old));
	if (old != 5)
		wrong("compare-and-swap gives another value than was there");
	if (!judge("rpma_fetch_and_add",
		    rpma_fetch_and_add(w->client.conn, w->client.mr, 8, w->client.remote, 0, 11, ALWAYS,
			    CTX)) ||
		!completed(w))
		return false;
	memcpy(&old, w->client.mem + 8, sizeof(old));
	memcpy(&value, w->server.mem, sizeof(value));
	if (old != 100 || value != 111)
		wrong("fetch-and-add gives another value than was there, or leaves another one");
	return over(w);
}

/* ---- batches ---- */

static bool
hold_pieces(struct world *w)
{
	struct rpma_sge sge[PIECES];
	size_t piece = w->plan.size / PIECES;

	cut(w, sge);
	return judge_held("rpma_writev",
		       rpma_writev(w->client.conn, w->client.remote, 0, sge, 2, ON_ERROR | MORE, CTX)) &&
		judge_held("rpma_write_inline",
			rpma_write_inline(w->client.conn, w->client.remote, 2 * piece,
				w->client.mem + 2 * piece, piece, ON_ERROR | MORE, CTX)) &&
		judge_held("rpma_write",
			rpma_write(w->client.conn, w->client.remote, 3 * piece, w->client.mr, 3 * piece,
				piece, ON_ERROR | MORE, CTX));
}

static bool
do_batch(struct world *w)
{
	if (!open_pair(w, SERVER_USAGE) || !can_flush(w))
		return false;
	return hold_pieces(w) && judge_held("rpma_write_flush", write_flush(w, ALWAYS | MORE)) &&
		judge("rpma_conn_submit", rpma_conn_submit(w->client.conn)) && completed(w) &&
		arrived(w, &w->server) && over(w);
}

/* a post with a fence submits the posts that were held back */
static bool
do_batch_fenced(struct world *w)
{
	return open_pair(w, SERVER_USAGE) && hold_pieces(w) &&
		judge("rpma_write",
			rpma_write(w->client.conn, NULL, 0, NULL, 0, 0, ALWAYS | RPMA_F_FENCE, CTX)) &&
		completed(w) && arrived(w, &w->server) && over(w);
}

static bool
do_batch_dropped(struct world *w)
{
	if (!open_pair(w, SERVER_USAGE) || !hold_pieces(w) || !over(w))
		return false;
	if (pattern_check_byte(w->server.mem, w->plan.size, 0) >= 0)
		wrong("what was held back has been posted by a disconnect");
	return true;
}

/* ---- waits with a timeout ---- */

/* a fault may end the wait without a completion */
static bool
wait_timed(struct world *w)
{
	struct rpma_cq *cq = SENTINEL;
	int ret = w->plan.shared ? rpma_conn_wait_timed(w->client.conn, 0, WAIT_MS, &cq, NULL)
				 : rpma_cq_wait_timed(w->client.cq, WAIT_MS);

	if (ret && cq != SENTINEL)
		wrong("rpma_conn_wait_timed() fails and has touched its output");
	if (ret == RPMA_E_NO_COMPLETION && fault_used())
		return false;
	return judge(w->plan.shared ? "rpma_conn_wait_timed" : "rpma_cq_wait_timed", ret);
}

static bool
do_wait_timed(struct world *w)
{
	return open_pair(w, SERVER_USAGE) &&
		judge("rpma_write",
			rpma_write(w->client.conn, w->client.remote, 0, w->client.mr, 0, w->plan.size, ALWAYS,
				CTX)) &&
		wait_timed(w) && completed(w) && arrived(w, &w->server) && over(w);
}

static bool
do_arm_by_hand(struct world *w)
{
	return open_pair(w, SERVER_USAGE) &&
		judge("rpma_cq_set_auto_arm", rpma_cq_set_auto_arm(w->client.cq, false)) &&
		judge("rpma_cq_arm", rpma_cq_arm(w->client.cq)) &&
		judge("rpma_write",
			rpma_write(w->client.conn, w->client.remote, 0, w->client.mr, 0, w->plan.size, ALWAYS,
				CTX)) &&
		wait_timed(w) && judge("rpma_cq_set_auto_arm", rpma_cq_set_auto_arm(w->client.cq, true)) &&
		judge("rpma_cq_arm", rpma_cq_arm(w->client.cq)) && completed(w) && arrived(w, &w->server) &&
		over(w);
}

static bool
do_event_timed(struct world *w)
{
	struct rpma_conn_req *req = SENTINEL;
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	int fd = -1;
	int ret;

	if (!world_ask(w) || !judge("rpma_ep_get_fd", rpma_ep_get_fd(w->ep, &fd)))
		return false;
	ret = rpma_ep_next_conn_req_timed(w->ep, w->server.cfg, WAIT_MS, &req);
	if (ret == RPMA_E_NO_EVENT && fault_used() && (void *)req == SENTINEL)
		return false;
	if (!MAKES("rpma_ep_next_conn_req_timed", ret, req, w->server.req) || !world_connect(w, &w->server) ||
		!world_established(w))
		return false;
	ret = rpma_conn_next_event_timed(w->client.conn, 0, &event);
	if (event != RPMA_CONN_UNDEFINED) {
		if (ret || !fault_used())
			wrong("rpma_conn_next_event_timed() returns an event that did not happen");
		w->client.ended = true;
		return false;
	}
	if (ret != RPMA_E_NO_EVENT)
		return judge("rpma_conn_next_event_timed", ret);
	return over(w);
}

/* ---- a bound on making a connection ---- */

static bool
do_connect_late(struct world *w)
{
	return world_ask(w) && world_event(w, &w->client, RPMA_CONN_UNREACHABLE);
}

static bool
do_connect_in_time(struct world *w)
{
	return world_pair(w, 0, 0) && world_disconnect(w, &w->client);
}

/* ---- a rejection with its reason ---- */

static bool
do_reject(struct world *w)
{
	struct rpma_conn_private_data got = { NULL, 0 };
	uint8_t bytes[UINT8_MAX];
	struct rpma_conn_private_data reason = { bytes, (uint8_t)w->plan.detail };
	bool rejected;

	pattern_fill(bytes, sizeof(bytes), SEED, 0);
	if (!world_ask(w) || !world_next_req(w))
		return false;
	rejected = judge("rpma_conn_req_reject", rpma_conn_req_reject(&w->server.req, &reason));
	if (w->server.req)
		wrong("rpma_conn_req_reject() has not consumed the request");
	if (!rejected || !world_event(w, &w->client, RPMA_CONN_REJECTED) ||
		!judge("rpma_conn_get_private_data", rpma_conn_get_private_data(w->client.conn, &got)))
		return false;
	if (got.len != reason.len || pattern_check(got.ptr, got.len, SEED, 0) >= 0)
		if (!fault_used())
			wrong("the reason of a rejection is not what was sent");
	return true;
}

/* ---- questions ---- */

static bool
do_ask(struct world *w)
{
	struct rpma_conn_stats stats = { .size = sizeof(stats) };
	struct rpma_peer_stats peer_stats = { .size = sizeof(peer_stats) };
	struct rpma_conn *found = SENTINEL;
	uint32_t qp_num = 0;
	uint32_t caps = 0;

	if (!world_pair(w, 0, 0) ||
		!judge("rpma_conn_get_qp_num", rpma_conn_get_qp_num(w->client.conn, &qp_num)))
		return false;
	if (!judge("rpma_peer_find_conn", rpma_peer_find_conn(w->client.peer, qp_num, &found)) ||
		found != w->client.conn)
		wrong("a connection is not found by its number");
	return judge("rpma_peer_get_caps", rpma_peer_get_caps(w->client.peer, &caps)) &&
		judge("rpma_conn_get_stats", rpma_conn_get_stats(w->client.conn, &stats)) &&
		judge("rpma_peer_get_stats", rpma_peer_get_stats(w->client.peer, &peer_stats)) && over(w);
}

#define PERSISTENT ((int)RPMA_FLUSH_TYPE_PERSISTENT)
#define VISIBILITY ((int)RPMA_FLUSH_TYPE_VISIBILITY)

const struct torture_scenario beyond_scenarios[] = {
	{ "writev", do_writev, { .max_sge = PIECES }, NULL },
	{ "writev-1MiB", do_writev, { .max_sge = PIECES, .size = PAYLOAD_MAX }, NULL },
	{ "readv", do_readv, { .max_sge = PIECES }, NULL },
	{ "readv-1MiB", do_readv, { .max_sge = PIECES, .size = PAYLOAD_MAX }, NULL },
	{ "write-inline", do_write_inline, { .inline_size = 64 }, NULL },
	{ "write-inline-imm", do_write_inline_imm, { .inline_size = 64 }, NULL },
	{ "send-inline", do_send_inline, { .inline_size = 64 }, NULL },
	{ "write-flush-visibility", do_write_flush, { .detail = VISIBILITY }, NULL },
	{ "write-flush-file", do_write_flush, { .detail = PERSISTENT, .memory = MEMORY_FILE }, NULL },
	{ "write-flush-dereg", do_write_flush_refused, { .detail = VISIBILITY }, NULL },
	{ "atomics", do_atomics, { 0 }, NULL },
	{ "batch", do_batch, { .detail = VISIBILITY, .max_sge = 2, .inline_size = 64 }, NULL },
	{ "batch-fenced", do_batch_fenced, { .max_sge = 2, .inline_size = 64 }, NULL },
	{ "batch-dropped", do_batch_dropped, { .max_sge = 2, .inline_size = 64 }, NULL },
	{ "wait-timed", do_wait_timed, { 0 }, NULL },
	{ "wait-timed-shared", do_wait_timed, { .rcq = true, .shared = true }, NULL },
	{ "arm-by-hand", do_arm_by_hand, { 0 }, NULL },
	{ "event-timed", do_event_timed, { 0 }, NULL },
	{ "connect-late", do_connect_late, { .connect_timeout = TIMEOUT_MS }, NULL },
	{ "connect-in-time", do_connect_in_time, { .connect_timeout = 30000 }, NULL },
	{ "reject-with-reason", do_reject, { .detail = UINT8_MAX }, NULL },
	{ "questions", do_ask, { 0 }, NULL },
	{ "verbs-write-flush", do_write_flush, { .faulty_verbs = true, .detail = VISIBILITY }, NULL },
	{ "verbs-write-flush-plain", do_write_flush,
		{ .faulty_verbs = true, .read_flushes = true, .detail = VISIBILITY }, NULL },
	{ "verbs-batch", do_batch,
		{ .faulty_verbs = true, .detail = VISIBILITY, .max_sge = 2, .inline_size = 64 }, NULL },
	{ "verbs-batch-plain", do_batch,
		{ .faulty_verbs = true,
			.read_flushes = true,
			.detail = VISIBILITY,
			.max_sge = 2,
			.inline_size = 64 },
		NULL },
	{ "verbs-atomics", do_atomics, { .faulty_verbs = true }, NULL },
	{ "verbs-reject-with-reason", do_reject, { .faulty_verbs = true, .detail = 100 }, NULL },
	{ "verbs-connect-in-time", do_connect_in_time, { .faulty_verbs = true, .connect_timeout = 30000 },
		NULL },
	{ 0 },
};
