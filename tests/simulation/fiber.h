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
#include <stdint.h>

/*
 * Begins a new seed. preemption: in a thousand locks, those at which another fiber runs first. no_thread: in
 * a thousand calls, those in which a worker cannot be made. steps_max: the number of steps that counts as an
 * endless run.
 */
void fibers_begin(unsigned preemption, unsigned no_thread, uint64_t steps_max);

void fiber_start(const char *name, void (*run)(void *arg), void *arg);

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

/* the name of the running fiber, for the trace */
const char *fiber_name(void);

/* true if a fiber is running, false if it is the scheduler */
bool fiber_is_running(void);

#endif /* TEST_SIMULATION_FIBER_H */
