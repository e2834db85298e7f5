/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* cpu.c -- processor time and clock time */

#include <sys/resource.h>
#include <time.h>

#include "cpu.h"

static uint64_t
us(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * 1000000 + (uint64_t)tv.tv_usec;
}

struct cpu_time
cpu_now(void)
{
	struct rusage usage = { 0 };
	(void)getrusage(RUSAGE_SELF, &usage); /* fails only for wrong arguments */
	return (struct cpu_time){ .user_us = us(usage.ru_utime), .system_us = us(usage.ru_stime) };
}

struct cpu_time
cpu_since(struct cpu_time then)
{
	struct cpu_time now = cpu_now();
	return (struct cpu_time){ now.user_us - then.user_us, now.system_us - then.system_us };
}

uint64_t
now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void
sleep_until(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };
	(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}
