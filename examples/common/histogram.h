/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * histogram.h -- a histogram of latencies, for the replicated log, rpma-perf and the benchmarks
 *
 * Log-linear: each power of two is divided into 64 equal buckets. A quantile is the upper end of its bucket. So it
 * is at most 1/64 (1.6 %) above the value that was added, and never below it. This holds from 1 to the largest
 * 64-bit number, in a fixed amount of memory. The largest value is kept exactly.
 */

#ifndef EXAMPLES_HISTOGRAM_H
#define EXAMPLES_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

#define HISTOGRAM_SUB_BITS 6
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS)

/* a histogram of all zeros is empty */
struct histogram {
	uint64_t count;
	double sum;
	uint64_t max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);
/* adds the same value count times */
void histogram_add_many(struct histogram *h, uint64_t value, uint64_t count);
/* adds all values of from to h */
void histogram_merge(struct histogram *h, const struct histogram *from);

/*
 * True if there are enough values to know the quantile: at least one value is expected above it. The median needs
 * 2 values, 0.9 needs 10, 0.99 needs 100 and 0.999 needs 1,000. The largest value (part 1) needs one.
 */
bool histogram_supports(const struct histogram *h, double part);
/*
 * The value that the given part (0 to 1) of all values does not exceed. It is the upper end of a bucket, at
 * most the largest value. 0 if the histogram is empty.
 */
uint64_t histogram_quantile(const struct histogram *h, double part);
/* 0 if the histogram is empty */
double histogram_mean(const struct histogram *h);

#endif /* EXAMPLES_HISTOGRAM_H */
