/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* memory.h -- the memory of the target: of this process, a file, or persistent memory */

#ifndef PERF_MEMORY_H
#define PERF_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file_map.h"
#include "why.h"

#define MEMORY_DRAM "dram"

struct memory {
	uint8_t *ptr;
	size_t size;
	bool is_file;            /* true if it is a file, so it may be durable */
	const char *granularity; /* of stores; NULL if it is not a file */
	/* for closing it */
	int fd;
	char *created; /* path of a file created for this, to be removed at the end; or NULL */
	struct file_map map;
};

/*
 * Makes size bytes, zeroed. where is one of: "dram"; a directory, in which a file is created and removed at
 * the end; a file that does not exist, with the same effect; an existing file or DAX device. The content of
 * the last is lost, so it needs overwrite. After a failure it returns false and leaves nothing behind.
 */
bool memory_open(struct memory *memory, const char *where, bool overwrite, size_t size,
	char why[static WHY_MAX]);
void memory_close(struct memory *memory);
/* true if several can be open at once, each with memory of its own: false for a file or a device */
bool memory_can_be_shared(const char *where);
/* true if memory_open() could open it now; nothing is changed */
bool memory_check(const char *where, bool overwrite, char why[static WHY_MAX]);

#endif /* PERF_MEMORY_H */
