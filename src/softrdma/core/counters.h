/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * counters.h -- what one side of a connection counts
 *
 * The members are those of struct softrdma_stats. Only a thread that holds the link's lock adds to them, so there is one
 * writer at a time, and no instruction that locks the bus. Any thread may read them without the lock. It sees each one as
 * it was at some moment, and not all of them as they were at the same moment.
 */

#ifndef SOFTRDMA_COUNTERS_H
#define SOFTRDMA_COUNTERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "softrdma/softrdma.h"

#define SOFTRDMA_COUNTERS (sizeof(struct softrdma_stats) / sizeof(uint64_t))

struct softrdma_counters {
	_Atomic uint64_t value[SOFTRDMA_COUNTERS];
};

static inline void
softrdma_counters_add(struct softrdma_counters *counters, size_t at, uint64_t n)
{
	const uint64_t before = atomic_load_explicit(&counters->value[at], memory_order_relaxed);
	atomic_store_explicit(&counters->value[at], before + n, memory_order_relaxed);
}

/* adds n to a member, for example served.operations[SOFTRDMA_STATS_READ] */
#define SOFTRDMA_COUNT(counters, member, n) \
	softrdma_counters_add(counters, offsetof(struct softrdma_stats, member) / sizeof(uint64_t), n)

/* adds all of them to a sum */
static inline void
softrdma_counters_sum(const struct softrdma_counters *counters, struct softrdma_stats *sum)
{
	uint64_t to[SOFTRDMA_COUNTERS];
	memcpy(to, sum, sizeof(to));
	for (size_t at = 0; at < SOFTRDMA_COUNTERS; at++)
		to[at] += atomic_load_explicit(&counters->value[at], memory_order_relaxed);
	memcpy(sum, to, sizeof(to));
}

/* adds one sum to another */
static inline void
softrdma_stats_add(struct softrdma_stats *sum, const struct softrdma_stats *more)
{
	uint64_t to[SOFTRDMA_COUNTERS], from[SOFTRDMA_COUNTERS];
	memcpy(to, sum, sizeof(to));
	memcpy(from, more, sizeof(from));
	for (size_t at = 0; at < SOFTRDMA_COUNTERS; at++)
		to[at] += from[at];
	memcpy(sum, to, sizeof(to));
}

#endif /* SOFTRDMA_COUNTERS_H */
