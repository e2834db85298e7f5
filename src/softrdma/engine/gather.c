/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* gather.c -- small requests wait for a response, and leave together */

#include "softrdma/base/env.h"
#include "softrdma/bounds.h"
#include "softrdma/engine/gather.h"

/* after requests have waited for too long, none wait for this many times as long */
#define PAUSE 100

static bool
is_long(const struct softrdma_connection *conn, uint64_t now_ns)
{
	return conn->gathers_since_ns && now_ns - conn->gathers_since_ns > SOFTRDMA_GATHER_NS;
}

bool
softrdma_gather_may(struct softrdma_connection *conn, uint32_t from)
{
	if (!softrdma_requester_may_gather(&conn->link.requester, from))
		return false;
	const uint64_t now_ns = softrdma_now_ns();
	if (is_long(conn, now_ns) || now_ns < conn->gather_again_ns)
		return false;
	if (conn->gathers_since_ns == 0)
		conn->gathers_since_ns = now_ns;
	return true;
}

void
softrdma_gather_ends(struct softrdma_connection *conn)
{
	if (conn->gathers_since_ns == 0)
		return;
	const uint64_t now_ns = softrdma_now_ns();
	if (is_long(conn, now_ns))
		conn->gather_again_ns = now_ns + PAUSE * (now_ns - conn->gathers_since_ns);
	conn->gathers_since_ns = 0;
}

void
softrdma_gather_no_longer(struct softrdma_link *link)
{
	if (softrdma_connection_of(link)->gathers_since_ns)
		softrdma_connection_send(link);
}
