/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* sim.c -- chance and time, all decided by one seed */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fiber.h"
#include "sim.h"

#define HASH_BEGIN 0xcbf29ce484222325u
#define HASH_PRIME 0x100000001b3u

/* the clock starts here, so that 0 is never a valid time */
#define EPOCH_NS (1000 * SIM_S)

struct sim sim;
const char *sim_options = "";

void
sim_begin(uint64_t seed, bool tracing, bool printing)
{
	sim = (struct sim){
		.seed = seed,
		.random = seed * 0x9e3779b97f4a7c15u + 1,
		.now_ns = EPOCH_NS,
		.tracing = tracing,
		.printing = printing,
		.hash = HASH_BEGIN,
	};
}

/* splitmix64 */
uint64_t
sim_random(void)
{
	uint64_t z = sim.random += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint32_t
sim_below(uint32_t limit)
{
	return (uint32_t)(((sim_random() >> 32) * limit) >> 32);
}

bool
sim_chance(unsigned per_mille)
{
	return per_mille > 0 && sim_below(1000) < per_mille;
}

uint64_t
sim_delay_ns(uint64_t max_ns)
{
	/* all powers of two up to the limit are equally likely */
	unsigned shift = sim_below(40);
	uint64_t limit = ((uint64_t)1 << shift) < max_ns ? (uint64_t)1 << shift : max_ns;

	return sim_random() % (limit + 1);
}

void
sim_random_bytes(void *buf, size_t len)
{
	uint8_t *at = buf;

	while (len > 0) {
		uint64_t value = sim_random();
		size_t n = len < sizeof(value) ? len : sizeof(value);
		memcpy(at, &value, n);
		at += n;
		len -= n;
	}
}

void
sim_trace(const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	uint64_t now_us = (sim.now_ns - EPOCH_NS) / SIM_US;
	if (sim.printing)
		printf("%10" PRIu64 ".%06" PRIu64 " %-9s %s\n", now_us / 1000000, now_us % 1000000,
			fiber_name(), line);
	for (const char *at = line; *at; at++)
		sim.hash = (sim.hash ^ (uint8_t)*at) * HASH_PRIME;
	sim.hash = (sim.hash ^ sim.now_ns) * HASH_PRIME;
}

void
sim_fail(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fflush(stdout);
	/* not by fprintf(), which a simulation may replace */
	dprintf(STDERR_FILENO, "FAILED: seed %" PRIu64 ", step %" PRIu64 ", %s: %s\n", sim.seed, sim.steps,
		fiber_name(), text);
	dprintf(STDERR_FILENO, "to see it again: %s%s --seed %" PRIu64 " --trace\n",
		program_invocation_short_name, sim_options, sim.seed);
	_Exit(EXIT_FAILURE);
}
