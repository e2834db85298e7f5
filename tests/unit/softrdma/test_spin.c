/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_spin.c -- when a thread looks for input instead of sleeping, and when it gives its processor to others */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "softrdma/base/env.h"
#include "softrdma/base/spin.h"

#define US ((uint64_t)1000)
#define MS ((uint64_t)1000000)
#define SPIN (50 * US)
#define LOOKS 8 /* between two offers */

/* the clock is the test's, and an offer of the processor takes as long as the test says */
static uint64_t now_ns = 1000 * MS;
static unsigned offers;
static uint64_t offer_takes_ns;

uint64_t __wrap_softrdma_now_ns(void);
int __wrap_sched_yield(void);

uint64_t
__wrap_softrdma_now_ns(void)
{
	return now_ns;
}

int
__wrap_sched_yield(void)
{
	offers++;
	now_ns += offer_takes_ns;
	return 0;
}

/* input that comes after this time */
static void
input_after(struct softrdma_spin *spin, uint64_t ns)
{
	now_ns += ns;
	softrdma_spin_input(spin, SPIN);
}

/* a look without input that takes this long */
static bool
goes_on_after(struct softrdma_spin *spin, uint64_t ns)
{
	now_ns += ns;
	return softrdma_spin_goes_on(spin);
}

/* a thread that spins */
static struct softrdma_spin
spinning(void)
{
	struct softrdma_spin spin = { 0 };
	input_after(&spin, 10 * MS);
	input_after(&spin, 10 * US);
	assert_true(softrdma_spin_is_on(&spin));
	return spin;
}

/* --- when it pays --- */

static void
test_spins_after_two_inputs(void **state)
{
	(void)state;
	struct softrdma_spin spin = { 0 };
	assert_false(softrdma_spin_is_on(&spin));
	assert_false(goes_on_after(&spin, 0));
	input_after(&spin, 0);
	assert_false(softrdma_spin_is_on(&spin)); /* the first one says nothing */
	input_after(&spin, 4 * SPIN);
	assert_true(softrdma_spin_is_on(&spin));
	input_after(&spin, 4 * SPIN + 1); /* paced, or a pause */
	assert_false(softrdma_spin_is_on(&spin));
	input_after(&spin, 0);
	assert_true(softrdma_spin_is_on(&spin));
	softrdma_spin_end(&spin);
	assert_false(softrdma_spin_is_on(&spin));
}

static void
test_spins_for_a_limited_time(void **state)
{
	(void)state;
	struct softrdma_spin spin = spinning();
	assert_true(goes_on_after(&spin, SPIN - 1));
	assert_false(goes_on_after(&spin, 1));
	assert_false(softrdma_spin_is_on(&spin));

	/* each input begins it anew */
	spin = spinning();
	assert_true(goes_on_after(&spin, SPIN - 1));
	input_after(&spin, 0);
	assert_true(goes_on_after(&spin, SPIN - 1));
	assert_false(goes_on_after(&spin, 1));
}

/* the time in which the program computes between two waits does not count */
static void
test_begins_with_a_wait(void **state)
{
	(void)state;
	struct softrdma_spin spin = spinning();
	now_ns += 2 * SPIN;
	softrdma_spin_begin(&spin, SPIN);
	assert_true(goes_on_after(&spin, SPIN - 1));
	assert_false(goes_on_after(&spin, 1));

	/* but after a longer time the experience is too old */
	spin = spinning();
	now_ns += 4 * SPIN + 1;
	softrdma_spin_begin(&spin, SPIN);
	assert_false(softrdma_spin_is_on(&spin));
	/* and before the first input there cannot be any */
	struct softrdma_spin other = { 0 };
	softrdma_spin_begin(&other, SPIN);
	assert_false(softrdma_spin_is_on(&other));
}

/* the number of occasions that pass until the thread spins again */
static unsigned
skips(struct softrdma_spin *spin)
{
	unsigned skipped = 0;
	for (input_after(spin, 10 * US); !softrdma_spin_is_on(spin); input_after(spin, 10 * US))
		skipped++;
	return skipped;
}

/* Inputs that come in pairs, as a message and the acknowledgement of the reply, look dense. It does not pay to spin. */
static void
test_spins_seldom_if_in_vain(void **state)
{
	(void)state;
	struct softrdma_spin spin = spinning();
	for (unsigned skipped = 1; skipped <= 63; skipped = 2 * skipped + 1) {
		assert_false(goes_on_after(&spin, SPIN));
		assert_int_equal(skips(&spin), skipped);
	}
	assert_false(goes_on_after(&spin, SPIN));
	assert_int_equal(skips(&spin), 63); /* at most */

	/* input while it spins ends that */
	input_after(&spin, 10 * US);
	assert_true(softrdma_spin_is_on(&spin));
	assert_false(goes_on_after(&spin, SPIN));
	assert_int_equal(skips(&spin), 1);
}

static void
test_spinning_can_be_switched_off(void **state)
{
	(void)state;
	struct softrdma_spin spin = { 0 };
	for (int i = 0; i < 3; i++) {
		softrdma_spin_input(&spin, 0);
		assert_false(softrdma_spin_is_on(&spin));
		softrdma_spin_begin(&spin, 0);
		assert_false(softrdma_spin_is_on(&spin));
	}
}

/* makes the thread rest: another one has computed during a look */
static void
lose_the_processor(struct softrdma_spin *spin)
{
	spin->until_ns = now_ns + 10 * MS;
	assert_true(goes_on_after(spin, 0));
	assert_false(goes_on_after(spin, MS));
}

static bool
spins(struct softrdma_spin *spin)
{
	input_after(spin, 0);
	input_after(spin, 0);
	return softrdma_spin_is_on(spin);
}

/* a thread that computes has had the processor: this one sleeps instead, for longer each time */
static void
test_rests_after_another_thread(void **state)
{
	(void)state;
	struct softrdma_spin spin = spinning();
	spin.until_ns = now_ns + 10 * MS;
	assert_true(goes_on_after(&spin, 0));
	assert_true(goes_on_after(&spin, MS - 1)); /* short of a time slice */
	for (uint64_t rest = 50 * MS; rest <= 1600 * MS; rest *= 2) {
		lose_the_processor(&spin);
		now_ns += (rest < 1000 * MS ? rest : 1000 * MS) - 1;
		assert_false(spins(&spin));
		softrdma_spin_begin(&spin, SPIN);
		assert_false(softrdma_spin_is_on(&spin));
		now_ns++;
		assert_true(spins(&spin));
	}

	/* if that has not happened for a second, the next rest is a short one */
	now_ns += 1000 * MS;
	assert_true(spins(&spin));
	lose_the_processor(&spin);
	now_ns += 50 * MS;
	assert_true(spins(&spin));
}

/* who asks for spins that are longer than a time slice has a processor for them */
static void
test_long_spins_are_wanted(void **state)
{
	(void)state;
	struct softrdma_spin spin = { 0 };
	softrdma_spin_input(&spin, 1000 * MS);
	softrdma_spin_input(&spin, 1000 * MS);
	assert_true(goes_on_after(&spin, 0));
	assert_true(goes_on_after(&spin, 999 * MS));
}

/* what the thread itself does between two looks may take long */
static void
test_own_work_is_no_reason_to_rest(void **state)
{
	(void)state;
	struct softrdma_spin spin = spinning();
	spin.until_ns = now_ns + 10 * MS;
	assert_true(goes_on_after(&spin, 0));
	softrdma_spin_is_busy(&spin);
	assert_true(goes_on_after(&spin, 2 * MS));
	/* the same before the first look after an input */
	input_after(&spin, 0);
	spin.until_ns = now_ns + 10 * MS;
	assert_true(goes_on_after(&spin, 2 * MS));
}

/* --- giving way --- */

/* the number of offers in this many looks in vain */
static unsigned
offers_in(struct softrdma_spin *spin, unsigned looks)
{
	offers = 0;
	while (looks-- > 0)
		assert_true(softrdma_spin_give_way(spin));
	return offers;
}

/* a thread that has just made an offer, and looks without doing anything else */
static struct softrdma_spin
looking(void)
{
	struct softrdma_spin spin = { .offered_ns = now_ns };
	offer_takes_ns = 300;
	return spin;
}

static void
test_offers_after_a_number_of_looks(void **state)
{
	(void)state;
	struct softrdma_spin spin = looking();
	assert_int_equal(offers_in(&spin, LOOKS - 1), 0);
	assert_int_equal(offers_in(&spin, 1), 1);
	assert_int_equal(offers_in(&spin, 100 * LOOKS), 100);
}

/* a thread that does other work between its looks keeps its processor for that */
static void
test_offers_nothing_if_it_does_not_spin(void **state)
{
	(void)state;
	struct softrdma_spin spin = looking();
	for (int i = 0; i < 10; i++) {
		assert_int_equal(offers_in(&spin, LOOKS - 1), 0);
		now_ns += 100 * US;
		assert_int_equal(offers_in(&spin, 1), 0);
	}
	assert_int_equal(offers_in(&spin, LOOKS), 1);
}

static void
test_offers_at_once_to_a_thread_it_has_woken(void **state)
{
	(void)state;
	struct softrdma_spin spin = looking();
	offers = 0;
	softrdma_spin_let_run(&spin);
	assert_int_equal(offers, 0);
	softrdma_spin_has_woken(&spin);
	softrdma_spin_let_run(&spin);
	assert_int_equal(offers, 1);
	softrdma_spin_let_run(&spin);
	assert_int_equal(offers, 1);
}

static void
test_offers_often_while_they_are_taken(void **state)
{
	(void)state;
	struct softrdma_spin spin = looking();
	offer_takes_ns = 5 * US;
	offers_in(&spin, LOOKS);
	assert_int_equal(offers_in(&spin, 10), 10);
	offer_takes_ns = 300;
	assert_int_equal(offers_in(&spin, 1), 1);
	assert_int_equal(offers_in(&spin, LOOKS - 1), 0);
}

/* a thread that computes takes an offer: a poller is told to sleep, and the thread neither spins nor offers for a while */
static void
test_rests_after_an_offer_that_was_taken_for_long(void **state)
{
	(void)state;
	struct softrdma_spin spin = looking();
	spin.is_dense = true;
	offer_takes_ns = MS;
	assert_int_equal(offers_in(&spin, LOOKS), 1);
	offers = 0;
	for (int i = 0; i < 10; i++) {
		for (int look = 1; look < LOOKS; look++)
			assert_true(softrdma_spin_give_way(&spin));
		assert_false(softrdma_spin_give_way(&spin));
	}
	softrdma_spin_has_woken(&spin);
	softrdma_spin_let_run(&spin);
	assert_int_equal(offers, 0);
	assert_false(spins(&spin));

	now_ns += 50 * MS;
	offer_takes_ns = 300;
	assert_true(spins(&spin));
	spin.offered_ns = now_ns;
	assert_int_equal(offers_in(&spin, LOOKS), 1);
}

/* each thread has its own experience, which begins empty */
static void *
look_at_mine(void *arg)
{
	static const struct softrdma_spin none;
	assert_memory_equal(softrdma_spin_mine(), &none, sizeof(none));
	*(struct softrdma_spin **)arg = softrdma_spin_mine();
	return NULL;
}

static void
test_each_thread_has_its_own(void **state)
{
	(void)state;
	pthread_t thread;
	struct softrdma_spin *others = NULL;
	softrdma_spin_has_woken(softrdma_spin_mine());
	assert_int_equal(pthread_create(&thread, NULL, look_at_mine, &others), 0);
	pthread_join(thread, NULL);
	assert_non_null(others);
	assert_ptr_equal(softrdma_spin_mine(), softrdma_spin_mine());
	softrdma_spin_let_run(softrdma_spin_mine());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spins_after_two_inputs),
		cmocka_unit_test(test_spins_for_a_limited_time),
		cmocka_unit_test(test_begins_with_a_wait),
		cmocka_unit_test(test_spins_seldom_if_in_vain),
		cmocka_unit_test(test_spinning_can_be_switched_off),
		cmocka_unit_test(test_rests_after_another_thread),
		cmocka_unit_test(test_long_spins_are_wanted),
		cmocka_unit_test(test_own_work_is_no_reason_to_rest),
		cmocka_unit_test(test_offers_after_a_number_of_looks),
		cmocka_unit_test(test_offers_nothing_if_it_does_not_spin),
		cmocka_unit_test(test_offers_at_once_to_a_thread_it_has_woken),
		cmocka_unit_test(test_offers_often_while_they_are_taken),
		cmocka_unit_test(test_rests_after_an_offer_that_was_taken_for_long),
		cmocka_unit_test(test_each_thread_has_its_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
