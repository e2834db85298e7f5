/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* count.h -- what this process holds, for tests that check that it is given back */

#ifndef TEST_COUNT_H
#define TEST_COUNT_H

#include <stdbool.h>

/* true if this program is built with the thread sanitizer, which has a thread of its own */
bool in_thread_sanitizer(void);

/*
 * true if an emulator runs this program, because it is for another processor than the machine's. The kernel then
 * executes no other such program, and some of what it says of this process is about the emulator.
 */
bool in_emulator(void);

int count_fds(void);

/* without threads that are not the program's own: those of an emulator, and of the thread sanitizer */
int count_threads(void);

/*
 * Waits until count() is at most limit. A thread that has ended stays in /proc for a moment, and other
 * threads notice the end of a connection. Returns the last count, which is at most limit unless the time ran
 * out.
 */
int count_settle(int (*count)(void), int limit, int timeout_ms);

/* true if every other thread of this process sleeps */
bool other_threads_sleep(void);

/*
 * Waits until every other thread of this process sleeps. To be called before a fork(2) whose child allocates
 * memory or begins threads: in a child, the address sanitizer does not release the locks of its allocator, so
 * no thread may be in it at that moment.
 */
void await_sleep_of_other_threads(void);

#endif /* TEST_COUNT_H */
