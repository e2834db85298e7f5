/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * direct.h -- writes and reads of a connection to a process of the same host, without its socket
 *
 * The connection is made by TCP as any other, and all that needs the other side to do something goes that
 * way: messages, immediate data, atomics, flushes. A WRITE or READ is made by whoever posts it, if all
 * requests before it are answered, so the order stays. Key, protection domain, right and range are looked at
 * as the responder looks at them. Whatever is in the way, or is refused, goes to the responder by TCP, and so
 * the errors are the same as ever.
 *
 * The link's lock is held in all calls unless said otherwise.
 */

#ifndef SOFTRDMA_DIRECT_H
#define SOFTRDMA_DIRECT_H

#include <stdbool.h>

struct softrdma_link;

/*
 * The socket is connected: if the peer is on this host, it gets to know where our board is. The link then greets,
 * is greeted and shuts through its lane (struct softrdma_lane_ops).
 */
void softrdma_direct_offer(struct softrdma_link *link, int fd);

/*
 * makes what can be made of what is posted; true: there is more to be made, but others must have their turn
 */
bool softrdma_direct_run(struct softrdma_link *link);

/* the queue pair no longer serves its peer */
void softrdma_direct_shut(struct softrdma_link *link);
/* the connection is over */
void softrdma_direct_end(struct softrdma_link *link);

/* when this returns nobody touches the memory any more that has left the board before. No lock is held. */
void softrdma_direct_wait(void);

#endif /* SOFTRDMA_DIRECT_H */
