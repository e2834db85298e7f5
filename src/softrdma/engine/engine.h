/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * engine.h -- the progress threads: events, turns and beats
 *
 * An engine is a progress thread (the field's progress engine) with what it needs: an epoll, a list of turns, beats, a
 * lock. It serves sockets of the process, so that remote access needs no help of the application. It knows only its
 * watched objects (watched.h), and calls them:
 *
 *	handle()  when the object's descriptor has an event
 *	turn()    the same for a connection, and again while it has more to do than one turn
 *	beat()    at each beat that a connection needs
 *
 * What else it calls is in struct softrdma_engine_calls.
 *
 * After work the thread polls for a while before it sleeps, above all the one connection that had input lately.
 *
 * Connections are spread over the engines, which share nothing while they serve: one connection is always served by the
 * same engine. What the process has once belongs to the first: pending sockets and listeners, the calls at a beat of the
 * connection manager, the alarm of injected faults, the registry. The registry's lock must be held by one thread for all
 * of the process's life with the device.
 */

#ifndef SOFTRDMA_ENGINE_H
#define SOFTRDMA_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/engine/timer.h"
#include "softrdma/engine/watched.h"

struct softrdma_engine;

/* what the first progress thread calls, without a lock; the others call only watched objects */
struct softrdma_engine_calls {
	/* first and last; NULL: nothing */
	void (*begin)(void);
	void (*end)(void);
	/* when the alarm goes off, which only the first engine has */
	void (*ring)(uint64_t now_ns);
	/*
	 * before it may sleep; returns the latest time of the next call, in ns of softrdma_now_ns(); 0: after the next
	 * event. NULL: nothing
	 */
	uint64_t (*before_sleep)(uint64_t now_ns);
};

/*
 * The life of the engines, in this order: open() makes the epoll of the first; run() starts its thread, and makes and
 * starts as many others as the environment says, or as can be started; halt() ends the threads; drain() gives queued
 * objects one more turn and releases retired ones, and from then on retired objects are released at once; close()
 * closes the descriptors. No object may be of an engine other than the first after close(). 0 or an errno value. One
 * caller at a time, not on a progress thread, no lock held.
 */
int softrdma_engine_open(void);
int softrdma_engine_run(const struct softrdma_engine_calls *calls);
void softrdma_engine_halt(void);
void softrdma_engine_drain(void);
void softrdma_engine_close(void);

struct softrdma_engine *softrdma_engine_first(void);
/* the engine that serves the object, from the time it is watched on; the first, if it has none. Any thread, any lock. */
struct softrdma_engine *softrdma_engine_of(const struct softrdma_watched *watched);
/*
 * The object is a connection that is about to be watched. It keeps the engine that it has, and otherwise gets the one
 * that has the fewest connections. part(): it is no longer watched. Two connections that join at a time may choose the
 * same engine. Any lock.
 */
struct softrdma_engine *softrdma_engine_join(struct softrdma_watched *watched);
void softrdma_engine_part(const struct softrdma_watched *watched);
/*
 * No thread serves the object, or will do so before it joins again. It has no engine from here on; the first one has the
 * beats that it needs.
 */
void softrdma_engine_forget(struct softrdma_watched *watched);
/*
 * What the engine of the object waits for at the descriptor: a mask of EPOLL* (epoll_ctl(2)). watch_again() changes it, and
 * lets the kernel report once more what is there already. The object has joined, or is one that the first engine serves.
 * 0 or an errno value. Any thread, any lock.
 */
int softrdma_engine_watch(struct softrdma_watched *watched, int fd, uint32_t events);
int softrdma_engine_watch_again(struct softrdma_watched *watched, int fd, uint32_t events);
void softrdma_engine_unwatch(struct softrdma_watched *watched, int fd);
/* how long a thread looks for more work before it sleeps, in ns */
uint64_t softrdma_engine_spin_ns(void);

/*
 * The object is no longer watched. Its progress thread may still hold an event for it, so its put() is
 * called after the current batch of events. Any thread; not under the engine's lock.
 */
void softrdma_engine_retire(struct softrdma_watched *watched);

/* gives the object another turn, after those that wait for one already. Any thread, any lock but the engine's. */
void softrdma_engine_queue(struct softrdma_watched *watched);
/* true if an object of the engine has more to do than one turn. Any thread, any lock. */
bool softrdma_engine_has_queued(const struct softrdma_engine *engine);

/* Adds a function that is called at the beat of the first engine, after earlier ones. Adding it again changes nothing. */
void softrdma_engine_at_beat(enum softrdma_beat beat, void (*tick)(uint64_t now_ns));
/*
 * The object needs the beat from here on, or no longer: its engine calls its beat() then, from the next beat on. Nothing
 * changes if that was so before. Under a lock of the object that join() and forget() are called under too.
 */
void softrdma_engine_needs_beat(struct softrdma_watched *watched, enum softrdma_beat beat, bool needs);
/* adds to the number of things that need the beat of this engine; a negative change takes away. Any lock but the engine's. */
void softrdma_engine_timed(struct softrdma_engine *engine, enum softrdma_beat beat, int change);

/* the alarm goes off at this time, or earlier if it was set so. Any lock but the engine's. */
void softrdma_engine_alarm(uint64_t when_ns);

/*
 * Asks each engine but the first for a look at all its objects that begins after this call. others_have_looked() is true
 * if no look that was asked for is still due. Each look that ends wakes the first engine. On the first engine's thread.
 */
void softrdma_engine_ask_others(void);
bool softrdma_engine_others_have_looked(void);

#endif /* SOFTRDMA_ENGINE_H */
