/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_disk_journal.c -- the account of the journal: entries do not overlap, and dropping gives all space back */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "journal.h"

static void
fills_and_empties(void **state)
{
	(void)state;
	struct journal j;
	assert_true(journal_init(&j, 100, 10));
	assert_null(journal_append(&j, 0, 101, false)); /* never fits */
	const struct journal_entry *whole = journal_append(&j, 7, 100, false);
	assert_non_null(whole);
	assert_int_equal(whole->at, 0);
	assert_int_equal(whole->offset, 7);
	assert_null(journal_append(&j, 0, 1, false));
	assert_null(journal_append(&j, 0, 1, true)); /* zeros count like data */
	journal_drop(&j, 1);
	assert_int_equal(j.first, 1);
	assert_non_null(journal_append(&j, 0, 100, true));
	assert_null(journal_append(&j, 0, 1, false));
	journal_drop(&j, j.end);
	assert_int_equal(j.first, j.end);
	journal_drop(&j, 0); /* before the first: nothing */
	assert_int_equal(j.first, j.end);
	journal_fini(&j);
}

/* data that does not fit before the end of the buffer begins at its start, if there is room */
static void
wraps(void **state)
{
	(void)state;
	struct journal j;
	assert_true(journal_init(&j, 100, 10));
	assert_int_equal(journal_append(&j, 0, 60, false)->at, 0);
	assert_int_equal(journal_append(&j, 0, 20, false)->at, 60);
	assert_null(journal_append(&j, 0, 30, false));
	journal_drop(&j, 1);
	assert_null(journal_append(&j, 0, 61, false));
	assert_int_equal(journal_append(&j, 0, 60, false)->at, 0);
	assert_null(journal_append(&j, 0, 1, false)); /* the rest at the end is skipped, not free */
	journal_drop(&j, 2);
	assert_int_equal(journal_append(&j, 0, 20, false)->at, 60);
	assert_null(journal_append(&j, 0, 1, false));
	journal_drop(&j, 3); /* with the entry at the start, the skipped rest is free too */
	assert_int_equal(journal_append(&j, 0, 20, false)->at, 80);
	assert_int_equal(journal_append(&j, 0, 60, false)->at, 0);
	assert_null(journal_append(&j, 0, 1, false));
	journal_fini(&j);
}

static void
bounded_entries(void **state)
{
	(void)state;
	struct journal j;
	assert_true(journal_init(&j, 100, 3));
	for (int i = 0; i < 3; i++)
		assert_non_null(journal_append(&j, 0, 1, true));
	assert_null(journal_append(&j, 0, 1, true));
	journal_drop(&j, 1);
	assert_non_null(journal_append(&j, 0, 1, true));
	journal_fini(&j);
}

#define SIZE 997

/* random appends and drops, against a map of the buffer that says which entry owns a byte */
static void
random_use(void **state)
{
	(void)state;
	static uint64_t owner[SIZE]; /* number of the entry and 1; 0: free */
	struct journal j;
	unsigned seed = 11;
	uint64_t appended = 0;
	assert_true(journal_init(&j, SIZE, 64));
	for (int round = 0; round < 200000; round++) {
		const bool zeros = rand_r(&seed) % 8 == 0;
		const size_t len = 1 + (size_t)rand_r(&seed) % 100;
		const uint64_t number = j.end;
		const struct journal_entry *entry = journal_append(&j, (uint64_t)round, len, zeros);
		if (entry) {
			assert_ptr_equal(entry, journal_get(&j, number));
			assert_int_equal(entry->offset, round);
			assert_int_equal(entry->zeros, zeros);
			for (size_t i = 0; i < len; i++) {
				assert_true(entry->at + i < SIZE);
				assert_int_equal(owner[entry->at + i], 0);
				owner[entry->at + i] = number + 1;
			}
			appended++;
		} else {
			/* it was refused because there is much in it, although the end of the buffer may be lost */
			assert_true(j.end - j.first >= 4);
		}
		if (!entry || rand_r(&seed) % 16 == 0) {
			const uint64_t until = j.first + (uint64_t)rand_r(&seed) % (j.end - j.first + 1);
			journal_drop(&j, until);
			for (size_t i = 0; i < SIZE; i++)
				if (owner[i] <= until)
					owner[i] = 0;
		}
	}
	assert_true(appended > 100000);
	journal_fini(&j);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fills_and_empties),
		cmocka_unit_test(wraps),
		cmocka_unit_test(bounded_entries),
		cmocka_unit_test(random_use),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
