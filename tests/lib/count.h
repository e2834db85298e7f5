/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* count.h -- what this process holds, for tests that check that it is given back */

#ifndef TEST_COUNT_H
#define TEST_COUNT_H

int count_fds(void);
int count_threads(void);

/*
 * Waits until count() is at most limit. A thread that has ended stays in /proc for a moment, and other
 * threads notice the end of a connection. Returns the last count, which is at most limit unless the time ran
 * out.
 */
int count_settle(int (*count)(void), int limit, int timeout_ms);

#endif /* TEST_COUNT_H */
