/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* pattern.h -- bytes that depend on where and when they were written, so that wrong ones show */

#ifndef PERF_PATTERN_H
#define PERF_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* what connection number conn carries in its operation number sequence */
uint64_t pattern_key(uint32_t conn, uint64_t sequence);
/* the bytes from position on of the pattern with this key */
void pattern_fill(void *mem, size_t len, uint64_t key, uint64_t position);
/* false: *wrong is the position of the first byte that differs */
bool pattern_check(const void *mem, size_t len, uint64_t key, uint64_t position, uint64_t *wrong);

#endif /* PERF_PATTERN_H */
