/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* persist_file.h -- the files behind registered memory, held while in use and remembered afterwards */

#ifndef SOFTRDMA_PERSIST_FILE_H
#define SOFTRDMA_PERSIST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softrdma/persist/mapping.h"

struct softrdma_file;

/*
 * Finds and holds the file of a shared area that the kernel shows under this name; all users of a file share
 * one object. Ranges up to end_offset of the file will be flushed. 0; EOPNOTSUPP if nothing in the file can be
 * made durable; EIO if its medium has failed since this process was started; or another errno value. A log
 * line gives the reason.
 */
int softrdma_file_get(const struct softrdma_area *area, const char *name, uint64_t end_offset,
	struct softrdma_file **file_ptr);

/* gives it back; NULL is allowed */
void softrdma_file_put(struct softrdma_file *file);

/* true if a flush of len bytes may wait for a medium or take long */
bool softrdma_file_may_block(const struct softrdma_file *file, size_t len);

/* true if softrdma_file_flush() touches the memory, so the caller must know that it is mapped */
bool softrdma_file_touches_memory(const struct softrdma_file *file);

/*
 * 0 if the file has a name and reaches to this offset; ENXIO if it is shorter; ENOENT if it no longer has a
 * name; or another errno value
 */
int softrdma_file_reaches(const struct softrdma_file *file, uint64_t end_offset);

/* makes [addr, addr + len), mapped from this file at offset, durable; 0 or an errno value */
int softrdma_file_flush(struct softrdma_file *file, const void *addr, uint64_t offset, size_t len);

#endif /* SOFTRDMA_PERSIST_FILE_H */
