/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* stats.c -- the counters of a connection and of a peer, for the program */

#include <assert.h>
#include <string.h>

#include "conn.h"
#include "conn_table.h"
#include "err.h"
#include "inherited.h"
#include "peer.h"
#include "rdma.h"

static_assert(sizeof(struct rpma_conn_stats) == 14 * sizeof(uint64_t), "it only ever grows at its end");
static_assert(sizeof(struct rpma_peer_stats) == (28 + RPMA_FLUSH_TIMES) * sizeof(uint64_t),
	"it only ever grows at its end");
static_assert(RPMA_FLUSH_TIMES == RPMAI_FLUSH_TIMES, "one histogram");

/* copies as much of now as the program has room for, and zeroes the rest of the room */
static void
give(void *stats, uint64_t room, const void *now, size_t len)
{
	memcpy(stats, now, len);
	memset((char *)stats + len, 0, room - len);
}

int
rpma_conn_get_stats(const struct rpma_conn *conn, struct rpma_conn_stats *stats)
{
	if (conn == NULL || stats == NULL)
		return RPMAI_FAIL_NULL();
	const uint64_t size = stats->size;
	/*
	 * message(arguments, size-of-stats): rpma_conn_get_stats(3), rpma_peer_get_stats(3) -> Set the
	 * member before the call.
	 */
	if (size < sizeof(stats->size))
		return RPMAI_FAIL(RPMA_E_INVAL, "size is %llu: set it to sizeof(struct rpma_conn_stats)",
			(unsigned long long)size);

	const struct conn_counters *ops = &conn->stats;
	const struct cq_counters *cq = &conn->cq->stats;
	struct rpma_conn_stats now = {
		.size = size < sizeof(now) ? size : sizeof(now),
		.reads = rpmai_stats_get(&ops->reads),
		.writes = rpmai_stats_get(&ops->writes),
		.atomics = rpmai_stats_get(&ops->atomics),
		.flushes = rpmai_stats_get(&ops->flushes),
		.sends = rpmai_stats_get(&ops->sends),
		.recvs = rpmai_stats_get(&ops->recvs),
		.bytes_read = rpmai_stats_get(&ops->bytes_read),
		.bytes_written = rpmai_stats_get(&ops->bytes_written),
		.bytes_sent = rpmai_stats_get(&ops->bytes_sent),
		.completions = rpmai_stats_get(&cq->completions),
		.completion_errors = rpmai_stats_get(&cq->errors),
		.waits = rpmai_stats_get(&cq->waits),
	};
	if (conn->peer->rdma->crc_errors)
		now.crc_errors = conn->peer->rdma->crc_errors(conn->id->qp);
	if (conn->rcq && !conn->rcq_is_borrowed) {
		const struct cq_counters *rcq = &conn->rcq->stats;
		now.completions += rpmai_stats_get(&rcq->completions);
		now.completion_errors += rpmai_stats_get(&rcq->errors);
		now.waits += rpmai_stats_get(&rcq->waits);
	}

	give(stats, size, &now, now.size);
	return 0;
}

/* ---- of a peer ---- */

static void
add_queue(const struct cq_counters *cq, struct rpma_peer_stats *sum)
{
	sum->completions += rpmai_stats_get(&cq->completions);
	sum->completion_errors += rpmai_stats_get(&cq->errors);
}

void
rpmai_stats_add_conn(const struct rpma_conn *conn, struct rpma_peer_stats *sum)
{
	const struct conn_counters *ops = &conn->stats;
	const uint64_t established = rpmai_stats_get(&ops->established);
	sum->connections += established;
	sum->connections_now += established && !atomic_load(&conn->is_closed);
	sum->reads += rpmai_stats_get(&ops->reads);
	sum->writes += rpmai_stats_get(&ops->writes);
	sum->atomics += rpmai_stats_get(&ops->atomics);
	sum->flushes += rpmai_stats_get(&ops->flushes);
	sum->sends += rpmai_stats_get(&ops->sends);
	sum->recvs += rpmai_stats_get(&ops->recvs);
	sum->bytes_read += rpmai_stats_get(&ops->bytes_read);
	sum->bytes_written += rpmai_stats_get(&ops->bytes_written);
	sum->bytes_sent += rpmai_stats_get(&ops->bytes_sent);
	if (conn->cq)
		add_queue(&conn->cq->stats, sum);
	if (conn->rcq && !conn->rcq_is_borrowed)
		add_queue(&conn->rcq->stats, sum);
}

static void
set_served(const struct rpma_peer *peer, struct rpma_peer_stats *now)
{
	struct rdma_served served = { 0 };
	if (peer->rdma->get_served)
		peer->rdma->get_served(peer->pd, &served);
	now->served_reads = served.reads;
	now->served_writes = served.writes;
	now->served_atomics = served.atomics;
	now->served_flushes = served.flushes;
	now->served_sends = served.sends;
	now->served_bytes_read = served.bytes_read;
	now->served_bytes_written = served.bytes_written;
	now->served_bytes_sent = served.bytes_sent;
	now->refused_invalid = served.refused_invalid;
	now->refused_access = served.refused_access;
	now->refused_failed = served.refused_failed;
	now->crc_errors = served.crc_errors;
	now->flush_ns = served.flush_ns;
	memcpy(now->flush_times, served.flush_times, sizeof(now->flush_times));
}

int
rpma_peer_get_stats(struct rpma_peer *peer, struct rpma_peer_stats *stats)
{
	if (peer == NULL || stats == NULL)
		return RPMAI_FAIL_NULL();
	const uint64_t size = stats->size;
	/* message(size-of-stats) */
	if (size < sizeof(stats->size))
		return RPMAI_FAIL(RPMA_E_INVAL, "size is %llu: set it to sizeof(struct rpma_peer_stats)",
			(unsigned long long)size);
	if (rpmai_peer_is_inherited(peer))
		return rpmai_refuse_inherited();

	struct rpma_peer_stats now = { .size = size < sizeof(now) ? size : sizeof(now) };
	rpmai_conn_table_sum(peer->conns, &now);
	now.refused_connections = rpmai_stats_get(&peer->refused_connections);
	set_served(peer, &now);
	give(stats, size, &now, now.size);
	return 0;
}
