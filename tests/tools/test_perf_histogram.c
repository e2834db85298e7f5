/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_perf_histogram.c -- quantiles of known values, and figures as text */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "figure.h"

static struct histogram h;

static int
empty(void **state)
{
	(void)state;
	memset(&h, 0, sizeof(h));
	return 0;
}

static void
nothing(void **state)
{
	(void)state;
	assert_int_equal(histogram_quantile(&h, 0.5), 0);
	assert_int_equal(histogram_quantile(&h, 1), 0);
	assert_true(histogram_mean(&h) == 0);
}

static void
small_values_are_exact(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 100; i++)
		histogram_add(&h, i);
	assert_int_equal(histogram_quantile(&h, 0), 1);
	assert_int_equal(histogram_quantile(&h, 0.5), 50);
	assert_int_equal(histogram_quantile(&h, 0.99), 99);
	assert_int_equal(histogram_quantile(&h, 1), 100);
	assert_true(histogram_mean(&h) == 50.5);
}

/* each value alone: the result is never less than the value, and at most 1/64 more */
static void
error_is_bounded(void **state)
{
	(void)state;
	for (unsigned int shift = 0; shift < 64; shift++) {
		for (uint64_t part = 0; part < 7; part++) {
			uint64_t value = ((uint64_t)1 << shift) + (((uint64_t)1 << shift) / 7) * part;
			memset(&h, 0, sizeof(h));
			histogram_add(&h, value);
			histogram_add(&h, UINT64_MAX); /* so that the maximum does not correct the bucket */
			uint64_t seen = histogram_quantile(&h, 0.5);
			assert_true(seen >= value);
			assert_true(seen - value <= value / 64);
		}
	}
	assert_int_equal(histogram_quantile(&h, 1), UINT64_MAX);
}

static void
largest_is_exact(void **state)
{
	(void)state;
	histogram_add(&h, 1);
	histogram_add(&h, 123456789);
	assert_int_equal(histogram_quantile(&h, 1), 123456789);
	assert_int_equal(histogram_quantile(&h, 0.99), 123456789);
}

static void
merging_adds(void **state)
{
	(void)state;
	static struct histogram other;
	for (uint64_t i = 0; i < 90; i++)
		histogram_add(&h, 10);
	for (uint64_t i = 0; i < 10; i++)
		histogram_add(&other, 50);
	histogram_merge(&h, &other);
	assert_int_equal(h.count, 100);
	assert_int_equal(h.max, 50);
	assert_int_equal(histogram_quantile(&h, 0.9), 10);
	assert_int_equal(histogram_quantile(&h, 0.91), 50);
	assert_true(histogram_mean(&h) == 14);
}

static void
many_at_once(void **state)
{
	(void)state;
	static struct histogram other;
	memset(&other, 0, sizeof(other));
	for (int i = 0; i < 1000; i++)
		histogram_add(&other, 77);
	histogram_add_many(&h, 77, 1000);
	histogram_add_many(&h, UINT64_MAX, 0);
	assert_memory_equal(&h, &other, sizeof(h));
	/* the sum of values of any size does not wrap */
	histogram_add_many(&h, UINT64_MAX, 1000000);
	assert_true(histogram_mean(&h) > (double)UINT64_MAX / 2);
}

/* a quantile is known from the count on at which a value above it is expected */
static void
counts_that_support_a_quantile(void **state)
{
	(void)state;
	static const struct {
		double part;
		uint64_t count;
	} cases[] = { { 0.5, 2 }, { 0.9, 10 }, { 0.99, 100 }, { 0.999, 1000 }, { 0.9999, 10000 }, { 1, 1 } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(&h, 0, sizeof(h));
		histogram_add_many(&h, 5, cases[i].count - 1);
		assert_false(histogram_supports(&h, cases[i].part));
		histogram_add(&h, 5);
		assert_true(histogram_supports(&h, cases[i].part));
	}
}

static void
check_text(double value, const char *expected)
{
	char text[FIGURE_TEXT_MAX];
	figure_text(value, text);
	assert_string_equal(text, expected);
}

/* three significant digits, rounded, without an exponent */
static void
three_digits(void **state)
{
	(void)state;
	check_text(8126.46, "8130");
	check_text(0.012345, "0.0123");
	check_text(1, "1.00");
	check_text(12.345, "12.3");
	check_text(9.996, "10.0");
	check_text(99.96, "100");
	check_text(999.6, "1000");
	check_text(123456789, "123000000");
	check_text(0, "0");
	check_text(1e-20, "0.000000000000");
	check_text(NAN, "-");
	check_text(INFINITY, "-");

	char text[FIGURE_TEXT_MAX];
	histogram_add_many(&h, 63, 99);
	figure_quantile_text(&h, 0.99, text);
	assert_string_equal(text, "-");
	histogram_add(&h, 2345678);
	figure_quantile_text(&h, 0.99, text);
	assert_string_equal(text, "0.0630");
	figure_quantile_text(&h, 1, text);
	assert_string_equal(text, "2350");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing, empty),
		cmocka_unit_test_setup(small_values_are_exact, empty),
		cmocka_unit_test_setup(error_is_bounded, empty),
		cmocka_unit_test_setup(largest_is_exact, empty),
		cmocka_unit_test_setup(merging_adds, empty),
		cmocka_unit_test_setup(many_at_once, empty),
		cmocka_unit_test_setup(counts_that_support_a_quantile, empty),
		cmocka_unit_test_setup(three_digits, empty),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
