/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* persist_dax.h -- durability of memory that the processor reaches directly: its caches are written back */

#ifndef SOFTRDMA_PERSIST_DAX_H
#define SOFTRDMA_PERSIST_DAX_H

#include <stddef.h>

/* makes softrdma_dax_flush() possible; as often as one likes; 0 or an errno value. Any thread. */
int softrdma_dax_init(void);

/* the range must be mapped: this touches it. Any thread, after an init that succeeded. */
void softrdma_dax_flush(const void *addr, size_t len);

#endif /* SOFTRDMA_PERSIST_DAX_H */
