/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * latency.h -- how long it took, as a histogram: fixed memory, about 3 % exact
 */

#ifndef LATENCY_H
#define LATENCY_H

#include <stdint.h>

/* each power of two is cut into this many equal parts */
#define LATENCY_PARTS 32
#define LATENCY_SLOTS (64 * LATENCY_PARTS)

struct latency {
	uint64_t count;
	uint64_t slots[LATENCY_SLOTS];
};

/* so many events took that long */
void latency_add(struct latency *l, uint64_t ns, uint64_t count);

/* the time that so many of 1000 events did not exceed, in ns; 0 if there were none */
uint64_t latency_permille(const struct latency *l, unsigned permille);

#endif /* LATENCY_H */
