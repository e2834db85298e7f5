/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* deadlines.c -- what happens when a deadline of a connection has passed */

#include "softrdma/base/env.h"
#include "softrdma/engine/deadlines.h"
#include "softrdma/engine/links.h"

static void
look_at_deadlines(struct softrdma_connection *conn, const void *arg)
{
	struct softrdma_link *link = &conn->link;
	const uint64_t now_ns = *(const uint64_t *)arg;
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	if (softrdma_timer_has_expired(&conn->deadline, now_ns)) {
		SOFTRDMA_LOG_FEW(&limit, WARNING, "a peer did not respond in time: connection closed");
		softrdma_connection_stream_ended(conn);
	}
	if (link->requester.waiting && softrdma_timer_has_expired(&conn->rnr_timer, now_ns)) {
		softrdma_requester_fail(&link->requester, IBV_WC_RNR_RETRY_EXC_ERR);
		softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
		softrdma_connection_send(link);
	}
	if (softrdma_timer_has_expired(&conn->absence_timer, now_ns)) {
		softrdma_link_fail(link, IBV_WC_RETRY_EXC_ERR);
		softrdma_connection_send(link);
	}
}

void
softrdma_deadlines_tick(const struct softrdma_engine *engine, uint64_t now_ns)
{
	softrdma_links_each_of(engine, look_at_deadlines, &now_ns);
}

void
softrdma_deadlines_move(struct softrdma_connection *conn, struct softrdma_engine *engine)
{
	softrdma_timer_move(&conn->deadline, engine);
	softrdma_timer_move(&conn->rnr_timer, engine);
	softrdma_timer_move(&conn->absence_timer, engine);
}
