/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* pace.c -- how a thread of the program spends its time between the events that it takes */

#include <stdatomic.h>
#include <time.h>

#include "softrdma/base/env.h"
#include "softrdma/engine/pace.h"

/* a thread that uses more processor time than this for each event computes */
#define COMPUTES_NS 50000u

/* measured for some time at once, because to ask for processor time is a system call */
#define MEASURED_NS (6 * SOFTRDMA_NS_PER_MS)

struct softrdma_pace *
softrdma_pace_mine(void)
{
	static _Thread_local struct softrdma_pace mine;
	return &mine;
}

unsigned
softrdma_pace_thread(struct softrdma_pace *pace)
{
	static atomic_uint threads;
	if (pace->thread == 0)
		pace->thread =
			atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % SOFTRDMA_PACE_THREADS +
			1;
	return pace->thread - 1;
}

static uint64_t
processor_time_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

bool
softrdma_pace_computes(struct softrdma_pace *pace, uint64_t now_ns)
{
	pace->events++;
	if (now_ns - pace->since_ns < MEASURED_NS)
		return pace->computes;
	const uint64_t cpu_ns = processor_time_ns();
	const bool is_first = pace->since_ns == 0;
	pace->computes =
		!is_first && cpu_ns - pace->cpu_ns > (uint64_t)pace->events * COMPUTES_NS + pace->spun_ns;
	pace->since_ns = now_ns;
	pace->cpu_ns = cpu_ns;
	pace->spun_ns = 0;
	pace->events = 0;
	return pace->computes;
}
