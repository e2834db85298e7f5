/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* clock.h -- time that never goes back; only differences mean anything */

#ifndef LOG_CLOCK_H
#define LOG_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static inline int64_t
now_ms(void)
{
	return now_ns() / 1000000;
}

#endif /* LOG_CLOCK_H */
