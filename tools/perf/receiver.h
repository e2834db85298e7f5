/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* receiver.h -- the server's threads that take messages and repost receives */

#ifndef PERF_RECEIVER_H
#define PERF_RECEIVER_H

#include "target.h"

struct receivers;

/* starts the threads if the operation needs receives; else *receivers is NULL */
bool receivers_start(struct target *target, struct receivers **receivers, char why[static WHY_MAX]);

/*
 * Waits until each connection has received as many messages as were posted (posted NULL: does not wait). Then
 * it ends the threads and frees them; NULL is allowed. Afterwards target->conns has the number of wrong
 * messages.
 */
bool receivers_end(struct receivers *receivers, const uint64_t *posted, char why[static WHY_MAX]);

#endif /* PERF_RECEIVER_H */
