/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* persist_kind.h -- what a mapped file is kept in, and so what makes it durable */

#ifndef SOFTRDMA_PERSIST_KIND_H
#define SOFTRDMA_PERSIST_KIND_H

#include <sys/stat.h>

#include "mapping.h"

enum softrdma_kind {
	SOFTRDMA_KIND_DISK,   /* msync writes it to a medium */
	SOFTRDMA_KIND_MEMORY, /* tmpfs, memfd, huge pages: survives the process, not the power; msync is a
				 formality */
	SOFTRDMA_KIND_DAX,    /* the processor's caches are all that is between a store and the medium */
};

/*
 * Classifies the file that fd (of O_PATH) refers to, mapped at the area. NULL with *kind, or the reason why
 * it cannot be made durable.
 */
const char *softrdma_kind_of(int fd, const struct softrdma_area *area, const struct stat *st,
	enum softrdma_kind *kind);

/*
 * True if the file's area is a mapping with MAP_SYNC: only that is DAX in the sense of needing no msync. With
 * any other mapping the file system may still owe the place of the data on the medium.
 */
bool softrdma_kind_is_dax_mapping(int fd, const struct softrdma_area *area);

/*
 * A WARNING, once for each cause, if a flush of the file is worth less than one of a local disk: a file
 * system in memory, one whose medium cannot be seen from here, a block device in memory.
 */
void softrdma_kind_warn(int fd, const struct stat *st, const char *name);

#endif /* SOFTRDMA_PERSIST_KIND_H */
