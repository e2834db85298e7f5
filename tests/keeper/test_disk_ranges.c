/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_disk_ranges.c -- sets of ranges: they cover what was added, and stay bounded */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ranges.h"

static void
assert_ranges(const struct ranges *ranges, int count, const struct range *expected)
{
	assert_int_equal(ranges->count, count);
	for (int i = 0; i < count; i++) {
		assert_int_equal(ranges->at[i].begin, expected[i].begin);
		assert_int_equal(ranges->at[i].end, expected[i].end);
	}
}

static void
merges(void **state)
{
	(void)state;
	struct ranges r;
	ranges_init(&r, RANGES_MAX);
	ranges_add(&r, 10, 20);
	ranges_add(&r, 30, 40);
	ranges_add(&r, 5, 5); /* empty */
	assert_ranges(&r, 2, (struct range[]){ { 10, 20 }, { 30, 40 } });
	ranges_add(&r, 20, 25); /* touches */
	ranges_add(&r, 8, 10);
	assert_ranges(&r, 2, (struct range[]){ { 8, 25 }, { 30, 40 } });
	ranges_add(&r, 0, 4);
	ranges_add(&r, 50, 60);
	assert_ranges(&r, 4, (struct range[]){ { 0, 4 }, { 8, 25 }, { 30, 40 }, { 50, 60 } });
	ranges_add(&r, 9, 12);  /* inside */
	ranges_add(&r, 24, 35); /* joins two */
	assert_ranges(&r, 3, (struct range[]){ { 0, 4 }, { 8, 40 }, { 50, 60 } });
	ranges_add(&r, 0, UINT64_MAX); /* joins all */
	assert_ranges(&r, 1, (struct range[]){ { 0, UINT64_MAX } });
	ranges_clear(&r);
	assert_int_equal(r.count, 0);
}

/* with one range, it covers all; with several, the smallest gaps go first */
static void
bounded(void **state)
{
	(void)state;
	struct ranges r;
	ranges_init(&r, 1);
	ranges_add(&r, 100, 110);
	ranges_add(&r, 10, 20);
	ranges_add(&r, 50, 60);
	assert_ranges(&r, 1, (struct range[]){ { 10, 110 } });
	ranges_init(&r, 3);
	ranges_add(&r, 0, 10);
	ranges_add(&r, 100, 110);
	ranges_add(&r, 150, 160);
	ranges_add(&r, 300, 310);
	assert_ranges(&r, 3, (struct range[]){ { 0, 10 }, { 100, 160 }, { 300, 310 } });
}

#define SPACE 4096

/* random ranges, against a map of bytes: all that was added is covered, and with room enough nothing else */
static void
random_ranges(void **state)
{
	(void)state;
	static uint8_t added[SPACE], covered[SPACE];
	struct ranges r;
	unsigned seed = 7;
	for (int round = 0; round < 2000; round++) {
		const int max = round % 2 ? RANGES_MAX : 1 + round % 7;
		const int count = 1 + rand_r(&seed) % 60;
		memset(added, 0, SPACE);
		memset(covered, 0, SPACE);
		ranges_init(&r, max);
		for (int i = 0; i < count; i++) {
			const size_t begin = (size_t)rand_r(&seed) % SPACE;
			const size_t len = (size_t)rand_r(&seed) % 64;
			const size_t end = begin + len < SPACE ? begin + len : SPACE;
			ranges_add(&r, begin, end);
			memset(added + begin, 1, end - begin);
		}
		assert_true(r.count <= max);
		for (int i = 0; i < r.count; i++) {
			assert_true(r.at[i].begin < r.at[i].end && r.at[i].end <= SPACE);
			assert_true(i == 0 || r.at[i - 1].end < r.at[i].begin);
			memset(covered + r.at[i].begin, 1, r.at[i].end - r.at[i].begin);
		}
		for (size_t i = 0; i < SPACE; i++)
			assert_true(max == RANGES_MAX ? added[i] == covered[i] : added[i] <= covered[i]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merges),
		cmocka_unit_test(bounded),
		cmocka_unit_test(random_ranges),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
