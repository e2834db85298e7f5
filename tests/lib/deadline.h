/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* deadline.h -- no test hangs: a deadline ends it, and names it */

#ifndef TEST_DEADLINE_H
#define TEST_DEADLINE_H

#include <stdint.h>

#define DEADLINE_EXIT_CODE 99

/*
 * After this number of seconds the process prints "DEADLINE: name" on stderr and ends with
 * DEADLINE_EXIT_CODE. A second call starts again with another name. The name is not copied. Uses SIGALRM and
 * alarm(2). The environment variable TEST_DEADLINE_FACTOR multiplies the time (for sanitizers and valgrind).
 */
void deadline_start(const char *name, unsigned seconds);
void deadline_stop(void);

/* seconds times TEST_DEADLINE_FACTOR */
unsigned deadline_scaled(unsigned seconds);

/* monotonic milliseconds */
int64_t now_ms(void);

/* milliseconds left until end_ms (a now_ms() value), as poll(2) takes them: 0 if it has passed */
int left_ms(int64_t end_ms);

#endif /* TEST_DEADLINE_H */
