/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* histogram.c -- a histogram of latencies */

#include <assert.h>
#include <math.h>
#include <stddef.h>

#include "histogram.h"

#define SUB ((uint64_t)1 << HISTOGRAM_SUB_BITS)

/*
 * Values below SUB have a bucket each. Above that, the highest bits of a value select the bucket: the
 * exponent selects the group, and the HISTOGRAM_SUB_BITS bits after the leading one select the bucket in it.
 */
static size_t
bucket_of(uint64_t value)
{
	if (value < SUB)
		return (size_t)value;
	unsigned int shift = 63 - (unsigned int)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
	return (size_t)(((uint64_t)shift << HISTOGRAM_SUB_BITS) + (value >> shift));
}

/* the largest value of the bucket */
static uint64_t
upper_end(size_t bucket)
{
	if (bucket < SUB)
		return bucket;
	unsigned int shift = (unsigned int)(bucket >> HISTOGRAM_SUB_BITS) - 1;
	uint64_t first = (SUB + (bucket & (SUB - 1))) << shift;
	return first + (((uint64_t)1 << shift) - 1);
}

void
histogram_add_many(struct histogram *h, uint64_t value, uint64_t count)
{
	if (count == 0)
		return;
	h->count += count;
	h->sum += (double)value * (double)count;
	if (value > h->max)
		h->max = value;
	h->buckets[bucket_of(value)] += count;
}

void
histogram_add(struct histogram *h, uint64_t value)
{
	histogram_add_many(h, value, 1);
}

void
histogram_merge(struct histogram *h, const struct histogram *from)
{
	h->count += from->count;
	h->sum += from->sum;
	if (from->max > h->max)
		h->max = from->max;
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		h->buckets[i] += from->buckets[i];
}

bool
histogram_supports(const struct histogram *h, double part)
{
	assert(part >= 0 && part <= 1);
	if (part >= 1)
		return h->count > 0;
	/* 1 - 0.9 is a little less than 0.1 */
	return (double)h->count * (1 - part) >= 1 - 1e-9;
}

uint64_t
histogram_quantile(const struct histogram *h, double part)
{
	assert(part >= 0 && part <= 1);
	if (h->count == 0)
		return 0;
	uint64_t rank = (uint64_t)ceil(part * (double)h->count);
	uint64_t seen = 0;
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen >= rank && seen > 0)
			return upper_end(i) < h->max ? upper_end(i) : h->max;
	}
	return h->max;
}

double
histogram_mean(const struct histogram *h)
{
	return h->count ? h->sum / (double)h->count : 0;
}
