/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_beats.c -- which objects of an engine need a beat */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "softrdma/base/fork.h"
#include "softrdma/engine/one_engine.h"

#define OBJECTS 4
#define BEAT SOFTRDMA_BEAT_DEADLINES
#define OTHER_BEAT SOFTRDMA_BEAT_LEADS

static struct object {
	struct softrdma_watched watched;
	int refs;
} objects[OBJECTS];

static struct object *
object_of(struct softrdma_watched *watched)
{
	return (struct object *)watched;
}

static void
get(struct softrdma_watched *watched)
{
	object_of(watched)->refs++;
}

static void
put(struct softrdma_watched *watched)
{
	object_of(watched)->refs--;
}

/* the tests ask for the objects themselves */
static void
beat(struct softrdma_watched *watched, enum softrdma_beat which, uint64_t now_ns)
{
	(void)watched, (void)which, (void)now_ns;
	fail();
}

static int
setup(void **state)
{
	(void)state;
	memset(objects, 0, sizeof(objects));
	for (int i = 0; i < OBJECTS; i++)
		objects[i].watched = (struct softrdma_watched){ .beat = beat, .get = get, .put = put };
	return 0;
}

static void
needs(int i, enum softrdma_beat which, bool does)
{
	softrdma_engine_needs_beat(&objects[i].watched, which, does);
}

/* the list has no reference left, and nothing is counted */
static int
teardown(void **state)
{
	(void)state;
	for (int i = 0; i < OBJECTS; i++) {
		needs(i, BEAT, false);
		needs(i, OTHER_BEAT, false);
		assert_int_equal(objects[i].refs, 0);
	}
	assert_int_equal(softrdma_engine_first()->timed[BEAT], 0);
	assert_int_equal(softrdma_engine_first()->timed[OTHER_BEAT], 0);
	return 0;
}

/* the object with this index is called next; -1: no other is */
static void
expect_next_of(struct softrdma_engine *engine, uint64_t now_ns, int index)
{
	struct softrdma_watched *watched = softrdma_beats_next(engine, BEAT, now_ns);
	assert_ptr_equal(watched, index < 0 ? NULL : &objects[index].watched);
	if (watched)
		put(watched);
}

static void
expect_next(uint64_t now_ns, int index)
{
	expect_next_of(softrdma_engine_first(), now_ns, index);
}

static void
test_each_once(void **state)
{
	(void)state;
	expect_next(1, -1);
	for (int i = 0; i < OBJECTS; i++)
		needs(i, BEAT, true);
	needs(2, BEAT, true); /* it does already */
	assert_int_equal(softrdma_engine_first()->timed[BEAT], OBJECTS);
	assert_int_equal(objects[2].refs, 1);
	for (uint64_t now_ns = 2; now_ns < 5; now_ns++) {
		for (int i = 0; i < OBJECTS; i++)
			expect_next(now_ns, i);
		expect_next(now_ns, -1);
		expect_next(now_ns, -1);
	}
}

/* the first one, one in the middle, and the last one leave, before or after they are called */
static void
test_leave(void **state)
{
	(void)state;
	for (int gone = 0; gone < OBJECTS; gone++) {
		const uint64_t now_ns = 10 + 10 * (uint64_t)gone;
		for (int i = 0; i < OBJECTS; i++)
			needs(i, BEAT, true);
		expect_next(now_ns, 0);
		expect_next(now_ns, 1);
		needs(gone, BEAT, false);
		needs(gone, BEAT, false); /* it has left already */
		for (int i = 2; i < OBJECTS; i++) {
			if (i != gone)
				expect_next(now_ns, i);
		}
		expect_next(now_ns, -1);
		for (int i = 0; i < OBJECTS; i++) {
			if (i != gone)
				expect_next(now_ns + 1, i);
		}
		expect_next(now_ns + 1, -1);
		for (int i = 0; i < OBJECTS; i++)
			needs(i, BEAT, false);
		expect_next(now_ns + 2, -1);
	}
}

/* one that comes while others are called has its turn at the next beat: so a beat ends, however many come */
static void
test_come(void **state)
{
	(void)state;
	needs(0, BEAT, true);
	expect_next(100, 0);
	needs(1, BEAT, true);
	expect_next(100, -1);
	expect_next(101, 0);
	expect_next(101, 1);
	expect_next(101, -1);
}

/* an object that needs both beats no longer needs one of them */
static void
test_beats_are_apart(void **state)
{
	(void)state;
	needs(0, BEAT, true);
	needs(1, OTHER_BEAT, true);
	needs(0, OTHER_BEAT, true);
	assert_int_equal(objects[0].refs, 2);
	assert_int_equal(softrdma_engine_first()->timed[OTHER_BEAT], 2);
	needs(0, OTHER_BEAT, false);
	assert_int_equal(objects[0].refs, 1);
	expect_next(200, 0);
	expect_next(200, -1);
}

static void
test_move(void **state)
{
	(void)state;
	static struct softrdma_engine other = SOFTRDMA_NO_ENGINE;
	needs(0, BEAT, true);
	needs(1, BEAT, true);
	softrdma_beats_move(&objects[0].watched, softrdma_engine_first(), &other);
	softrdma_beats_move(&objects[2].watched, softrdma_engine_first(), &other); /* it needs none */
	softrdma_beats_move(&objects[1].watched, softrdma_engine_first(), softrdma_engine_first());
	assert_int_equal(other.timed[BEAT], 1);
	assert_int_equal(softrdma_engine_first()->timed[BEAT], 1);
	expect_next(300, 1);
	expect_next(300, -1);
	expect_next_of(&other, 300, 0);
	expect_next_of(&other, 300, -1);
	softrdma_beats_move(&objects[0].watched, &other, softrdma_engine_first());
	expect_next_of(&other, 301, -1);
	expect_next(301, 1);
	expect_next(301, 0);
	assert_int_equal(objects[0].refs, 1);
}

/* a child that goes on with an object of its parent's does not touch the parent's list by it */
static void
test_fork(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		needs(i, BEAT, true);
	softrdma_fork_forget();
	expect_next(400, -1);
	needs(3, BEAT, true);
	needs(0, BEAT, false);
	needs(2, BEAT, false);
	expect_next(401, 3);
	expect_next(401, -1);
	needs(1, BEAT, true); /* it is listed anew */
	expect_next(402, 3);
	expect_next(402, 1);
	for (int i = 0; i < 3; i++)
		objects[i].refs--; /* the parent's list had them */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_leave, setup, teardown),
		cmocka_unit_test_setup_teardown(test_come, setup, teardown),
		cmocka_unit_test_setup_teardown(test_beats_are_apart, setup, teardown),
		cmocka_unit_test_setup_teardown(test_move, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fork, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
