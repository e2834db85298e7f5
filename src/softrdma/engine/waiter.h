/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * waiter.h -- a thread that waits for a completion serves its connections itself
 *
 * It is woken by the bytes that it waits for, instead of by another thread that they have woken.
 */

#ifndef SOFTRDMA_WAITER_H
#define SOFTRDMA_WAITER_H

#include "softrdma/core/cq.h"

/*
 * The channel was seen without an event: waits until it may have one (0), or gives EAGAIN if the application
 * has made its descriptor non-blocking, or EINTR. No lock held.
 */
int softrdma_waiter_wait(struct softrdma_comp_channel *channel);

#endif /* SOFTRDMA_WAITER_H */
