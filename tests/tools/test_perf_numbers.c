/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_perf_numbers.c -- sizes and lists of sizes, as users write them */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "numbers.h"

static void
sizes(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t size; /* 0: none */
	} cases[] = {
		{ "1", 1 },
		{ "64", 64 },
		{ "4k", 4096 },
		{ "1m", 1 << 20 },
		{ "1g", 1 << 30 },
		{ "", 0 },
		{ "k", 0 },
		{ "0", 0 },
		{ "4K", 4096 },
		{ "1M", 1 << 20 },
		{ "1G", 1 << 30 },
		{ "4kb", 0 },
		{ "4T", 0 },
		{ " 4", 0 },
		{ "+4", 0 },
		{ "-4", 0 },
		{ "4 ", 0 },
		{ "2g", 0 },
		{ "0x10", 0 },
		{ "99999999999999999999", 0 },
		{ "18014398509481984k", 0 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t size = 77;
		bool good = size_parse(cases[i].text, 1, 1 << 30, &size);
		assert_int_equal(good, cases[i].size != 0);
		assert_int_equal(size, good ? cases[i].size : 77);
	}
}

static void
lists(void **state)
{
	(void)state;
	uint64_t list[4];
	int count;
	assert_true(sizes_parse("64", 1, 1024, list, 4, &count));
	assert_int_equal(count, 1);
	assert_true(sizes_parse("1,128:512", 1, 1024, list, 4, &count));
	assert_int_equal(count, 4);
	assert_int_equal(list[0], 1);
	assert_int_equal(list[1], 128);
	assert_int_equal(list[3], 512);
	/* the last size is the largest that doubling reaches within the limit */
	assert_true(sizes_parse("100:350", 1, 1024, list, 4, &count));
	assert_int_equal(count, 2);
	assert_int_equal(list[1], 200);

	static const char *const wrong[] = { "", ",", "1,", "1,,2", ":", "1:", ":2", "2:1", "0:0", "1:2:4",
		"1:1024", "1,2,3,4,5", "2048" };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(sizes_parse(wrong[i], 1, 1024, list, 4, &count));
}

static void
texts(void **state)
{
	(void)state;
	static const struct {
		uint64_t size;
		const char *text;
	} cases[] = { { 1, "1" }, { 1000, "1000" }, { 1024, "1k" }, { 1536, "1536" }, { 3 << 20, "3m" },
		{ (uint64_t)1 << 40, "1024g" } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[SIZE_TEXT_MAX];
		size_text(cases[i].size, text);
		assert_string_equal(text, cases[i].text);
	}
}

static void
decimals(void **state)
{
	(void)state;
	double value;
	assert_true(decimal_parse("0.25", 0, 10, &value));
	assert_true(value == 0.25);
	static const char *const wrong[] = { "", ".", "nan", "inf", "1e3", "-1", "11", "1s", "0x1" };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(decimal_parse(wrong[i], 0, 10, &value));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(lists),
		cmocka_unit_test(texts),
		cmocka_unit_test(decimals),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
