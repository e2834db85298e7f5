/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* pace.c -- the times at which the operations of a connection are due, evenly spaced */

#include <assert.h>

#include "pace.h"

void
pace_begin(struct pace *pace, double per_second, double part, uint64_t now_ns, uint64_t first)
{
	assert(per_second > 0 && part >= 0 && part <= 1);
	pace->interval_ns = 1e9 / per_second;
	pace->begin_ns = now_ns + (uint64_t)(pace->interval_ns * part);
	pace->first = first;
}

uint64_t
pace_due(const struct pace *pace, uint64_t sequence)
{
	assert(sequence >= pace->first);
	/* multiplied each time, since a sum of intervals would add up what was rounded */
	return pace->begin_ns + (uint64_t)(pace->interval_ns * (double)(sequence - pace->first));
}
