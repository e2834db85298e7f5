/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include "latency.h"

/*
 * Small values have a slot each; the others, one per power of two and per value of the bits after the first
 */
static unsigned
slot_of(uint64_t ns)
{
	if (ns < LATENCY_PARTS)
		return (unsigned)ns;

	unsigned shift = 63 - (unsigned)__builtin_clzll(ns) - 5;
	return (shift + 1) * LATENCY_PARTS + (unsigned)((ns >> shift) & (LATENCY_PARTS - 1));
}

/* the smallest value of the slot */
static uint64_t
value_of(unsigned slot)
{
	if (slot < LATENCY_PARTS)
		return slot;

	unsigned shift = slot / LATENCY_PARTS - 1;
	return (uint64_t)(LATENCY_PARTS + slot % LATENCY_PARTS) << shift;
}

_Static_assert(LATENCY_PARTS == 1 << 5, "slot_of() keeps five bits");

void
latency_add(struct latency *l, uint64_t ns, uint64_t count)
{
	l->slots[slot_of(ns)] += count;
	l->count += count;
}

uint64_t
latency_permille(const struct latency *l, unsigned permille)
{
	/* rounded up, so that with one event every percentile is that event */
	uint64_t wanted = l->count - l->count * (1000 - permille) / 1000;
	uint64_t seen = 0;

	if (l->count == 0)
		return 0;
	for (unsigned i = 0; i < LATENCY_SLOTS; i++) {
		seen += l->slots[i];
		if (seen >= wanted && seen)
			return value_of(i);
	}
	return value_of(LATENCY_SLOTS - 1);
}
