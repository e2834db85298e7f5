/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* deadlines.c -- the deadlines of a connection, and what happens when one has passed */

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>

#include "softrdma/base/env.h"
#include "softrdma/engine/deadlines.h"
#include "softrdma/engine/engine.h"

/* --- setting --- */

static void
set(struct softrdma_connection *conn, struct softrdma_deadline *deadline, uint64_t when_ns)
{
	const bool was_set = softrdma_deadline_is_set(deadline);
	deadline->when_ns = when_ns;
	if (was_set == softrdma_deadline_is_set(deadline))
		return;
	softrdma_engine_needs_beat(&conn->watched, SOFTRDMA_BEAT_DEADLINES,
		softrdma_deadline_is_set(&conn->deadline) || softrdma_deadline_is_set(&conn->rnr_timer) ||
			softrdma_deadline_is_set(&conn->absence_timer) ||
			softrdma_deadline_is_set(&conn->ack_timer));
}

void
softrdma_deadline_set(struct softrdma_connection *conn, struct softrdma_deadline *deadline,
	uint64_t from_now_ns)
{
	set(conn, deadline, softrdma_now_ns() + from_now_ns);
}

void
softrdma_deadline_clear(struct softrdma_connection *conn, struct softrdma_deadline *deadline)
{
	set(conn, deadline, 0);
}

/* the timer goes on if the acknowledgement leaves with a reply: to set it for each message would cost more */
void
softrdma_deadline_limit_ack(struct softrdma_connection *conn)
{
	const struct softrdma_link *link = &conn->link;
	if (link->state != SOFTRDMA_LINK_UP || conn->fd < 0 || softrdma_deadline_is_set(&conn->ack_timer) ||
		(!conn->awaits_reply && !softrdma_responder_ack_may_wait(&link->responder)))
		return;
	conn->responded = link->responder.responded;
	softrdma_deadline_set(conn, &conn->ack_timer, SOFTRDMA_ACK_LATER_NS);
}

void
softrdma_deadline_limit_absence(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	bool had = softrdma_deadline_is_set(&conn->absence_timer);
	bool connected = link->state == SOFTRDMA_LINK_UP || link->state == SOFTRDMA_LINK_CLOSING;
	bool waits =
		conn->absence_ms > 0 && !connected && link->requester.ring.tail != link->requester.ring.head;
	if (waits && !had)
		softrdma_deadline_set(conn, &conn->absence_timer,
			(uint64_t)conn->absence_ms * SOFTRDMA_NS_PER_MS);
	else if (!waits)
		softrdma_deadline_clear(conn, &conn->absence_timer);
}

void
softrdma_deadline_limit_end(struct softrdma_connection *conn)
{
	const struct softrdma_link *link = &conn->link;
	bool ends = link->state == SOFTRDMA_LINK_CLOSING || link->state == SOFTRDMA_LINK_DOWN;
	if (ends && conn->fd >= 0 && !softrdma_deadline_is_set(&conn->deadline))
		softrdma_connection_deadline(&conn->link, SOFTRDMA_PEER_TIMEOUT_MS);
}

/* --- the beat --- */

static bool
has_passed(const struct softrdma_deadline *deadline, uint64_t now_ns)
{
	return softrdma_deadline_is_set(deadline) && now_ns >= deadline->when_ns;
}

static void
end_wait_for_reply(struct softrdma_connection *conn)
{
	struct softrdma_responder *resp = &conn->link.responder;
	softrdma_deadline_clear(conn, &conn->ack_timer);
	if (conn->responded == resp->responded)
		softrdma_responder_no_reply(resp);
	else
		softrdma_responder_ack_now(resp); /* replies come, and the last one may be on its way */
	softrdma_connection_send(&conn->link);
}

static void
do_what_is_due(struct softrdma_connection *conn, uint64_t now_ns)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	struct softrdma_link *link = &conn->link;
	if (has_passed(&conn->deadline, now_ns)) {
		/*
		 * message(connected): the other side no longer answers -> Its machine, its network or its
		 * program is down. Connect again.
		 */
		SOFTRDMA_LOG_FEW(&limit, WARNING, "a peer did not respond in time: connection closed");
		softrdma_connection_stream_ended(conn);
	}
	if (link->requester.waiting && has_passed(&conn->rnr_timer, now_ns)) {
		softrdma_requester_fail(&link->requester, IBV_WC_RNR_RETRY_EXC_ERR);
		softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
		softrdma_connection_send(link);
	}
	if (has_passed(&conn->absence_timer, now_ns)) {
		softrdma_link_fail(link, IBV_WC_RETRY_EXC_ERR);
		softrdma_connection_send(link);
	}
	if (has_passed(&conn->ack_timer, now_ns))
		end_wait_for_reply(conn);
}

void
softrdma_deadlines_check(struct softrdma_connection *conn, uint64_t now_ns)
{
	pthread_mutex_lock(&conn->link.lock);
	do_what_is_due(conn, now_ns);
	pthread_mutex_unlock(&conn->link.lock);
}

void
softrdma_deadlines_of_socket(int fd)
{
	const int one = 1;
	const int idle_s = SOFTRDMA_PEER_TIMEOUT_MS / 2000;
	const int interval_s = 2;
	const int probes = (SOFTRDMA_PEER_TIMEOUT_MS / 1000 - idle_s) / interval_s;
	const unsigned timeout_ms = SOFTRDMA_PEER_TIMEOUT_MS;
	/* errors are ignored: these only detect a vanished peer sooner. pending.c has set TCP_NODELAY before the handshake. */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}
