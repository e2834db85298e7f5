/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* receiver.h -- the server's threads that take messages and post receives again */

#ifndef PERF_RECEIVER_H
#define PERF_RECEIVER_H

#include "target.h"

struct receivers;

/* starts them, if the load has an operation that needs receives; *receivers is NULL otherwise */
bool receivers_start(struct target *target, struct receivers **receivers, char why[static WHY_MAX]);

/*
 * Waits until each connection has received as many as were posted (NULL: not at all), ends the threads and
 * frees them; NULL is allowed. Messages with other content than they should have are in target->conns then.
 */
bool receivers_end(struct receivers *receivers, const uint64_t *posted, char why[static WHY_MAX]);

#endif /* PERF_RECEIVER_H */
