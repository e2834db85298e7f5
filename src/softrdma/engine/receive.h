/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * receive.h -- receives for a link from its socket, in bounded turns: for the files of the engine; others call connection.h
 *
 * The caller holds the link's lock.
 */

#ifndef SOFTRDMA_RECEIVE_H
#define SOFTRDMA_RECEIVE_H

#include <stdbool.h>

#include "softrdma/engine/connection.h"

/* true if more may be there; progress becomes true if something was received */
bool softrdma_receive(struct softrdma_connection *conn, bool *progress);
/* a FLUSH has been made: takes what came with it. False: the stream is over. */
bool softrdma_receive_behind_flush(struct softrdma_connection *conn);

#endif /* SOFTRDMA_RECEIVE_H */
