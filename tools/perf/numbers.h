/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* numbers.h -- numbers as users write and read them */

#ifndef PERF_NUMBERS_H
#define PERF_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIZE_TEXT_MAX 24

/* digits and nothing else, from min to max */
bool number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *value);
/* the same with k, m or g behind: powers of 1024 */
bool size_parse(const char *text, uint64_t min, uint64_t max, uint64_t *value);
/* seconds, as "0.25", from min to max */
bool seconds_parse(const char *text, double min, double max, double *value);
/*
 * "64,4k,1m" and, doubled from the first to the last, "64:1m"; false: it is none, or there are more than
 * capacity
 */
bool sizes_parse(const char *text, uint64_t min, uint64_t max, uint64_t *list, int capacity, int *count);
/* "64", "4k", "1m": what size_parse takes */
void size_text(uint64_t size, char text[static SIZE_TEXT_MAX]);

#endif /* PERF_NUMBERS_H */
