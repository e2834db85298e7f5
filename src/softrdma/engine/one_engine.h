/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* one_engine.h -- what an engine consists of: for engine.c, engines.c and beats.c only; engine.h is for the others */

#ifndef SOFTRDMA_ONE_ENGINE_H
#define SOFTRDMA_ONE_ENGINE_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrdma/engine/engine.h"

/* how many functions may be called at a beat: of pending connections, and of planned calls of queue pairs */
#define SOFTRDMA_BEAT_CALLS_MAX 2

/* bytes of a cache line: two engines write to none in common */
#define SOFTRDMA_CACHE_LINE 64

/* guarded by the lock, unless stated otherwise */
struct softrdma_engine {
	alignas(SOFTRDMA_CACHE_LINE) pthread_mutex_t lock;
	int epoll_fd;
	int wake_fd;
	pthread_t thread;
	const struct softrdma_engine_calls *calls; /* the thread has a copy, which a fork leaves */
	bool running, stopping;
	uint64_t spin_ns;
	struct softrdma_watched *work, *work_last; /* objects that had more to do than one turn */
	atomic_uint work_count;                    /* peeked at without the lock */
	struct softrdma_watched *retired;          /* to be released after the current batch of events */
	atomic_uint connections;                   /* how many it serves; no lock */

	atomic_int timed[SOFTRDMA_BEATS]; /* how many things need the beat; peeked at without the lock */
	struct {
		struct softrdma_watched *first, *last; /* the objects among them; referenced */
		uint64_t begun_ns;                     /* when the last beat began */
	} on_beat[SOFTRDMA_BEATS];
	void (*beat_calls[SOFTRDMA_BEATS][SOFTRDMA_BEAT_CALLS_MAX])(uint64_t now_ns);
	uint64_t alarm_ns; /* the earliest one; 0: none */

	/* looks that pending sockets wait for: the last one that was asked for, and the last one that has ended; no lock */
	atomic_uint look_asked, look_ended;
	unsigned look_events; /* that the look under way has seen. The thread's own */

	/*
	 * The object from which the thread expects more input while it does not sleep (busy polling). To receive right
	 * away costs less than to ask epoll first. The kernel still reports the input, so nothing is lost when this ends.
	 * The thread's own, so without the lock.
	 */
	struct {
		struct softrdma_watched *watched; /* referenced; NULL: none */
		unsigned events;                  /* in a row, at most BUSY_AFTER */
		unsigned turns;                   /* that are left of BUSY_TURNS */
	} busy;
};

/* one that does not run */
#define SOFTRDMA_NO_ENGINE \
	{ \
		.lock = PTHREAD_MUTEX_INITIALIZER, .epoll_fd = -1, .wake_fd = -1 \
	}

/* The life of one engine: see engine.h. stop() tells its thread to end, which join() awaits. 0 or an errno value. */
int softrdma_one_engine_open(struct softrdma_engine *engine);
int softrdma_one_engine_run(struct softrdma_engine *engine, const char *name,
	const struct softrdma_engine_calls *calls, uint64_t spin_ns);
void softrdma_one_engine_stop(struct softrdma_engine *engine);
void softrdma_one_engine_join(struct softrdma_engine *engine);
void softrdma_one_engine_drain(struct softrdma_engine *engine);
void softrdma_one_engine_close(struct softrdma_engine *engine);
/* its thread comes round again, if it sleeps. Any lock. */
void softrdma_one_engine_wake(const struct softrdma_engine *engine);

/*
 * The objects that need a beat, and those that have to be called at the beat that began at now_ns: one of them, with a
 * reference for the caller, and NULL if there is no other. On the engine's thread, without a lock.
 */
struct softrdma_watched *softrdma_beats_next(struct softrdma_engine *engine, enum softrdma_beat beat,
	uint64_t now_ns);
/* another engine calls the object at its beats. Under the object's lock. */
void softrdma_beats_move(struct softrdma_watched *watched, struct softrdma_engine *from,
	struct softrdma_engine *to);
/* which life of the engines this is: a fork begins another one in the child */
unsigned softrdma_engines_life(void);

/* asks it for a look at all its objects that begins after this call; look_ended will be look_asked. Any lock. */
void softrdma_one_engine_ask(struct softrdma_engine *engine);

#endif /* SOFTRDMA_ONE_ENGINE_H */
