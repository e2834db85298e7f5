/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * io.h -- starts and ends the threads that serve the sockets of the process, and the registry
 *
 * The progress threads (engine.h), the workers (workers.h) and the registry (registry.h) live from the first user to the
 * last. src/softrdma/README.md has the table of all locks, and their order.
 */

#ifndef SOFTRDMA_IO_H
#define SOFTRDMA_IO_H

#include "softrdma/core/memory.h"

/* adds a user; the first one starts the threads. 0 or an errno value. Not on a progress thread, no lock held. */
int softrdma_io_start(void);
/* drops a user; the last one ends the threads. Not on a progress thread, no lock held. */
void softrdma_io_stop(void);

/*
 * The region has left the table. After this call no thread of the device touches it, except for flushes that run on
 * a worker. No lock held.
 */
void softrdma_io_revoke(const struct softrdma_mr *mr);

#endif /* SOFTRDMA_IO_H */
