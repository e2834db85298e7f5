/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* figures.c -- how long the operations of an honest client take */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "figures.h"

#define SAMPLES_MAX 2000000

static uint32_t samples[SAMPLES_MAX]; /* us */
static size_t sample_count;
static unsigned long connects;
static uint32_t longest_connect;
static uint32_t longest_operation; /* includes those for which there is no sample left */

int64_t
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void
figures_connect(int64_t us)
{
	connects++;
	longest_connect = us > longest_connect ? (uint32_t)us : longest_connect;
}

void
figures_operation(int64_t us)
{
	longest_operation = us > longest_operation ? (uint32_t)us : longest_operation;
	if (sample_count < SAMPLES_MAX)
		samples[sample_count++] = (uint32_t)us;
}

static int
compare(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

void
figures_print(void)
{
	qsort(samples, sample_count, sizeof(samples[0]), compare);
	printf(FIGURES_FORMAT, connects, longest_connect, (unsigned long)sample_count,
		samples[sample_count / 2], samples[sample_count * 99 / 100], longest_operation);
}
