/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* stats.h -- the counters of a connection and of a peer: without a lock, each one independent of the others */

#ifndef RPMAI_STATS_H
#define RPMAI_STATS_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t counter;

/* operations posted, and whether the connection has been established */
struct conn_counters {
	counter reads, writes, atomics, flushes, sends, recvs;
	counter bytes_read, bytes_written, bytes_sent;
	counter established; /* 0 or 1 */
};

/* counters of a completion queue */
struct cq_counters {
	counter completions, errors, waits;
};

static inline void
rpmai_stats_add(counter *c, uint64_t n)
{
	atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

static inline uint64_t
rpmai_stats_get(const counter *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

struct rpma_conn;
struct rpma_peer_stats;

/* adds what a connection has counted to the sum of a peer; its queues are there. Its own size is left as it is. */
void rpmai_stats_add_conn(const struct rpma_conn *conn, struct rpma_peer_stats *sum);

#endif /* RPMAI_STATS_H */
