/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * persistent.h -- a file mapped by libpmem2, on any storage
 *
 * On persistent memory (DAX), stores become durable by flushing cache lines, or are durable at once (eADR).
 * On a disk and on tmpfs they need msync. libpmem2 finds out which ("granularity") and gives the right
 * persist function.
 */

#ifndef EXAMPLES_PERSISTENT_H
#define EXAMPLES_PERSISTENT_H

#include <stdbool.h>
#include <stddef.h>

#include <libpmem2.h>

struct persistent {
	void *ptr;
	size_t size;
	struct pmem2_map *map;
	pmem2_persist_fn persist;
	const char *granularity; /* as text, for the user */
};

/*
 * persistent_sync_directory -- make the name of a new file durable
 *
 * Returns 0, or -1 and errno.
 */
int persistent_sync_directory(const char *path);

/*
 * persistent_map -- map the whole file open at fd, which may be closed afterwards
 *
 * A file that is mapped writable has its directory synced: it may be new.
 *
 * Returns 0, or -1 after it has told the user what went wrong.
 */
int persistent_map(int fd, const char *path, bool writable, struct persistent *mem);

void persistent_unmap(struct persistent *mem);

#endif /* EXAMPLES_PERSISTENT_H */
