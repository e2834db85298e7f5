/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* bench.h -- code shared by the small benchmark programs: a clock, numbers, and exit on errors */

#ifndef BENCH_H
#define BENCH_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BENCH_WARM_UP_S 0.2 /* not counted: caches and processors get up to speed */

static inline double
bench_now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

_Noreturn static inline void
bench_die(const char *what)
{
	perror(what);
	exit(1);
}

/* parses a number from min to max; else ends the program */
static inline double
bench_number(const char *text, double min, double max)
{
	char *end;
	errno = 0;
	double number = strtod(text, &end);
	if (errno || end == text || *end || !(number >= min && number <= max)) {
		fprintf(stderr, "%s: not a number from %g to %g\n", text, min, max);
		exit(2);
	}
	return number;
}

#endif /* BENCH_H */
