/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * timer.h -- deadlines
 *
 * A timer is a time that the first progress thread compares with the clock at each beat of deadlines. Its engine counts
 * the timers that are set, and beats only while there are any. A timer is guarded by the lock of what it belongs to.
 * Connections have deadlines (deadlines.h) instead, each at the beat of its own engine.
 */

#ifndef SOFTRDMA_TIMER_H
#define SOFTRDMA_TIMER_H

#include <stdbool.h>
#include <stdint.h>

/* the beats of a progress thread */
enum softrdma_beat {
	SOFTRDMA_BEAT_LEADS,     /* every 2 ms: checks whether threads of the program still lead */
	SOFTRDMA_BEAT_DEADLINES, /* every 20 ms: checks timers, and makes the calls of one_engine.h */
	SOFTRDMA_BEATS,
};

struct softrdma_timer {
	uint64_t when_ns; /* of softrdma_now_ns(); 0: not set */
};

/* Any lock but the engine's. */
void softrdma_timer_set_ms(struct softrdma_timer *timer, unsigned from_now_ms); /* 0: clears it */
void softrdma_timer_clear(struct softrdma_timer *timer);

static inline bool
softrdma_timer_is_set(const struct softrdma_timer *timer)
{
	return timer->when_ns != 0;
}

static inline bool
softrdma_timer_has_expired(const struct softrdma_timer *timer, uint64_t now_ns)
{
	return timer->when_ns != 0 && now_ns >= timer->when_ns;
}

#endif /* SOFTRDMA_TIMER_H */
