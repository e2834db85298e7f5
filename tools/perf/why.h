/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* why.h -- why something failed, as a sentence for the user */

#ifndef PERF_WHY_H
#define PERF_WHY_H

#include <stdbool.h>

/* bytes of a sentence; longer ones are cut */
#define WHY_MAX 512

/* both return false, so that a failing function can return their result */
bool why_say(char why[static WHY_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));
/* writes what was being done, and the library's sentence about this thread's last failure */
bool why_rpma(char why[static WHY_MAX], const char *doing);

#endif /* PERF_WHY_H */
