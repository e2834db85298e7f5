/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* ranges.h -- which bytes have been written since the last flush: a bounded set of ranges */

#ifndef NBDKIT_RPMA_RANGES_H
#define NBDKIT_RPMA_RANGES_H

#include <stdint.h>

#define RANGES_MAX 1024

/* bytes from begin up to, but not including, end */
struct range {
	uint64_t begin, end;
};

/*
 * Sorted, and no two of them overlap or touch. If a range more than max is needed, the two that are closest to
 * each other become one, which covers the gap as well.
 */
struct ranges {
	int max; /* 1 to RANGES_MAX */
	int count;
	struct range at[RANGES_MAX + 1];
};

void ranges_init(struct ranges *ranges, int max);
/* an empty range adds nothing */
void ranges_add(struct ranges *ranges, uint64_t begin, uint64_t end);
void ranges_clear(struct ranges *ranges);

#endif /* NBDKIT_RPMA_RANGES_H */
