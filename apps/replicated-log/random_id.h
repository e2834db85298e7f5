/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* random_id.h -- a number that tells logs, replicas or writers apart */

#ifndef LOG_RANDOM_ID_H
#define LOG_RANDOM_ID_H

#include <stdint.h>
#include <sys/random.h>
#include <sys/types.h>

/* from 1 to mask, which is a power of two minus 1 */
static inline uint64_t
random_id(uint64_t mask)
{
	uint64_t id = 0;

	while ((id & mask) == 0) {
		/* it is interrupted at most; the next one is tried then */
		if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
			id = 0;
	}

	return id & mask;
}

#endif /* LOG_RANDOM_ID_H */
