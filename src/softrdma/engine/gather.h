/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * gather.h -- small requests wait for a response, and leave together
 *
 * That saves system calls, but some thread must receive the response soon: no thread reads the socket of a poller that does
 * something else, and a response from far away takes its time. So requests that have waited for long are the last ones that
 * wait, for some time. The link's lock is held.
 */

#ifndef SOFTRDMA_GATHER_H
#define SOFTRDMA_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/engine/connection.h"

/* true if the requests that were posted from this sequence number on need not leave now */
bool softrdma_gather_may(struct softrdma_connection *conn, uint32_t from);
/* what waits is about to leave */
void softrdma_gather_ends(struct softrdma_connection *conn);
/* this side is about to end the connection: what waits leaves before, as it would have done without others to wait for */
void softrdma_gather_no_longer(struct softrdma_link *link);

#endif /* SOFTRDMA_GATHER_H */
