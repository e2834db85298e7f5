/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * reader.h -- which thread reads the socket of a connection
 *
 *	the progress thread   as a rule: it waits for the socket in its epoll
 *	a lead                the threads of the program that wait at the channel, or poll its queues (lead.h)
 *	a worker              which has made a FLUSH, for a while after it
 *
 * The caller holds the link's lock.
 */

#ifndef SOFTRDMA_READER_H
#define SOFTRDMA_READER_H

#include <stdbool.h>

#include "softrdma/core/cq.h"
#include "softrdma/engine/connection.h"

/* the caller, a worker, borrows the socket until it returns it; false: another thread has it */
bool softrdma_reader_borrow(struct softrdma_connection *conn);
void softrdma_reader_return(struct softrdma_connection *conn);

/* The lead gets the socket of the progress thread. True if it has got it by this call. It gives it back, if it has it. */
bool softrdma_reader_hand_over(struct softrdma_connection *conn, struct softrdma_lead *lead);
void softrdma_reader_give_back(struct softrdma_connection *conn, const struct softrdma_lead *lead);

#endif /* SOFTRDMA_READER_H */
