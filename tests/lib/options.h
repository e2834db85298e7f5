/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* options.h -- what the drivers of scenarios take on their command lines */

#ifndef TEST_OPTIONS_H
#define TEST_OPTIONS_H

#include <stdbool.h>

/* a number and nothing else, decimal, hexadecimal or octal; false: none, or not from min to max */
bool option_number(const char *text, unsigned long min, unsigned long max, unsigned long *value);

/* does one of the patterns fit, which '|' separates? NULL fits always */
bool option_matches(const char *patterns, const char *name);

#endif /* TEST_OPTIONS_H */
