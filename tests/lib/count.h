/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* count.h -- what this process holds, for tests that want to see it given back */

#ifndef TEST_COUNT_H
#define TEST_COUNT_H

int count_fds(void);
int count_threads(void);

/*
 * Waits until count() is at most limit: a thread that has ended stays in /proc for a moment, and
 * the end of a connection is noticed by other threads. Returns the last count, at most limit if it
 * was reached in time.
 */
int count_settle(int (*count)(void), int limit, int timeout_ms);

#endif /* TEST_COUNT_H */
