/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* cpu.h -- what processor time and time of the clock have passed */

#ifndef PERF_CPU_H
#define PERF_CPU_H

#include <stdint.h>

/* of the whole process, the device's own threads included */
struct cpu_time {
	uint64_t user_us;
	uint64_t system_us;
};

struct cpu_time cpu_now(void);
struct cpu_time cpu_since(struct cpu_time then);

/* monotonic */
uint64_t now_ns(void);

#endif /* PERF_CPU_H */
