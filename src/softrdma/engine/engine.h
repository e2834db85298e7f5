/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * engine.h -- the progress thread: events, turns, tickers and beats
 *
 * The progress thread of an engine (the field's progress engine) serves sockets of the process, so that remote access
 * needs no help of the application. It knows only its watched objects (watched.h), and calls them:
 *
 *	handle()  when the object's descriptor has an event
 *	turn()    the same for a connection, and again while it has more to do than one turn
 *
 * What else it calls is in struct softrdma_engine_calls.
 *
 * After work the thread polls for a while before it sleeps, above all the one connection that had input lately.
 */

#ifndef SOFTRDMA_ENGINE_H
#define SOFTRDMA_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/engine/timer.h"
#include "softrdma/engine/watched.h"

struct softrdma_engine;

/* what the progress thread calls, without a lock */
struct softrdma_engine_calls {
	/* first and last */
	void (*begin)(void);
	void (*end)(void);
	/* at each beat, while something needs it */
	void (*tick[SOFTRDMA_BEATS])(uint64_t now_ns);
	/* when the alarm goes off */
	void (*ring)(uint64_t now_ns);
	/* before it may sleep; returns the latest time of the next call, in ns of softrdma_now_ns(); 0: after the next event */
	uint64_t (*before_sleep)(uint64_t now_ns);
};

/*
 * The life of the engine, in this order: open() makes its epoll; run() starts the thread; halt() ends it; drain()
 * gives queued objects their turn and releases retired ones, and from then on retired objects are released at once;
 * close() closes the descriptors. 0 or an errno value. One caller at a time, not on the progress thread, no lock held.
 */
int softrdma_engine_open(void);
int softrdma_engine_run(const struct softrdma_engine_calls *calls);
void softrdma_engine_halt(void);
void softrdma_engine_drain(void);
void softrdma_engine_close(void);

struct softrdma_engine *softrdma_engine_first(void);
/* the engine that serves the object */
struct softrdma_engine *softrdma_engine_of(const struct softrdma_watched *watched);
/* the epoll of all objects that the engine serves */
int softrdma_engine_epoll(const struct softrdma_engine *engine);
/* how long a thread looks for more work before it sleeps, in ns */
uint64_t softrdma_engine_spin_ns(void);

/*
 * The object is no longer watched. The progress thread may still hold an event for it, so its release() is
 * called after the current batch of events. Any thread; not under the engine's lock.
 */
void softrdma_engine_retire(struct softrdma_watched *watched);

/* gives the object another turn, after those that wait for one already. Any thread, any lock but the engine's. */
void softrdma_engine_queue(struct softrdma_watched *watched);
/* true if an object has more to do than one turn. Any thread, any lock. */
bool softrdma_engine_has_queued(const struct softrdma_engine *engine);

/* adds a function that is called at the beat of deadlines, after earlier ones. Adding it again changes nothing. */
void softrdma_engine_add_ticker(void (*tick)(uint64_t now_ns));
/* change things more (or fewer, if negative) are timed. Any lock but the engine's. */
void softrdma_engine_timed(struct softrdma_engine *engine, enum softrdma_beat beat, int change);
/* true if something needs the beat. A hint; any thread, any lock. */
bool softrdma_engine_is_timed(enum softrdma_beat beat);

/* the alarm goes off at this time, or earlier if it was set so. Any lock but the engine's. */
void softrdma_engine_alarm(uint64_t when_ns);

#endif /* SOFTRDMA_ENGINE_H */
