/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * pace.h -- the times at which the operations of a connection are due, evenly spaced
 *
 * They do not depend on when earlier operations were posted or completed. So an operation that could not be posted
 * in time is late, and the ones after it are not moved.
 */

#ifndef PERF_PACE_H
#define PERF_PACE_H

#include <stdint.h>

struct pace {
	double interval_ns;
	uint64_t begin_ns; /* time at which operation number first is due */
	uint64_t first;
};

/*
 * Begins at now, shifted by a part (0 to 1) of the interval: the operations of several connections are not due at
 * the same time.
 */
void pace_begin(struct pace *pace, double per_second, double part, uint64_t now_ns, uint64_t first);
/* time in ns at which the operation is due; sequence is not less than the first */
uint64_t pace_due(const struct pace *pace, uint64_t sequence);

#endif /* PERF_PACE_H */
