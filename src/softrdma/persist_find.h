/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* persist_find.h -- which file is behind a mapping */

#ifndef SOFTRDMA_PERSIST_FIND_H
#define SOFTRDMA_PERSIST_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "mapping.h"

/*
 * Opens the file behind a shared area with O_PATH, which needs no right on the file. name is what the kernel
 * shows for the area. The descriptor, or -1 if the file cannot be found.
 */
int softrdma_find_file(const struct softrdma_area *area, const char *name);

/*
 * True if the mapping at base shows the same file as the area: the same device and inode number, and where
 * these do not tell files apart (btrfs), the same name. st is of the file that was mapped at base.
 */
bool softrdma_find_is_same(const void *base, const struct softrdma_area *area, const char *name,
	const struct stat *st);

/* true if the kernel's name of a mapping is that of a memfd */
bool softrdma_find_is_memfd(const char *name);

/* true if the file that is mapped at base has lost its name; false also if the kernel does not tell */
bool softrdma_find_is_deleted(const void *base);

#endif /* SOFTRDMA_PERSIST_FIND_H */
