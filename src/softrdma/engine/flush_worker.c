/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* flush_worker.c -- makes durable what a FLUSH asks for, on a worker if that may block */

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "softrdma/base/env.h"
#include "softrdma/base/spin.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/fault_inject.h"
#include "softrdma/engine/flush_worker.h"
#include "softrdma/engine/reader.h"
#include "softrdma/engine/workers.h"
#include "usdt.h"

/*
 * A worker that looks for the next FLUSH may do so for this many times as long as other threads of the device: what a program
 * does between two durable writes often takes threads of its own, which have to be woken first.
 */
#define LOOK_SPINS 4

/* makes the range durable, or lets an injected fault fail it; 0 or an errno value */
static int
flush_or_fail(const struct softrdma_connection *conn, struct softrdma_persist *persist, const void *addr,
	size_t len)
{
	if (conn->fault_inject && conn->fault_inject->flush_fails)
		return EIO;
	return softrdma_persist_flush(persist, addr, len);
}

/* the same, and tells how long that took */
static int
make_durable(const struct softrdma_connection *conn, struct softrdma_persist *persist, const void *addr,
	size_t len, uint64_t *ns)
{
	const uint64_t start_ns = softrdma_now_ns();
	USDT(softrdma, flush_begin, conn->link.requester.ring.qp_num, len);
	const int error = flush_or_fail(conn, persist, addr, len);
	USDT(softrdma, flush_end, conn->link.requester.ring.qp_num, len, error);
	*ns = softrdma_now_ns() - start_ns;
	return error;
}

static void
count_time(struct softrdma_connection *conn, uint64_t ns)
{
	const uint64_t us = ns / 1000;
	unsigned at = us ? 64 - (unsigned)__builtin_clzll(us) : 0;
	if (at >= SOFTRDMA_STATS_FLUSH_TIMES)
		at = SOFTRDMA_STATS_FLUSH_TIMES - 1;
	SOFTRDMA_COUNT(&conn->link.responder.counters, flush_times[at], 1);
	SOFTRDMA_COUNT(&conn->link.responder.counters, flush_ns, ns);
}

/*
 * True if the peer has left: no answer can reach it any longer. Nothing reads its socket while its FLUSH waits, so the end of
 * the stream is looked for, whether it came by FIN or by RST. If requests of this side are outstanding, their responses may
 * come before that end, and are read first.
 */
static bool
has_left(const struct softrdma_connection *conn)
{
	const struct softrdma_requester *req = &conn->link.requester;
	struct pollfd pfd = { .fd = conn->fd, .events = POLLRDHUP };
	return conn->fd < 0 || conn->link.failed ||
		(req->ring.head == req->ring.tail && poll(&pfd, 1, 0) > 0);
}

/* makes durable what the responder's FLUSH asks for, without the link's lock meanwhile; 0 or an errno value */
static int
make_durable_unlocked(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	struct softrdma_mr *mr = link->responder.flush_mr; /* held by the responder, so it stays */
	const void *addr = (const void *)(uintptr_t)link->responder.flush_addr;
	size_t len = link->responder.flush_len;
	pthread_mutex_unlock(&link->lock);
	if (conn->fault_inject) /* its decisions stay until the next flush begins */
		softrdma_fault_inject_flush_waits(conn->fault_inject);
	uint64_t ns;
	int error = make_durable(conn, mr->persist, addr, len, &ns);
	pthread_mutex_lock(&link->lock);
	count_time(conn, ns);
	return error;
}

/*
 * Makes the range durable and goes on receiving. The flush of a peer that has left is not made: it has been promised nothing,
 * and a flood of them would occupy the medium long after it. Then what it sent after the FLUSH has no effect either.
 */
static void
make_flush(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	int error = has_left(conn) ? ECONNRESET : make_durable_unlocked(conn);
	conn->flush_running = false;
	softrdma_responder_flushed(&link->responder, error);
	if (link->qp) {
		if (error)
			softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
		softrdma_connection_flushed(conn);
	}
}

/* waits for the next flush: as long as a progress thread looks for more work before it sleeps, and longer while that pays */
static void
look_for_flush(struct softrdma_connection *conn, struct softrdma_spin *spin)
{
	struct softrdma_link *link = &conn->link;
	const uint64_t end_ns = softrdma_now_ns() + softrdma_engine_spin_ns();
	while (conn->fd >= 0 && !conn->flush_running && !softrdma_workers_are_short() &&
		(softrdma_now_ns() < end_ns || softrdma_spin_goes_on(spin))) {
		/* without the lock, so that threads can post; the socket may be closed meanwhile */
		struct pollfd pfd = { .fd = conn->fd, .events = POLLIN };
		pthread_mutex_unlock(&link->lock);
		int ready = poll(&pfd, 1, 0);
		if (ready == 0)
			(void)softrdma_spin_give_way(spin);
		pthread_mutex_lock(&link->lock);
		if (ready > 0 && conn->fd >= 0) {
			softrdma_connection_serve(conn);
			softrdma_spin_is_busy(spin);
		}
	}
}

/*
 * A client usually sends its next FLUSH right after the previous one completes. The worker therefore keeps the
 * socket for a while: that FLUSH then wakes neither the progress thread nor another worker.
 */
static void
flush_on_worker(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	struct softrdma_spin *spin = softrdma_spin_mine();
	bool kept = false;
	pthread_mutex_lock(&link->lock);
	conn->has_worker = true;
	do {
		make_flush(conn);
		kept = kept || (softrdma_engine_spin_ns() && softrdma_reader_borrow(conn));
		if (kept) {
			softrdma_spin_input(spin, LOOK_SPINS * softrdma_engine_spin_ns());
			look_for_flush(conn, spin);
		}
	} while (conn->flush_running && !softrdma_workers_are_short());
	softrdma_spin_end(spin);
	conn->has_worker = false;
	if (kept)
		softrdma_reader_return(conn);
	if (conn->flush_running) /* flushes of other connections come first. Cannot fail: there is a thread, this one. */
		softrdma_workers_submit(conn, flush_on_worker);
	pthread_mutex_unlock(&link->lock);
}

/*
 * True if the flushes of this turn have taken as long as they may. The clock runs from the second one on: a turn seldom has
 * more than one, which need not look at it.
 */
static bool
is_turn_over(struct softrdma_connection *conn)
{
	if (conn->flushed_in_turn == 0) {
		conn->second_flush_ns = 0;
		return false;
	}
	const uint64_t now_ns = softrdma_now_ns();
	if (conn->second_flush_ns == 0)
		conn->second_flush_ns = now_ns;
	return now_ns - conn->second_flush_ns >= SOFTRDMA_FLUSH_TURN_NS;
}

void
softrdma_flush_start(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	struct softrdma_responder *resp = &link->responder;
	assert(softrdma_responder_is_flushing(resp) && !conn->flush_running);
	struct softrdma_persist *persist = resp->flush_mr->persist;
	const void *addr = (const void *)(uintptr_t)resp->flush_addr;
	if (conn->fault_inject)
		softrdma_fault_inject_flush_begins(conn->fault_inject);
	bool slow = conn->fault_inject && conn->fault_inject->flush_delay_ns > 0;
	/* all flushes of one turn count together: many short ones take as long as a long one */
	const size_t in_turn = conn->flushed_in_turn + resp->flush_len;
	if (slow || softrdma_persist_may_block(persist, in_turn) || is_turn_over(conn)) {
		conn->flush_running = true;
		int ret = conn->has_worker ? 0 : softrdma_workers_submit(conn, flush_on_worker);
		if (ret == 0)
			return;
		conn->flush_running = false;
		static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
		/*
		 * message(memory): no thread can be started -> Raise the limit of threads (`ulimit -u`,
		 * `TasksMax=`).
		 */
		SOFTRDMA_LOG_FEW(&limit, WARNING,
			"no thread for a flush (%s): it holds up all other connections", strerror(ret));
	}
	conn->flushed_in_turn = in_turn;
	uint64_t ns;
	int error = make_durable(conn, persist, addr, resp->flush_len, &ns);
	count_time(conn, ns);
	softrdma_responder_flushed(resp, error);
}
