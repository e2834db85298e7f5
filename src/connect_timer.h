/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * connect_timer.h -- how long a connection may take to be made
 *
 * The event descriptor of such a connection must become readable when the time is over, although the
 * connection manager says nothing: it is an epoll of the event channel and of a timer.
 */

#ifndef RPMAI_CONNECT_TIMER_H
#define RPMAI_CONNECT_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct connect_timer;

/* not running; channel_fd outlives it. RPMA_E_NOMEM, RPMA_E_PROVIDER */
int rpmai_connect_timer_new(int channel_fd, int timeout_ms, struct connect_timer **timer_ptr);
void rpmai_connect_timer_delete(struct connect_timer *timer);

/* from here on the time runs. RPMA_E_PROVIDER */
int rpmai_connect_timer_start(struct connect_timer *timer);

/* whatever was waited for has come; the timer never fires again */
void rpmai_connect_timer_stop(struct connect_timer *timer);

/* readable when the channel is, or when the time is over */
int rpmai_connect_timer_fd(const struct connect_timer *timer);

enum connect_timer_end {
	CONNECT_TIMER_CHANNEL, /* the channel is readable */
	CONNECT_TIMER_OVER,    /* the time is over, which is told once */
	CONNECT_TIMER_NOTHING, /* the deadline passed, or a signal was handled */
	CONNECT_TIMER_FAILED,  /* RPMA_E_PROVIDER */
};

/* waits for one of them; the deadline is rpmai_timeout_deadline's. One thread at a time. */
enum connect_timer_end rpmai_connect_timer_wait(struct connect_timer *timer, uint64_t deadline);

#endif /* RPMAI_CONNECT_TIMER_H */
