/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* beats.c -- which objects of an engine need a beat: so a beat costs nothing for the others, however many there are */

#include <assert.h>

#include "softrdma/engine/one_engine.h"

/* --- how many things need a beat --- */

/* true if there was none before. The engine's lock is held. */
static bool
count(struct softrdma_engine *engine, enum softrdma_beat beat, int change)
{
	/* below 0 if a log function has forked, and returned in the child to what the parent had timed */
	const int sum = engine->timed[beat] + change;
	const int timed = sum > 0 ? sum : 0;
	atomic_store_explicit(&engine->timed[beat], timed, memory_order_relaxed);
	return change > 0 && timed == change;
}

void
softrdma_engine_timed(struct softrdma_engine *engine, enum softrdma_beat beat, int change)
{
	if (change == 0)
		return;
	pthread_mutex_lock(&engine->lock);
	/* under the lock: a lead may go on while the engine begins or ends, and with it the descriptor */
	if (count(engine, beat, change) && engine->running)
		softrdma_one_engine_wake(engine);
	pthread_mutex_unlock(&engine->lock);
}

/* --- the list of an engine and a beat --- */

/* false if a log function has forked, and returned in the child to what the parent had listed. The object's lock is held. */
static bool
is_listed(const struct softrdma_watched *watched, enum softrdma_beat beat)
{
	return watched->on_beat[beat].listed_in == softrdma_engines_life();
}

/* the engine's lock is held */
static void
append(struct softrdma_engine *engine, enum softrdma_beat beat, struct softrdma_watched *watched)
{
	struct softrdma_on_beat *place = &watched->on_beat[beat];
	place->prev = engine->on_beat[beat].last;
	place->next = NULL;
	place->called_ns = engine->on_beat[beat].begun_ns;
	if (place->prev)
		place->prev->on_beat[beat].next = watched;
	else
		engine->on_beat[beat].first = watched;
	engine->on_beat[beat].last = watched;
}

/* the engine's lock is held */
static void
take_out(struct softrdma_engine *engine, enum softrdma_beat beat, struct softrdma_watched *watched)
{
	const struct softrdma_on_beat *place = &watched->on_beat[beat];
	if (place->prev)
		place->prev->on_beat[beat].next = place->next;
	else
		engine->on_beat[beat].first = place->next;
	if (place->next)
		place->next->on_beat[beat].prev = place->prev;
	else
		engine->on_beat[beat].last = place->prev;
}

/* --- for connections; the object's lock is held --- */

static void
enter(struct softrdma_engine *engine, struct softrdma_watched *watched, enum softrdma_beat beat)
{
	pthread_mutex_lock(&engine->lock);
	append(engine, beat, watched);
	watched->on_beat[beat].listed_in = softrdma_engines_life();
	const bool is_first = count(engine, beat, 1);
	pthread_mutex_unlock(&engine->lock);
	if (is_first)
		softrdma_one_engine_wake(engine);
}

static void
leave(struct softrdma_engine *engine, struct softrdma_watched *watched, enum softrdma_beat beat)
{
	pthread_mutex_lock(&engine->lock);
	take_out(engine, beat, watched);
	watched->on_beat[beat].listed_in = 0;
	count(engine, beat, -1);
	pthread_mutex_unlock(&engine->lock);
}

void
softrdma_engine_needs_beat(struct softrdma_watched *watched, enum softrdma_beat beat, bool needs)
{
	struct softrdma_engine *engine = softrdma_engine_of(watched);
	assert(watched->beat);
	if (needs == is_listed(watched, beat))
		return;
	if (needs) {
		watched->get(watched);
		enter(engine, watched, beat);
	} else {
		leave(engine, watched, beat);
		watched->put(watched); /* not the last reference: the caller's */
	}
}

void
softrdma_beats_move(struct softrdma_watched *watched, struct softrdma_engine *from,
	struct softrdma_engine *to)
{
	if (from == to)
		return;
	for (enum softrdma_beat beat = 0; beat < SOFTRDMA_BEATS; beat++) {
		if (is_listed(watched, beat)) {
			leave(from, watched, beat);
			enter(to, watched, beat);
		}
	}
}

/* --- for the engine's thread --- */

/* those that were called go to the end, so the first one tells whether there are others */
struct softrdma_watched *
softrdma_beats_next(struct softrdma_engine *engine, enum softrdma_beat beat, uint64_t now_ns)
{
	pthread_mutex_lock(&engine->lock);
	engine->on_beat[beat].begun_ns = now_ns;
	struct softrdma_watched *watched = engine->on_beat[beat].first;
	if (watched && watched->on_beat[beat].called_ns == now_ns)
		watched = NULL;
	if (watched) {
		take_out(engine, beat, watched);
		append(engine, beat, watched);
		watched->get(watched);
	}
	pthread_mutex_unlock(&engine->lock);
	return watched;
}
