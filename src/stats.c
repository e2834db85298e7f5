/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* stats.c -- the counters of a connection, for the program */

#include <assert.h>
#include <string.h>

#include "conn.h"
#include "err.h"
#include "peer.h"
#include "rdma.h"

static_assert(sizeof(struct rpma_conn_stats) == 14 * sizeof(uint64_t), "it only ever grows at its end");

int
rpma_conn_get_stats(const struct rpma_conn *conn, struct rpma_conn_stats *stats)
{
	if (conn == NULL || stats == NULL)
		return RPMAI_FAIL_NULL();
	const uint64_t size = stats->size;
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

	memcpy(stats, &now, now.size);
	memset((char *)stats + now.size, 0, size - now.size);
	return 0;
}
