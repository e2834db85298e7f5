/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* cpu.h -- processor time and clock time */

#ifndef PERF_CPU_H
#define PERF_CPU_H

#include <stdint.h>

/* processor time of the whole process, including the device's threads */
struct cpu_time {
	uint64_t user_us;
	uint64_t system_us;
};

struct cpu_time cpu_now(void);
struct cpu_time cpu_since(struct cpu_time then);

/* monotonic time */
uint64_t now_ns(void);
/* sleeps until that time, or until a signal comes */
void sleep_until(uint64_t ns);

#endif /* PERF_CPU_H */
