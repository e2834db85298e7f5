/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* deadline.h -- no test hangs: it ends by a deadline, and says which one it was */

#ifndef TEST_DEADLINE_H
#define TEST_DEADLINE_H

#include <stdint.h>

#define DEADLINE_EXIT_CODE 99

/*
 * After so many seconds the process says "DEADLINE: name" on stderr and ends with
 * DEADLINE_EXIT_CODE. A second call starts anew with another name. The name is not copied. Uses
 * SIGALRM and alarm(2). The environment variable TEST_DEADLINE_FACTOR multiplies (sanitizers,
 * valgrind).
 */
void deadline_start(const char *name, unsigned seconds);
void deadline_stop(void);

/* seconds times TEST_DEADLINE_FACTOR */
unsigned deadline_scaled(unsigned seconds);

/* monotonic milliseconds */
int64_t now_ms(void);

/* what is left until end_ms (a now_ms() value), as poll(2) wants it: 0 when it is over */
int left_ms(int64_t end_ms);

#endif /* TEST_DEADLINE_H */
