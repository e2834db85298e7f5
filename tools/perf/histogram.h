/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * histogram.h -- a histogram of latencies
 *
 * Log-linear: each power of two is divided into 64 equal buckets. So a value is known with an error of at
 * most 1/64, from 1 ns to the largest 64-bit number, in a fixed amount of memory. The largest value is kept
 * exactly.
 */

#ifndef PERF_HISTOGRAM_H
#define PERF_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 6
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS)

/* a histogram of all zeros is empty */
struct histogram {
	uint64_t count;
	uint64_t sum;
	uint64_t max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);
/* adds all values of from to h */
void histogram_merge(struct histogram *h, const struct histogram *from);
/*
 * The value that the given part (0 to 1) of all values does not exceed. It is the upper end of a bucket, at
 * most the largest value. 0 if the histogram is empty.
 */
uint64_t histogram_quantile(const struct histogram *h, double part);
/* 0 if the histogram is empty */
double histogram_mean(const struct histogram *h);

#endif /* PERF_HISTOGRAM_H */
