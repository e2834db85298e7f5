/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* ranges.c -- which bytes have been written since the last flush */

#include <assert.h>
#include <string.h>

#include "ranges.h"

void
ranges_init(struct ranges *ranges, int max)
{
	assert(max >= 1 && max <= RANGES_MAX);
	ranges->max = max;
	ranges->count = 0;
}

void
ranges_clear(struct ranges *ranges)
{
	ranges->count = 0;
}

static void
remove_at(struct ranges *ranges, int first, int count)
{
	ranges->count -= count;
	memmove(&ranges->at[first], &ranges->at[first + count],
		(size_t)(ranges->count - first) * sizeof(ranges->at[0]));
}

/* makes one range of the two that are closest to each other */
static void
merge_closest(struct ranges *ranges)
{
	int closest = 0;

	assert(ranges->count >= 2);
	for (int i = 1; i + 1 < ranges->count; i++)
		if (ranges->at[i + 1].begin - ranges->at[i].end <
			ranges->at[closest + 1].begin - ranges->at[closest].end)
			closest = i;
	ranges->at[closest].end = ranges->at[closest + 1].end;
	remove_at(ranges, closest + 1, 1);
}

void
ranges_add(struct ranges *ranges, uint64_t begin, uint64_t end)
{
	int first = 0, last;

	assert(begin <= end);
	if (begin == end)
		return;
	while (first < ranges->count && ranges->at[first].end < begin)
		first++;
	/* those from first up to, but not including, last overlap the new one or touch it */
	for (last = first; last < ranges->count && ranges->at[last].begin <= end; last++) {
		if (ranges->at[last].begin < begin)
			begin = ranges->at[last].begin;
		if (ranges->at[last].end > end)
			end = ranges->at[last].end;
	}
	if (last > first) {
		remove_at(ranges, first + 1, last - first - 1);
	} else {
		memmove(&ranges->at[first + 1], &ranges->at[first],
			(size_t)(ranges->count - first) * sizeof(ranges->at[0]));
		ranges->count++;
	}
	ranges->at[first] = (struct range){ begin, end };
	if (ranges->count > ranges->max)
		merge_closest(ranges);
}
