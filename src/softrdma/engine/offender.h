/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * offender.h -- peers that use wrong keys: they are counted by address, and lose their connections
 *
 * A wrong key costs its connection, because its sender may be guessing keys. The caller holds the link's lock.
 */

#ifndef SOFTRDMA_OFFENDER_H
#define SOFTRDMA_OFFENDER_H

#include <stdbool.h>

#include "softrdma/engine/connection.h"

/*
 * Counts a remote access violation against the peer's address, and logs it. A peer that guesses keys may end the
 * connection together with its request: that counts all the same.
 */
void softrdma_offender_note(struct softrdma_connection *conn);
/*
 * Closes the connection after a remote access violation, unless it has ended already. One wrong key, range or right is
 * enough, because the peer may be guessing. It still gets the NAK.
 */
void softrdma_offender_close(struct softrdma_connection *conn);
/*
 * Ends the connection if its peer's address has used too many wrong keys, on other connections. Each thread calls it
 * before it handles input.
 */
void softrdma_offender_shut_out(struct softrdma_connection *conn);

#endif /* SOFTRDMA_OFFENDER_H */
