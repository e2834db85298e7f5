/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* pattern.h -- bytes that show where they belong: each 8 of them depend on a seed and on their offset */

#ifndef TEST_PATTERN_H
#define TEST_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* fills len bytes with the seed's pattern, beginning at offset, which need not be a multiple of 8 */
void pattern_fill(void *buf, size_t len, uint64_t seed, uint64_t offset);

/* index of the first byte that differs from the pattern, or -1 */
ptrdiff_t pattern_check(const void *buf, size_t len, uint64_t seed, uint64_t offset);

/* index of the first byte that differs from value, or -1; shows that memory was not changed */
ptrdiff_t pattern_check_byte(const void *buf, size_t len, uint8_t value);

#endif /* TEST_PATTERN_H */
