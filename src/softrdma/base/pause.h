/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* pause.h -- pauses that get longer if their reason comes again */

#ifndef SOFTRDMA_PAUSE_H
#define SOFTRDMA_PAUSE_H

#include <stdint.h>

/* the pause that follows another one (0: there was none): the shortest, then twice as long each time, up to the longest */
static inline uint64_t
softrdma_pause_next(uint64_t before, uint64_t shortest, uint64_t longest)
{
	if (before == 0)
		return shortest;
	return before < longest / 2 ? 2 * before : longest;
}

#endif /* SOFTRDMA_PAUSE_H */
