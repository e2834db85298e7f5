/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_perf_pace.c -- operations are due at even distances, which do not drift */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pace.h"

static void
evenly_spaced(void **state)
{
	(void)state;
	struct pace pace;
	pace_begin(&pace, 1000, 0, 5000, 70);
	assert_int_equal(pace_due(&pace, 70), 5000);
	assert_int_equal(pace_due(&pace, 71), 1005000);
	assert_int_equal(pace_due(&pace, 72), 2005000);
	assert_int_equal(pace_due(&pace, 1070), 1000005000);
}

/* three in a second are not at whole nanoseconds: after a day they are where they should be all the same */
static void
no_drift(void **state)
{
	(void)state;
	struct pace pace;
	pace_begin(&pace, 3, 0, 0, 0);
	assert_int_equal(pace_due(&pace, 1), 333333333);
	assert_in_range(pace_due(&pace, (uint64_t)3 * 86400), UINT64_C(86400000000000) - 1,
		UINT64_C(86400000000000));
	pace_begin(&pace, 1e9, 0, 0, 0);
	assert_int_equal(pace_due(&pace, UINT64_C(86400000000000)), UINT64_C(86400000000000));
}

static void
fractions(void **state)
{
	(void)state;
	struct pace pace;
	pace_begin(&pace, 0.001, 0, 1, 0);
	assert_int_equal(pace_due(&pace, 1), UINT64_C(1000000000001));
	pace_begin(&pace, 0.25, 0, 0, 9);
	assert_int_equal(pace_due(&pace, 10), UINT64_C(4000000000));
}

/* connections begin one after the other within an interval */
static void
shifted(void **state)
{
	(void)state;
	struct pace pace;
	pace_begin(&pace, 100, 0.75, 1000, 0);
	assert_int_equal(pace_due(&pace, 0), 7501000);
	assert_int_equal(pace_due(&pace, 1), 17501000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(evenly_spaced),
		cmocka_unit_test(no_drift),
		cmocka_unit_test(fractions),
		cmocka_unit_test(shifted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
