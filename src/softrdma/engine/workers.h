/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* workers.h -- the flush workers: threads that wait for a medium on behalf of a FLUSH */

#ifndef SOFTRDMA_WORKERS_H
#define SOFTRDMA_WORKERS_H

#include "softrdma/engine/connection.h"

/*
 * Runs work(conn) on a worker, with a reference held. 0, or an errno value if there is no thread to run it. On any
 * thread, under the link's lock. The peers of one address have all workers but one at most
 * (SOFTRDMA_FLUSH_THREADS_OF_ADDRESS): the others of that address wait until one of theirs is done.
 */
int softrdma_workers_submit(struct softrdma_connection *conn, void (*work)(struct softrdma_connection *conn));

/* true if something is submitted that no idle thread will take, or may take. Any thread, also under the link's lock. */
bool softrdma_workers_are_short(void);

/* waits for all that has been submitted and ends the threads. No lock held. */
void softrdma_workers_stop(void);

#endif /* SOFTRDMA_WORKERS_H */
