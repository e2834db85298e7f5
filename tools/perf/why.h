/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* why.h -- why something did not work, as a sentence for the user */

#ifndef PERF_WHY_H
#define PERF_WHY_H

#include <stdbool.h>

/* bytes of a sentence; longer ones are cut */
#define WHY_MAX 512

/* both return false, so that a failing function can end with them */
bool why_say(char why[static WHY_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));
/* what was being done, and the library's own sentence about the last failure of this thread */
bool why_rpma(char why[static WHY_MAX], const char *doing);

#endif /* PERF_WHY_H */
