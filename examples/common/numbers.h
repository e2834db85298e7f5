/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * numbers.h -- numbers from the command line, checked
 */

#ifndef EXAMPLES_NUMBERS_H
#define EXAMPLES_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/* parses a whole decimal number, at most max; rejects anything else */
bool parse_number(const char *text, uint64_t max, uint64_t *value);

/* the same with an optional suffix K, M or G (powers of 1024) */
bool parse_size(const char *text, uint64_t max, uint64_t *value);

#endif /* EXAMPLES_NUMBERS_H */
