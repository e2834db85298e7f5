/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_timer.c -- timers: when they have expired, and that the first progress thread beats as long as one is set */

#include "connected.h"

#include "softrdma/engine/one_engine.h"
#include "softrdma/engine/timer.h"

/* how many things need the beat of deadlines */
static int
timed(void)
{
	return softrdma_engine_first()->timed[SOFTRDMA_BEAT_DEADLINES];
}

static void
test_expires(void **state)
{
	(void)state;
	static const unsigned times_ms[] = { 1, 5, UINT32_MAX };
	struct softrdma_timer timer = { 0 };
	assert_false(softrdma_timer_is_set(&timer));
	assert_false(softrdma_timer_has_expired(&timer, UINT64_MAX));
	clock_stop();
	for (size_t i = 0; i < sizeof(times_ms) / sizeof(times_ms[0]); i++) {
		const uint64_t when_ns = movable_now_ns() + (uint64_t)times_ms[i] * 1000000u;
		softrdma_timer_set_ms(&timer, times_ms[i]);
		assert_true(softrdma_timer_is_set(&timer));
		assert_false(softrdma_timer_has_expired(&timer, movable_now_ns()));
		assert_false(softrdma_timer_has_expired(&timer, when_ns - 1));
		assert_true(softrdma_timer_has_expired(&timer, when_ns));
		assert_true(softrdma_timer_has_expired(&timer, UINT64_MAX));
	}
	softrdma_timer_clear(&timer);
	clock_go_on();
	assert_false(softrdma_timer_is_set(&timer));
	assert_false(softrdma_timer_has_expired(&timer, UINT64_MAX));
}

/* a timer counts once, however often it is set or cleared, and two count twice */
static void
test_counts_once(void **state)
{
	(void)state;
	struct softrdma_timer one = { 0 }, other = { 0 };
	const int before = timed();
	softrdma_timer_clear(&one);
	assert_int_equal(timed(), before);
	softrdma_timer_set_ms(&one, 10);
	softrdma_timer_set_ms(&one, 20);
	assert_int_equal(timed(), before + 1);
	softrdma_timer_set_ms(&other, 30);
	assert_int_equal(timed(), before + 2);
	softrdma_timer_clear(&one);
	softrdma_timer_clear(&one);
	assert_int_equal(timed(), before + 1);
	softrdma_timer_set_ms(&other, 0);
	assert_false(softrdma_timer_is_set(&other));
	assert_int_equal(timed(), before);
}

static struct softrdma_timer the_timer;
static atomic_uint ticks, expired;

static void
tick(uint64_t now_ns)
{
	ticks++;
	if (softrdma_timer_has_expired(&the_timer, now_ns))
		expired++;
}

/* setting the first timer wakes the progress thread, which compares it at each beat */
static void
test_wakes_the_thread(void **state)
{
	(void)state;
	assert_int_equal(softrdma_threads_start(), 0);
	softrdma_engine_at_beat(SOFTRDMA_BEAT_DEADLINES, tick);
	await_sleep_of_other_threads();
	softrdma_timer_set_ms(&the_timer, 60000);
	wait_until(ticks >= 2);
	assert_int_equal(expired, 0);
	clock_forward_ms(60000);
	wait_until(expired > 0);
	softrdma_timer_clear(&the_timer);
	softrdma_threads_stop();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_expires),
		device_test(test_counts_once),
		one_thread_test(test_wakes_the_thread),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
