/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * waiter.h -- a thread that waits for a completion serves its connections itself while their lead is on (lead.h)
 *
 * So the bytes that it waits for wake it directly, and not the progress thread first.
 */

#ifndef SOFTRDMA_WAITER_H
#define SOFTRDMA_WAITER_H

#include "softrdma/core/cq.h"

/*
 * Waits until the channel, which had no event, may have one. 0; EAGAIN if the application has made the channel's
 * descriptor non-blocking; EINTR; or another errno value of poll(2). The caller has turned cancellation off; meanwhile the
 * thread can be cancelled if cancel_state, that of the application, allows it. No lock held.
 */
int softrdma_waiter_wait(struct softrdma_comp_channel *channel, int cancel_state);

#endif /* SOFTRDMA_WAITER_H */
