/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* receiver.h -- the server's threads: they wait for messages, take or answer them, and repost receives */

#ifndef PERF_RECEIVER_H
#define PERF_RECEIVER_H

#include "target.h"

struct receivers;

/*
 * Starts the threads, unless the target's program is to sleep elsewhere: then *receivers is NULL. For operations
 * without messages they wait all the same.
 */
bool receivers_start(struct target *target, struct receivers **receivers, char why[static WHY_MAX]);

/* a descriptor that is readable once a thread has failed; -1 if there are no threads */
int receivers_fd(const struct receivers *receivers);
/* true, and the reason, if a thread has failed */
bool receivers_have_failed(struct receivers *receivers, char why[static WHY_MAX]);

/*
 * Waits until each connection has received as many messages as were posted (posted NULL: does not wait). Then
 * it ends the threads and frees them; NULL is allowed. The connections may have ended afterwards, and
 * target->conns has the number of wrong messages. False if a thread has failed.
 */
bool receivers_end(struct receivers *receivers, const uint64_t *posted, char why[static WHY_MAX]);

#endif /* PERF_RECEIVER_H */
