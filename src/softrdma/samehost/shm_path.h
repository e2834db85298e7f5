/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * shm_path.h -- writes and reads of a connection to a process on the same host, without its socket
 *
 * The connection is made by TCP like any other. All requests for which the peer must do something go that way:
 * messages, immediate data, atomics, flushes. The thread that posts a WRITE or READ completes it locally, if all
 * earlier requests have their responses, so the order is kept. It checks key, protection domain, access right
 * and range as the responder does. A request that cannot be completed locally, or would be refused, goes to the
 * responder by TCP, so errors are the same as for other connections.
 *
 * The caller holds the link's lock in all calls unless stated otherwise.
 */

#ifndef SOFTRDMA_SHM_PATH_H
#define SOFTRDMA_SHM_PATH_H

#include <stdbool.h>

struct softrdma_link;

/*
 * The socket is connected: if the peer is on this host, the link gets a shared-memory path, and tells the peer
 * where this side's registry is. Offers then go through struct softrdma_shm_path_ops.
 */
void softrdma_shm_path_offer(struct softrdma_link *link, int fd);

/*
 * Completes posted requests locally, as far as possible. True: there is more to do, but other connections must
 * have their turn first.
 */
bool softrdma_shm_path_run(struct softrdma_link *link);

/* the queue pair no longer serves its peer: the peer gets no further access to this side's memory */
void softrdma_shm_path_shut(struct softrdma_link *link);
/* the connection is over */
void softrdma_shm_path_end(struct softrdma_link *link);

/* waits until no process accesses memory that was hidden before the call. The caller holds no lock. */
void softrdma_shm_path_wait(void);

#endif /* SOFTRDMA_SHM_PATH_H */
