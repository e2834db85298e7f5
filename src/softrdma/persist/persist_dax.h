/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* persist_dax.h -- durability of memory that the processor accesses directly: writes back its caches */

#ifndef SOFTRDMA_PERSIST_DAX_H
#define SOFTRDMA_PERSIST_DAX_H

#include <stddef.h>

/* prepares softrdma_dax_flush(); may be called repeatedly; 0 or an errno value. Any thread. */
int softrdma_dax_init(void);

/* touches the range, so it must be mapped. Any thread, after softrdma_dax_init() has succeeded. */
void softrdma_dax_flush(const void *addr, size_t len);

#endif /* SOFTRDMA_PERSIST_DAX_H */
