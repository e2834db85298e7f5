/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * sim.h -- what is left of chance and time: one seed decides all of it
 *
 * The software device runs here as it is, its progress thread and its workers too, on what looks to it like
 * an operating system (by --wrap of the linker) and is none: threads are fibers of one thread that change
 * where they would wait and, if the seed wants it, at each lock (fiber.c); sockets are pipes of bytes in
 * memory (net.c); the medium is an image of what has been made durable (disk.c); the clock moves when nobody
 * can. Whatever one run of a seed does, the next one does again.
 */

#ifndef TEST_SIMULATION_SIM_H
#define TEST_SIMULATION_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_NEVER UINT64_MAX
#define SIM_US ((uint64_t)1000)
#define SIM_MS (1000 * SIM_US)
#define SIM_S (1000 * SIM_MS)

/* of the seed that is being run */
struct sim {
	uint64_t seed;
	uint64_t random;
	uint64_t now_ns;
	uint64_t steps;
	bool tracing; /* each line goes into the hash */
	bool printing;
	uint64_t hash;
};

extern struct sim sim;

void sim_begin(uint64_t seed, bool tracing, bool printing);

uint64_t sim_random(void);
/* 0 to limit - 1 */
uint32_t sim_below(uint32_t limit);
/* true so often of a thousand times */
bool sim_chance(unsigned per_mille);
/* mostly short, up to a limit */
uint64_t sim_delay_ns(uint64_t max_ns);
void sim_random_bytes(void *buf, size_t len);

/* what happens, for those who read it, and for the hash; no addresses, no keys but as far as the seed makes
 * them */
#define SIM_TRACE(...) \
	do { \
		if (sim.tracing) \
			sim_trace(__VA_ARGS__); \
	} while (0)

void sim_trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* says what, and how to see it again, and ends the program */
_Noreturn void sim_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define SIM_CHECK(condition, ...) \
	do { \
		if (!(condition)) \
			sim_fail(__VA_ARGS__); \
	} while (0)

#endif /* TEST_SIMULATION_SIM_H */
