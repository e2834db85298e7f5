/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* pattern.h -- bytes that tell where they belong: each 8 of them depend on a seed and on their offset */

#ifndef TEST_PATTERN_H
#define TEST_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* fills len bytes with what the pattern of the seed has from offset on; offset need not be a multiple of 8 */
void pattern_fill(void *buf, size_t len, uint64_t seed, uint64_t offset);

/* index of the first byte that is not the pattern's, or -1 when all are */
ptrdiff_t pattern_check(const void *buf, size_t len, uint64_t seed, uint64_t offset);

/* index of the first byte that differs from value, or -1: how a test shows that memory was left alone */
ptrdiff_t pattern_check_byte(const void *buf, size_t len, uint8_t value);

#endif /* TEST_PATTERN_H */
