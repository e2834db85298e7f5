/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fiber.h -- threads that run one at a time, in an order that the seed decides
 *
 * A fiber runs until it waits; with a preemption set, also until a lock it takes. pthread_create and
 * its kin make fibers of the device's threads, and locks and conditions wait here.
 */

#ifndef TEST_SIMULATION_FIBER_H
#define TEST_SIMULATION_FIBER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A new seed: how often of a thousand locks another fiber goes first, how often of a thousand times a worker
 * cannot be made, and how many steps are too many.
 */
void fibers_begin(unsigned preemption, unsigned no_thread, uint64_t steps_max);

void fiber_start(const char *name, void (*run)(void *arg), void *arg);

/*
 * Runs fibers until all have ended. happen() does what the world does by itself until now, and says when it
 * does something next, or SIM_NEVER.
 */
void fibers_run(uint64_t (*happen)(void));

/* the running fiber: others go first, if they can */
void fiber_yield(void);
void fiber_sleep_ns(uint64_t ns);
/* until somebody wakes what it waits for, or until then; true: woken */
bool fiber_wait(const void *what, uint64_t until_ns);
void fiber_wake(const void *what);

/* of the one that runs; for the trace */
const char *fiber_name(void);

/* is a fiber running, or the scheduler itself? */
bool fiber_is_running(void);

#endif /* TEST_SIMULATION_FIBER_H */
