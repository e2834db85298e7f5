/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * send.h -- sends for a link to its socket, in bounded turns: for the files of the engine; others call connection.h
 *
 * The caller holds the link's lock.
 */

#ifndef SOFTRDMA_SEND_H
#define SOFTRDMA_SEND_H

#include <stdbool.h>

#include "softrdma/engine/connection.h"

/* sends all that is due, in bounded time */
void softrdma_send(struct softrdma_connection *conn);
/* true if something waits for room in the socket */
/* the socket is full (back-pressure): an edge of epoll reports the room */
void softrdma_send_wait_for_space(struct softrdma_connection *conn);
bool softrdma_send_is_full(const struct softrdma_connection *conn);

#endif /* SOFTRDMA_SEND_H */
