/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* persist_kind.h -- what stores a mapped file, and therefore what makes it durable */

#ifndef SOFTRDMA_PERSIST_KIND_H
#define SOFTRDMA_PERSIST_KIND_H

#include <sys/stat.h>

#include "softrdma/persist/mapping.h"

enum softrdma_kind {
	SOFTRDMA_KIND_DISK,   /* msync writes it to a medium */
	SOFTRDMA_KIND_MEMORY, /* tmpfs, memfd, huge pages: survives the process, but no power failure; msync
				 is a formality */
	SOFTRDMA_KIND_DAX,    /* only the processor's caches are between a store and the medium */
};

/*
 * Classifies the file that fd (of O_PATH) refers to, mapped at the area. NULL with *kind, or the reason why
 * it cannot be made durable.
 */
const char *softrdma_kind_of(int fd, const struct softrdma_area *area, const struct stat *st,
	enum softrdma_kind *kind);

/*
 * True if the file's area is a mapping with MAP_SYNC: only such a mapping needs no msync. With any other
 * mapping the file system may not have recorded yet where on the medium the data is.
 */
bool softrdma_kind_is_dax_mapping(int fd, const struct softrdma_area *area);

/*
 * Logs a WARNING, once for each cause, if a flush of the file guarantees less than that of a file on a local
 * disk: a file system in memory, a file system whose medium cannot be seen from here, a block device in memory.
 */
void softrdma_kind_warn(int fd, const struct stat *st, const char *name);

#endif /* SOFTRDMA_PERSIST_KIND_H */
