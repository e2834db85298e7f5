/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* persist_msync.h -- durability of pages that the kernel writes to a medium */

#ifndef SOFTRDMA_PERSIST_MSYNC_H
#define SOFTRDMA_PERSIST_MSYNC_H

#include <stddef.h>

/*
 * Writes back the pages of [addr, addr + len) and waits for the medium; 0 or an errno value. It reads no
 * memory, so a range that is no longer mapped gives an error, and a truncated file raises no signal.
 */
int softrdma_msync(const void *addr, size_t len);

#endif /* SOFTRDMA_PERSIST_MSYNC_H */
