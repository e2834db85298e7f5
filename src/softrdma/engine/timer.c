/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* timer.c -- deadlines */

#include "softrdma/base/env.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/timer.h"

static void
set(struct softrdma_timer *timer, uint64_t when_ns)
{
	const int change = (when_ns != 0) - softrdma_timer_is_set(timer);
	timer->when_ns = when_ns;
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, change);
}

void
softrdma_timer_set_ms(struct softrdma_timer *timer, unsigned from_now_ms)
{
	if (from_now_ms)
		set(timer, softrdma_now_ns() + (uint64_t)from_now_ms * SOFTRDMA_NS_PER_MS);
	else
		softrdma_timer_clear(timer);
}

void
softrdma_timer_clear(struct softrdma_timer *timer)
{
	set(timer, 0);
}
