/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* latency.h -- a histogram of latencies: fixed memory, values accurate to about 3 % */

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

/* adds count events of that latency */
void latency_add(struct latency *l, uint64_t ns, uint64_t count);

/* the latency in ns that permille of 1000 events did not exceed; 0 if there were no events */
uint64_t latency_permille(const struct latency *l, unsigned permille);

#endif /* LATENCY_H */
