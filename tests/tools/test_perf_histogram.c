/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_perf_histogram.c -- quantiles of known values */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "histogram.h"

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing, empty),
		cmocka_unit_test_setup(small_values_are_exact, empty),
		cmocka_unit_test_setup(error_is_bounded, empty),
		cmocka_unit_test_setup(largest_is_exact, empty),
		cmocka_unit_test_setup(merging_adds, empty),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
