/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* deadlines.h -- the deadlines of a connection, and what happens when one has passed; connection.c and send.c set them */

#ifndef SOFTRDMA_DEADLINES_H
#define SOFTRDMA_DEADLINES_H

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/engine/connection.h"

/* The deadline is of this connection. The link's lock is held. */
void softrdma_deadline_set(struct softrdma_connection *conn, struct softrdma_deadline *deadline,
	uint64_t from_now_ns);
void softrdma_deadline_clear(struct softrdma_connection *conn, struct softrdma_deadline *deadline);

/* limits how long an acknowledgement waits that may come late */
void softrdma_deadline_limit_ack(struct softrdma_connection *conn);
/* limits how long requests wait for a peer that has not connected yet, or has gone while there were no requests */
void softrdma_deadline_limit_absence(struct softrdma_connection *conn);
/* DISCONNECT has left or come: limits the time until the peer ends its stream, because until then it holds a descriptor */
void softrdma_deadline_limit_end(struct softrdma_connection *conn);

static inline bool
softrdma_deadline_is_set(const struct softrdma_deadline *deadline)
{
	return deadline->when_ns != 0;
}

/* asks the kernel to look for a peer that has vanished from a new connection */
void softrdma_deadlines_of_socket(int fd);

/* does what is due, at the beat of deadlines. No lock held. */
void softrdma_deadlines_check(struct softrdma_connection *conn, uint64_t now_ns);

#endif /* SOFTRDMA_DEADLINES_H */
