/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_pace.c -- whether a thread computes for long between two events */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <time.h>

#include "softrdma/base/env.h"
#include "softrdma/engine/pace.h"

#define US 1000u

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

static uint64_t cpu_ns;
static unsigned questions;

int
__wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	assert_int_equal(clock, CLOCK_THREAD_CPUTIME_ID);
	ts->tv_sec = (time_t)(cpu_ns / 1000000000u);
	ts->tv_nsec = (long)(cpu_ns % 1000000000u);
	questions++;
	return 0;
}

/* takes events for some 12 ms, and uses processor time for each; true if it computes at the end */
static bool
take_events(struct softrdma_pace *pace, uint64_t *now_ns, uint64_t each_ns, uint64_t cpu_each_ns)
{
	bool computes = false;
	for (uint64_t ns = 0; ns < 13 * SOFTRDMA_NS_PER_MS; ns += each_ns) {
		*now_ns += each_ns;
		cpu_ns += cpu_each_ns;
		computes = softrdma_pace_computes(pace, *now_ns);
	}
	return computes;
}

static void
test_computing(void **state)
{
	(void)state;
	struct softrdma_pace pace = { 0 };
	uint64_t now_ns = 1000 * SOFTRDMA_NS_PER_MS;
	cpu_ns = 5000 * SOFTRDMA_NS_PER_MS; /* what it has used before its first event says nothing */
	assert_false(softrdma_pace_computes(&pace, now_ns));
	assert_false(take_events(&pace, &now_ns, 20 * US, 15 * US));
	assert_true(take_events(&pace, &now_ns, 100 * US, 80 * US));
	assert_false(take_events(&pace, &now_ns, 100 * US, 40 * US)); /* it sleeps */
	assert_true(take_events(&pace, &now_ns, 20 * SOFTRDMA_NS_PER_MS, 10 * SOFTRDMA_NS_PER_MS));
	assert_false(take_events(&pace, &now_ns, 20 * SOFTRDMA_NS_PER_MS, 10 * US));
}

/* to ask for processor time is a system call */
static void
test_seldom_asked(void **state)
{
	(void)state;
	struct softrdma_pace pace = { 0 };
	uint64_t now_ns = 1000 * SOFTRDMA_NS_PER_MS;
	questions = 0;
	for (int i = 0; i < 10; i++)
		take_events(&pace, &now_ns, 10 * US, US);
	assert_in_range(questions, 10, 30);
}

static void *
pace_of_thread(void *arg)
{
	*(struct softrdma_pace **)arg = softrdma_pace_mine();
	return NULL;
}

static void
test_one_for_each_thread(void **state)
{
	(void)state;
	struct softrdma_pace *other = NULL;
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, pace_of_thread, &other), 0);
	pthread_join(thread, NULL);
	assert_non_null(other);
	assert_ptr_not_equal(other, softrdma_pace_mine());
	assert_ptr_equal(softrdma_pace_mine(), softrdma_pace_mine());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_computing),
		cmocka_unit_test(test_seldom_asked),
		cmocka_unit_test(test_one_for_each_thread),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
