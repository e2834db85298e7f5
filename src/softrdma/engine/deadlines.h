/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* deadlines.h -- what happens when a deadline of a connection has passed; connection.c sets the deadlines */

#ifndef SOFTRDMA_DEADLINES_H
#define SOFTRDMA_DEADLINES_H

#include <stdint.h>

/* looks at the deadlines of all connections, at the beat of deadlines. No lock held. */
void softrdma_deadlines_tick(uint64_t now_ns);

#endif /* SOFTRDMA_DEADLINES_H */
