/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * persist_dax.h -- durability of memory that the processor accesses directly: writes back its caches
 *
 * persist_dax.c implements it with libpmem2. persist_dax_none.c is for builds without libpmem2, where no such
 * memory is accepted.
 */

#ifndef SOFTRDMA_PERSIST_DAX_H
#define SOFTRDMA_PERSIST_DAX_H

#include <stddef.h>

/*
 * Prepares softrdma_dax_flush(); may be called repeatedly. name is that of the mapped file, for a log line.
 * 0, EOPNOTSUPP if this build cannot make such memory durable, or another errno value. Any thread.
 */
int softrdma_dax_init(const char *name);

/* touches the range, so it must be mapped. Any thread, after softrdma_dax_init() has succeeded. */
void softrdma_dax_flush(const void *addr, size_t len);

#endif /* SOFTRDMA_PERSIST_DAX_H */
