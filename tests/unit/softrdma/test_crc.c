/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_crc.c -- the check sum against known values, and the table-driven variant against the one that is
 * built
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "softrdma/wire/crc.h"

/* from crc_table.c, under another name */
uint32_t softrdma_crc32c_by_table(uint32_t crc, const void *bytes, size_t len);

typedef uint32_t (*crc32c)(uint32_t crc, const void *bytes, size_t len);
static const crc32c variants[] = { softrdma_crc32c, softrdma_crc32c_by_table };

#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

/* the check value of the polynomial, and the examples of RFC 3720, B.4 */
static void
test_known_values(void **state)
{
	(void)state;
	uint8_t bytes[32];
	for (size_t i = 0; i < VARIANTS; i++) {
		assert_int_equal(variants[i](0, "123456789", 9), 0xe3069283);
		memset(bytes, 0, sizeof(bytes));
		assert_int_equal(variants[i](0, bytes, sizeof(bytes)), 0x8a9136aa);
		memset(bytes, 0xff, sizeof(bytes));
		assert_int_equal(variants[i](0, bytes, sizeof(bytes)), 0x62a8ab43);
		for (size_t n = 0; n < sizeof(bytes); n++)
			bytes[n] = (uint8_t)n;
		assert_int_equal(variants[i](0, bytes, sizeof(bytes)), 0x46dd794e);
		for (size_t n = 0; n < sizeof(bytes); n++)
			bytes[n] = (uint8_t)(31 - n);
		assert_int_equal(variants[i](0, bytes, sizeof(bytes)), 0x113fdb5c);
	}
}

static void
test_no_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < VARIANTS; i++) {
		assert_int_equal(variants[i](0, "", 0), 0);
		assert_int_equal(variants[i](0xe3069283, "", 0), 0xe3069283);
	}
}

static uint8_t bytes[70000];

static void
fill_bytes(void)
{
	uint32_t value = 1;
	for (size_t i = 0; i < sizeof(bytes); i++) {
		value = value * 1664525 + 1013904223;
		bytes[i] = (uint8_t)(value >> 24);
	}
}

/* every short length, and some long ones, from every alignment */
static void
test_variants_agree(void **state)
{
	(void)state;
	fill_bytes();
	for (size_t begin = 0; begin < 16; begin++) {
		for (size_t len = 0; len <= 300; len++)
			assert_int_equal(softrdma_crc32c((uint32_t)len, bytes + begin, len),
				softrdma_crc32c_by_table((uint32_t)len, bytes + begin, len));
		for (size_t len = 1024; len <= 65536; len = len * 2 + begin)
			assert_int_equal(softrdma_crc32c(0, bytes + begin, len),
				softrdma_crc32c_by_table(0, bytes + begin, len));
	}
}

/* computed in parts, the result is the same as in one call */
static void
test_pieces(void **state)
{
	(void)state;
	fill_bytes();
	for (size_t i = 0; i < VARIANTS; i++) {
		const uint32_t whole = variants[i](0, bytes, 1000);
		for (size_t cut = 0; cut <= 1000; cut++)
			assert_int_equal(variants[i](variants[i](0, bytes, cut), bytes + cut, 1000 - cut),
				whole);
	}
}

/* a change of any bit, or of two bits close to each other, is detected */
static void
test_flipped_bits(void **state)
{
	(void)state;
	fill_bytes();
	const uint32_t right = softrdma_crc32c(0, bytes, 128);
	for (size_t bit = 0; bit < 8 * 128; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_not_equal(softrdma_crc32c(0, bytes, 128), right);
		if (bit > 0) {
			bytes[(bit - 1) / 8] ^= (uint8_t)(1u << (bit - 1) % 8);
			assert_int_not_equal(softrdma_crc32c(0, bytes, 128), right);
			bytes[(bit - 1) / 8] ^= (uint8_t)(1u << (bit - 1) % 8);
		}
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(softrdma_crc32c(0, bytes, 128), right);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_values),
		cmocka_unit_test(test_no_bytes),
		cmocka_unit_test(test_variants_agree),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_flipped_bits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
