/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_incoming.c -- which silent connection makes room, against a model that looks at all of them */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "failing.h"
#include "softrdma/cm/incoming.h"

#define COUNT 300
#define SOURCES 40
#define STEPS 20000

static struct softrdma_incoming all[COUNT];
static unsigned sources[COUNT], came[COUNT], ranks[COUNT]; /* the model's */
static unsigned now;

static struct softrdma_source
source(unsigned i)
{
	struct softrdma_source source = { { 0 } };
	memcpy(source.bytes + 12, &i, sizeof(i));
	return source;
}

static unsigned
count_of(unsigned from)
{
	unsigned count = 0;
	for (int i = 0; i < COUNT; i++)
		count += all[i].origin && sources[i] == from;
	return count;
}

/* of those that are silent and of this source (SOURCES: any) and rank (0: any), the oldest */
static struct softrdma_incoming *
oldest(unsigned from, unsigned rank)
{
	int at = -1;
	for (int i = 0; i < COUNT; i++)
		if (all[i].silent && (from == SOURCES || sources[i] == from) &&
			(rank == 0 || ranks[i] == rank) && (at < 0 || came[i] < came[at]))
			at = i;
	return at < 0 ? NULL : &all[at];
}

static unsigned
highest_rank(void)
{
	unsigned highest = 0;
	for (int i = 0; i < COUNT; i++)
		if (all[i].silent && ranks[i] > highest)
			highest = ranks[i];
	return highest;
}

static void
add(int i, unsigned from)
{
	const struct softrdma_source of = source(from);
	unsigned number = count_of(from) + 1;
	sources[i] = from;
	came[i] = now++;
	for (ranks[i] = 1; number > 1; number /= 2)
		ranks[i]++;
	assert_true(softrdma_incoming_add(&all[i], &of));
	assert_memory_equal(softrdma_incoming_source(&all[i]), &of, sizeof(of));
}

static void
check(void)
{
	unsigned count = 0;
	for (unsigned from = 0; from < SOURCES; from++) {
		const struct softrdma_source of = source(from);
		const unsigned some = count_of(from);
		count += some;
		assert_int_equal(softrdma_incoming_count_of(&of), some);
		assert_ptr_equal(softrdma_incoming_oldest_of(&of), oldest(from, 0));
	}
	assert_int_equal(softrdma_incoming_count(), count);
	const unsigned rank = highest_rank();
	assert_ptr_equal(softrdma_incoming_first_to_go(), rank ? oldest(SOURCES, rank) : NULL);
}

static void
end_all(void)
{
	for (int i = 0; i < COUNT; i++)
		if (all[i].origin)
			softrdma_incoming_remove(&all[i]);
	assert_int_equal(softrdma_incoming_count(), 0);
	assert_null(softrdma_incoming_first_to_go());
}

/* connections come, send their message and end, in any order: a few sources have most of them */
static void
test_model(void **state)
{
	(void)state;
	srandom(1);
	for (int step = 0; step < STEPS; step++) {
		const int i = (int)(random() % COUNT);
		const unsigned a = (unsigned)random() % SOURCES, b = (unsigned)random() % SOURCES;
		if (all[i].origin == NULL)
			add(i, a * b / SOURCES);
		else if (all[i].silent && random() % 4 == 0)
			softrdma_incoming_heard(&all[i]);
		else
			softrdma_incoming_remove(&all[i]);
		if (step % 20 == 0)
			check();
	}
	end_all();
}

/* the only connection of one source stays, however many come from others, until each of them has only one, too */
static void
test_the_only_one_stays(void **state)
{
	(void)state;
	add(0, 7);
	for (int i = 1; i < COUNT; i++)
		add(i, (unsigned)i % 4);
	for (int i = 1; i < COUNT - 4; i++) {
		struct softrdma_incoming *one = softrdma_incoming_first_to_go();
		assert_ptr_not_equal(one, &all[0]);
		softrdma_incoming_remove(one);
	}
	assert_ptr_equal(softrdma_incoming_first_to_go(), &all[0]);
	end_all();
}

/* lets each source in turn have one more for as long as that may wait; returns how many of the first source do */
static unsigned
fill(unsigned count, unsigned most, unsigned most_of_source)
{
	unsigned of_first = 0;
	int at = 0;
	for (bool any = true; any;) {
		any = false;
		for (unsigned from = 0; from < count; from++) {
			add(at, from);
			if (!softrdma_incoming_may_wait(&all[at], most, most_of_source)) {
				softrdma_incoming_remove(&all[at]);
				continue;
			}
			softrdma_incoming_heard(&all[at++]);
			of_first += from == 0;
			any = true;
		}
	}
	add(at, SOURCES - 1);
	assert_int_equal(softrdma_incoming_may_wait(&all[at], most, most_of_source), at < (int)most);
	end_all();
	return of_first;
}

/* a source that is alone has its limit; many sources leave room for one more, whatever they ask for */
static void
test_shares(void **state)
{
	(void)state;
	assert_int_equal(fill(1, 200, 100), 100);
	assert_int_equal(fill(1, 200, 20), 20);
	assert_int_equal(fill(1, 200, 200), 200); /* as the user has set it: no room is left */
	assert_int_equal(fill(1, 200, 250), 200);
	assert_in_range(fill(2, 200, 100), 66, 68);
	assert_in_range(fill(30, 200, 100), 6, 7);
}

/* more sources than lists, so that some share one */
static void
test_many_sources(void **state)
{
	(void)state;
	const unsigned many = 3000;
	struct softrdma_incoming *ones = calloc(many, sizeof(*ones));
	assert_non_null(ones);
	for (unsigned i = 0; i < many; i++) {
		const struct softrdma_source of = source(i);
		assert_int_equal(softrdma_incoming_count_of(&of), 0);
		assert_true(softrdma_incoming_add(&ones[i], &of));
	}
	assert_int_equal(softrdma_incoming_count(), many);
	for (unsigned i = 0; i < many; i++) {
		const struct softrdma_source of = source(i);
		assert_int_equal(softrdma_incoming_count_of(&of), 1);
		softrdma_incoming_remove(&ones[i]);
		assert_int_equal(softrdma_incoming_count_of(&of), 0);
	}
	assert_int_equal(softrdma_incoming_count(), 0);
	free(ones);
}

static void
test_no_memory(void **state)
{
	(void)state;
	const struct softrdma_source of = source(1);
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_false(softrdma_incoming_add(&all[0], &of));
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(softrdma_incoming_count(), 0);
	add(0, 1); /* the second one of a source needs no memory */
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	add(1, 1);
	assert_int_equal(fail_nothing(), 0);
	end_all();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_the_only_one_stays),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_many_sources),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
