/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* links.h -- the list of all connections of the device */

#ifndef SOFTRDMA_LINKS_H
#define SOFTRDMA_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/engine/connection.h"

/* put a new queue pair's link on the list, and take it off. No lock held. */
void softrdma_links_add(struct softrdma_link *link);
void softrdma_links_remove(struct softrdma_link *link);

/*
 * What the connections of an account, or of a protection domain, have counted: those on the list, and those that have left
 * it. No lock but one of a link held.
 */
void softrdma_links_sum_account(unsigned account, struct softrdma_stats *sum);

/* true if there is a queue pair with this number. No lock held. */
bool softrdma_links_have_qp_num(uint32_t qp_num);

/*
 * Calls visit() for each connection, with its link's lock held and the list's not. It may be called twice for a
 * connection. No lock held.
 */
void softrdma_links_for_each(void (*visit)(struct softrdma_connection *conn, const void *arg),
	const void *arg);

/* the engines have halted: no connection waits for them any longer. No lock held. */
void softrdma_links_end(void);

#endif /* SOFTRDMA_LINKS_H */
