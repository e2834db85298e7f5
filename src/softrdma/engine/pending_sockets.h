/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * pending_sockets.h -- sockets that are not connected yet: listeners, requests, attempts
 *
 * Connections come first, however many pending sockets there are: all of these together get a turn as long as one of a
 * connection between two looks of the progress thread at the connections. So a flood of them delays a connection by one
 * turn, and connections with much to do leave pending sockets a turn after each look. If no connection has anything to do,
 * the turns of pending sockets follow one another. They do not wait for time to pass.
 *
 * The first engine (engine.h) serves pending sockets. The progress thread here is its thread. Connections of other
 * engines do not compete with pending sockets for it.
 *
 * Unless said otherwise, the calls are made on the progress thread, or while there is no such thread.
 */

#ifndef SOFTRDMA_PENDING_SOCKETS_H
#define SOFTRDMA_PENDING_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/engine/watched.h"

/* the first engine watches all pending sockets as one; 0 or an errno value */
int softrdma_pending_sockets_open(void);
void softrdma_pending_sockets_close(void);

/*
 * Watches a pending socket, edge-triggered, in both directions. look_again() lets the kernel report once more what is
 * there already, after others have had their turn. 0 or an errno value. Any thread.
 */
int softrdma_pending_sockets_watch(int fd, struct softrdma_watched *watched);
int softrdma_pending_sockets_look_again(int fd, struct softrdma_watched *watched);
/*
 * The pending socket is no longer watched. handle() is not called again once the current batch of events is handled,
 * and put() follows then. unwatch() closes the socket, forget() leaves it open. Any thread.
 */
void softrdma_pending_sockets_unwatch(int fd, struct softrdma_watched *watched);
void softrdma_pending_sockets_forget(int fd, struct softrdma_watched *watched);

/*
 * What a peer sends on one stream is handled before what it sends on another stream later. On hardware both come
 * through one port. So if a client is connected and connects again, its first connection is reported as established
 * before its second request is. Therefore a request waits for all input that connections have by now: for the look at
 * them that is under way, and for the next one; and for a look of each other engine at its connections that begins
 * after the request has come.
 */
uint64_t softrdma_pending_sockets_look_after_next(void);
/* true if that look is over. Else the pending socket is handled again after it, without a new event. */
bool softrdma_pending_sockets_is_time(uint64_t look, int fd, struct softrdma_watched *watched);

/*
 * Ends the pause in which the other engines look, if they have. The result is now_ns if that has failed and must be tried
 * again at once, else 0.
 */
uint64_t softrdma_pending_sockets_pause(uint64_t now_ns);

#endif /* SOFTRDMA_PENDING_SOCKETS_H */
