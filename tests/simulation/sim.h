/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * sim.h -- chance and time, all decided by one seed
 *
 * The unchanged software device runs here, with its progress thread and its workers, on a simulated operating
 * system (by --wrap of the linker). Threads are fibers of one thread, which switch where they would wait and,
 * if the seed decides it, at locks (fiber.c). Streams are pipes of bytes in memory (net.c). The medium is an
 * image of the durable bytes (disk.c). The clock advances when no fiber can run. Each run of a seed does the
 * same as the one before.
 *
 * With --datagrams, the applications have queue pairs of unreliable datagrams (datagram.h), and udp.c has their sockets and a
 * network that loses, doubles, reorders and damages. For some seeds a connection is beside them.
 *
 * The simulation of the replicated log (log/) has this clock, these fibers and this main program as well. Its
 * world is another one: log/world.c.
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

/* the state of the current seed */
struct sim {
	uint64_t seed;
	uint64_t random;
	uint64_t now_ns;
	uint64_t steps;
	bool tracing; /* each line is added to the hash */
	bool printing;
	uint64_t hash;
};

extern struct sim sim;
/* of the command line, without which a seed is another one */
extern const char *sim_options;

void sim_begin(uint64_t seed, bool tracing, bool printing);

uint64_t sim_random(void);
/* a number from 0 to limit - 1 */
uint32_t sim_below(uint32_t limit);
/* true per_mille times in a thousand */
bool sim_chance(unsigned per_mille);
/* a random delay, mostly short, up to a limit */
uint64_t sim_delay_ns(uint64_t max_ns);
void sim_random_bytes(void *buf, size_t len);

/*
 * A line about an event, for the reader and for the hash. It must not contain addresses, nor keys that do not
 * follow from the seed.
 */
#define SIM_TRACE(...) \
	do { \
		if (sim.tracing) \
			sim_trace(__VA_ARGS__); \
	} while (0)

void sim_trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* prints the message and how to reproduce it, and ends the program */
_Noreturn void sim_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define SIM_CHECK(condition, ...) \
	do { \
		if (!(condition)) \
			sim_fail(__VA_ARGS__); \
	} while (0)

#endif /* TEST_SIMULATION_SIM_H */
