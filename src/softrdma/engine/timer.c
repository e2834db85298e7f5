/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* timer.c -- deadlines */

#include "softrdma/base/env.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/timer.h"

static struct softrdma_engine *
engine_of(const struct softrdma_timer *timer)
{
	return timer->engine ? timer->engine : softrdma_engine_first();
}

void
softrdma_timer_set(struct softrdma_timer *timer, uint64_t from_now_ns)
{
	const bool was_set = softrdma_timer_is_set(timer);
	timer->when_ns = softrdma_now_ns() + from_now_ns;
	softrdma_engine_timed(engine_of(timer), SOFTRDMA_BEAT_DEADLINES, !was_set);
}

void
softrdma_timer_set_ms(struct softrdma_timer *timer, unsigned from_now_ms)
{
	if (from_now_ms)
		softrdma_timer_set(timer, (uint64_t)from_now_ms * SOFTRDMA_NS_PER_MS);
	else
		softrdma_timer_clear(timer);
}

void
softrdma_timer_clear(struct softrdma_timer *timer)
{
	const bool was_set = softrdma_timer_is_set(timer);
	timer->when_ns = 0;
	softrdma_engine_timed(engine_of(timer), SOFTRDMA_BEAT_DEADLINES, -was_set);
}

void
softrdma_timer_move(struct softrdma_timer *timer, struct softrdma_engine *engine)
{
	const bool is_set = softrdma_timer_is_set(timer);
	if (engine == engine_of(timer))
		return;
	softrdma_engine_timed(engine_of(timer), SOFTRDMA_BEAT_DEADLINES, -is_set);
	timer->engine = engine;
	softrdma_engine_timed(engine, SOFTRDMA_BEAT_DEADLINES, is_set);
}
