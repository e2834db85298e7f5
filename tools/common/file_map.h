/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * file_map.h -- a file or a DAX device, mapped as its storage needs it
 *
 * file_map_pmem2.c implements it with libpmem2: with MAP_SYNC where the file system has it. file_map_posix.c is
 * for builds without libpmem2, and maps files only.
 */

#ifndef TOOLS_FILE_MAP_H
#define TOOLS_FILE_MAP_H

#include <stdbool.h>
#include <stddef.h>

/* of a store: what must be written back so that it is durable */
enum file_granularity {
	FILE_GRANULARITY_PAGE,       /* pages, by msync() */
	FILE_GRANULARITY_CACHE_LINE, /* persistent memory: cache lines */
	FILE_GRANULARITY_BYTE,       /* the same, and a power failure spares the processor's caches */
};

struct pmem2_map;
struct pmem2_source;

struct file_map {
	void *ptr; /* NULL: nothing is mapped */
	size_t size;
	enum file_granularity granularity;
	/* for closing it; NULL without libpmem2 */
	struct pmem2_source *source;
	struct pmem2_map *map;
};

/*
 * Maps all of what fd refers to, shared, for reading and writing. It must have at least at_least bytes. False:
 * the reason is in why, why_size bytes of the caller, and nothing is mapped. The caller keeps fd, and needs it
 * no longer.
 */
bool file_map_open(struct file_map *map, int fd, size_t at_least, char *why, size_t why_size);

/* does nothing if nothing is mapped */
void file_map_close(struct file_map *map);

#endif /* TOOLS_FILE_MAP_H */
