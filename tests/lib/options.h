/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* options.h -- command-line options of the drivers of scenarios */

#ifndef TEST_OPTIONS_H
#define TEST_OPTIONS_H

#include <stdbool.h>

/* true if the text is a number and nothing else (decimal, hexadecimal or octal), from min to max */
bool option_number(const char *text, unsigned long min, unsigned long max, unsigned long *value);

/* true if the name matches one of the patterns, which '|' separates; NULL matches every name */
bool option_matches(const char *patterns, const char *name);

#endif /* TEST_OPTIONS_H */
