/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * connect_timer.h -- the limit on how long a connection may take to be established
 *
 * The event descriptor of such a connection must become readable when the time is over, although the
 * connection manager reports nothing then. So the descriptor is an epoll of the event channel and of a timer.
 */

#ifndef RPMAI_CONNECT_TIMER_H
#define RPMAI_CONNECT_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct connect_timer;

/* makes a timer that is not running; channel_fd must outlive it. RPMA_E_NOMEM, RPMA_E_PROVIDER */
int rpmai_connect_timer_new(int channel_fd, int timeout_ms, struct connect_timer **timer_ptr);
void rpmai_connect_timer_delete(struct connect_timer *timer);

/* starts the timer. RPMA_E_PROVIDER */
int rpmai_connect_timer_start(struct connect_timer *timer);

/* stops the timer for good, because the awaited event has come */
void rpmai_connect_timer_stop(struct connect_timer *timer);

/* a descriptor that is readable when the channel is, or when the time is over */
int rpmai_connect_timer_fd(const struct connect_timer *timer);

enum connect_timer_end {
	CONNECT_TIMER_CHANNEL, /* the channel is readable */
	CONNECT_TIMER_OVER,    /* the time is over; this is reported once */
	CONNECT_TIMER_NOTHING, /* the deadline of the wait passed, or a signal was handled */
	CONNECT_TIMER_FAILED,  /* RPMA_E_PROVIDER */
};

/* waits for one of these; deadline is a value of rpmai_timeout_deadline. One thread at a time. */
enum connect_timer_end rpmai_connect_timer_wait(struct connect_timer *timer, uint64_t deadline);

#endif /* RPMAI_CONNECT_TIMER_H */
