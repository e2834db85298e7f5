/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* persist_file.h -- the files behind registered memory, held while in use and remembered afterwards */

#ifndef SOFTRDMA_PERSIST_FILE_H
#define SOFTRDMA_PERSIST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mapping.h"

struct softrdma_file;

/*
 * Finds and holds the file behind a shared area that the kernel shows under this name; one object for all
 * users of the same file. Ranges up to end_offset of the file will be flushed. 0, EOPNOTSUPP if nothing in it
 * can be made durable, EIO if its medium has failed in the life of this process, or another errno value. A
 * log line says why.
 */
int softrdma_file_get(const struct softrdma_area *area, const char *name, uint64_t end_offset,
	struct softrdma_file **file_ptr);

/* gives it back; NULL is allowed */
void softrdma_file_put(struct softrdma_file *file);

/* may the flush of len bytes wait for a medium or take long? */
bool softrdma_file_may_block(const struct softrdma_file *file, size_t len);

/* does softrdma_file_flush() touch the memory, so that it has to be mapped for certain? */
bool softrdma_file_touches_memory(const struct softrdma_file *file);

/*
 * 0 if the file has a name and reaches to this offset, ENXIO if it is shorter, ENOENT if it has lost its
 * name, or another errno value
 */
int softrdma_file_reaches(const struct softrdma_file *file, uint64_t end_offset);

/* makes [addr, addr + len), mapped from this file at offset, durable; 0 or an errno value */
int softrdma_file_flush(struct softrdma_file *file, const void *addr, uint64_t offset, size_t len);

#endif /* SOFTRDMA_PERSIST_FILE_H */
