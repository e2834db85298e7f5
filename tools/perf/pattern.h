/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* pattern.h -- bytes that depend on where and when they were written, to detect wrong data */

#ifndef PERF_PATTERN_H
#define PERF_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* the key of the data that connection number conn transfers in operation number sequence */
uint64_t pattern_key(uint32_t conn, uint64_t sequence);
/* the key of the target's answer to that operation */
uint64_t pattern_answer_key(uint32_t conn, uint64_t sequence);
/* writes the bytes of the pattern with this key, from position on */
void pattern_fill(void *mem, size_t len, uint64_t key, uint64_t position);
/* returns false if a byte differs; *wrong is the position of the first */
bool pattern_check(const void *mem, size_t len, uint64_t key, uint64_t position, uint64_t *wrong);

#endif /* PERF_PATTERN_H */
