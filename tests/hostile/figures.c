/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* figures.c -- how long the operations of an honest client take */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "figures.h"

#define SAMPLES_MAX 2000000

/* of connects or of operations, in us; count and longest include those for which there is no sample left */
struct figures {
	uint32_t samples[SAMPLES_MAX];
	unsigned long count;
	uint32_t longest;
};

static struct figures connects, operations;

int64_t
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void
add(struct figures *figures, int64_t us)
{
	figures->longest = us > figures->longest ? (uint32_t)us : figures->longest;
	if (figures->count < SAMPLES_MAX)
		figures->samples[figures->count] = (uint32_t)us;
	figures->count++;
}

void
figures_connect(int64_t us)
{
	add(&connects, us);
}

void
figures_operation(int64_t us)
{
	add(&operations, us);
}

static int
compare(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* what this many of a hundred do not exceed */
static uint32_t
percentile(struct figures *figures, unsigned percent)
{
	const size_t count = figures->count < SAMPLES_MAX ? figures->count : SAMPLES_MAX;

	qsort(figures->samples, count, sizeof(figures->samples[0]), compare);
	return count ? figures->samples[count * percent / 100] : 0;
}

void
figures_print(void)
{
	printf(FIGURES_FORMAT, connects.count, percentile(&connects, 99), connects.longest, operations.count,
		percentile(&operations, 50), percentile(&operations, 99), operations.longest);
}
