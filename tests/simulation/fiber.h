/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fiber.h -- threads that run one at a time, in an order that the seed decides
 *
 * A fiber runs until it waits; with preemption, also until some of the locks that it takes. pthread_create
 * and related functions make fibers of the device's threads, and locks and conditions wait here.
 */

#ifndef TEST_SIMULATION_FIBER_H
#define TEST_SIMULATION_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Begins a new seed. preemption: in a thousand locks, those at which another fiber runs first. no_thread: in
 * a thousand calls, those in which a worker cannot be made. steps_max: the number of steps that counts as an
 * endless run.
 */
void fibers_begin(unsigned preemption, unsigned no_thread, uint64_t steps_max);

void fiber_start(const char *name, void (*run)(void *arg), void *arg);

/*
 * Fibers of a group are the threads of one process. A thread belongs to the group of the fiber that creates it.
 * A frozen group does not run. fibers_kill() ends all fibers of a group where they are; it does nothing and
 * returns false while one of them holds a lock, which a real process would take with it.
 */
void fiber_start_in(unsigned group, const char *name, void (*run)(void *arg), void *arg);
void fibers_freeze(unsigned group, bool frozen);
bool fibers_kill(unsigned group);
/* the group of the running fiber; 0 if it belongs to none */
unsigned fiber_group(void);

/*
 * Runs fibers until all have ended. happen() does everything outside the fibers that is due by now; it
 * returns the time of the next such event, or SIM_NEVER.
 */
void fibers_run(uint64_t (*happen)(void));

/* lets other fibers run first, if any can */
void fiber_yield(void);
void fiber_sleep_ns(uint64_t ns);
/* waits until `what` is woken, or until this time; true if woken */
bool fiber_wait(const void *what, uint64_t until_ns);
void fiber_wake(const void *what);

/*
 * Zeroed memory of the running fiber: for what the code under test keeps in thread-local variables. If
 * fibers_switched is set, it is called with that memory before a fiber runs.
 */
#define FIBER_OWN_SIZE 152
void *fiber_own(void);
extern void (*fibers_switched)(void *own);

/* the name of the running fiber, for the trace */
const char *fiber_name(void);

/* true if a fiber is running, false if it is the scheduler */
bool fiber_is_running(void);

#endif /* TEST_SIMULATION_FIBER_H */
