/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* persist_find.h -- finding the file of a mapping */

#ifndef SOFTRDMA_PERSIST_FIND_H
#define SOFTRDMA_PERSIST_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "softrdma/persist/mapping.h"

/*
 * Opens the file of a shared area with O_PATH, which needs no permission on the file. name is what the kernel
 * shows for the area. Gives the descriptor, or -1 if the file cannot be found.
 */
int softrdma_find_file(const struct softrdma_area *area, const char *name);

/*
 * True if the mapping at base shows the same file as the area: the same device and inode number, and the same
 * name if these numbers do not tell files apart (btrfs). st describes the file that was mapped at base.
 */
bool softrdma_find_is_same(const void *base, const struct softrdma_area *area, const char *name,
	const struct stat *st);

/* true if the kernel shows a mapping under the name of a memfd */
bool softrdma_find_is_memfd(const char *name);

/* true if the file that is mapped at base has lost its name; false also if the kernel does not tell */
bool softrdma_find_is_deleted(const void *base);

#endif /* SOFTRDMA_PERSIST_FIND_H */
