/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* watched.h -- the objects that progress threads wait for: connections, listeners, pending connections */

#ifndef SOFTRDMA_WATCHED_H
#define SOFTRDMA_WATCHED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "softrdma/engine/timer.h"

/* both directions and the end of the stream, edge-triggered */
#define SOFTRDMA_WATCHED_EVENTS (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

struct softrdma_engine;

/* the result of a turn, which is one bounded pass of the progress thread over one object */
struct softrdma_turn {
	bool progress;   /* something was received */
	bool may_follow; /* more input is likely, so the thread polls before it sleeps */
	bool alone;      /* and this object may be polled: no other thread reads its socket or posts to it */
};

/* an object's place among those that need a beat; beats.c only */
struct softrdma_on_beat {
	struct softrdma_watched *next, *prev;
	/*
	 * The life of the engines in which the object was listed (a fork begins another life); 0: the object is not
	 * listed. The object's lock guards this member too.
	 */
	unsigned listed_in;
	uint64_t called_ns; /* the last beat at which it was called, or that had begun when it was listed */
};

/* a part of each watched object; no lock is held in its calls */
struct softrdma_watched {
	/* the descriptor has events (EPOLL*); on the progress thread. NULL for an object that has turns. */
	void (*handle)(struct softrdma_watched *watched, uint32_t events);
	/* the same with a result; events are 0 for a turn that no event has caused. NULL for others. */
	struct softrdma_turn (*turn)(struct softrdma_watched *watched, uint32_t events);
	/* the beat that the object needs has come; on the progress thread. NULL for an object that needs none. */
	void (*beat)(struct softrdma_watched *watched, enum softrdma_beat beat, uint64_t now_ns);
	/* take and drop a reference of the engine; any thread. An object without turns has only one, and no get(). */
	void (*get)(struct softrdma_watched *watched);
	void (*put)(struct softrdma_watched *watched);

	/* engine.c only; softrdma_engine_of() and the like are for others */
	_Atomic(struct softrdma_engine *) engine; /* NULL: the first; peeked at without a lock */
	struct softrdma_watched *retired_next;
	struct softrdma_watched *work_next;
	bool queued; /* it waits for a turn; guarded by the engine's lock */
	struct softrdma_on_beat on_beat[SOFTRDMA_BEATS]; /* guarded by the engine's lock */
};

#endif /* SOFTRDMA_WATCHED_H */
