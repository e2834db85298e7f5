/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* deadlines.h -- what happens when a deadline of a connection has passed; connection.c sets the deadlines */

#ifndef SOFTRDMA_DEADLINES_H
#define SOFTRDMA_DEADLINES_H

#include <stdint.h>

#include "softrdma/engine/connection.h"
#include "softrdma/engine/engine.h"

/* looks at the deadlines of the engine's connections, at the beat of deadlines. No lock held. */
void softrdma_deadlines_tick(const struct softrdma_engine *engine, uint64_t now_ns);
/* another engine looks at the deadlines of the connection from here on. The link's lock is held. */
void softrdma_deadlines_move(struct softrdma_connection *conn, struct softrdma_engine *engine);

#endif /* SOFTRDMA_DEADLINES_H */
