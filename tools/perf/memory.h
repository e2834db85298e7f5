/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* memory.h -- the memory of the target: of this process, a file, or persistent memory */

#ifndef PERF_MEMORY_H
#define PERF_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "why.h"

#define MEMORY_DRAM "dram"

struct pmem2_map;
struct pmem2_source;

struct memory {
	uint8_t *ptr;
	size_t size;
	bool is_file;            /* so it may be durable */
	const char *granularity; /* of stores, as libpmem2 tells; NULL if it is no file */
	/* how to undo it */
	int fd;
	char *created; /* a file that was made for this, and goes with it; NULL */
	struct pmem2_source *source;
	struct pmem2_map *map;
};

/*
 * size bytes, zeroed. where is "dram", a directory (a file is made in it, and removed at the end), a file
 * that does not exist (the same), or a file or a DAX device that does, whose content is lost: only if
 * overwrite allows it. False: nothing is left behind.
 */
bool memory_open(struct memory *memory, const char *where, bool overwrite, size_t size,
	char why[static WHY_MAX]);
void memory_close(struct memory *memory);

#endif /* PERF_MEMORY_H */
