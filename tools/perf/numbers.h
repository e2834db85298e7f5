/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* numbers.h -- numbers as users write and read them */

#ifndef PERF_NUMBERS_H
#define PERF_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIZE_TEXT_MAX 24

/* only digits, from min to max */
bool number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *value);
/* the same, with an optional k, m or g after the digits, of either case: powers of 1024 */
bool size_parse(const char *text, uint64_t min, uint64_t max, uint64_t *value);
/* a decimal number, as "0.25", from min to max */
bool decimal_parse(const char *text, double min, double max, double *value);
/*
 * Parses a list such as "64,4k,1m", or "64:1m", which doubles from the first to the last. Returns false if it
 * is not a list, or has more than capacity sizes.
 */
bool sizes_parse(const char *text, uint64_t min, uint64_t max, uint64_t *list, int capacity, int *count);
/* the form that size_parse takes, such as "64", "4k" or "1m" */
void size_text(uint64_t size, char text[static SIZE_TEXT_MAX]);

#endif /* PERF_NUMBERS_H */
