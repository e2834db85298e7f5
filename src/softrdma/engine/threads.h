/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * threads.h -- starts and ends the threads that serve the sockets of the process, and the registry
 *
 * The progress threads (engine.h), the workers (workers.h) and the registry (registry.h) live from the first user to the
 * last. src/softrdma/README.md has the table of all locks, and their order.
 */

#ifndef SOFTRDMA_THREADS_H
#define SOFTRDMA_THREADS_H

/* adds a user; the first one starts the threads. 0 or an errno value. Not on a progress thread, no lock held. */
int softrdma_threads_start(void);
/* drops a user; the last one ends the threads. Not on a progress thread, no lock held. */
void softrdma_threads_stop(void);

#endif /* SOFTRDMA_THREADS_H */
