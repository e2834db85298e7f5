/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_timeout.c -- waiting for a descriptor, with a time limit */

#include <limits.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <unistd.h>

#include "mock.h"
#include "timeout.h"

#define MS ((uint64_t)1000000)

static void
what_is_a_timeout(void **state)
{
	(void)state;
	static const int good[] = { -1, 0, 1, INT_MAX }, bad[] = { -2, -1000, INT_MIN };
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_ok(rpmai_timeout_check(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_fails(RPMA_E_INVAL, rpmai_timeout_check(bad[i]));
}

static void
deadlines(void **state)
{
	(void)state;
	assert_true(rpmai_timeout_deadline(-1) == DEADLINE_NEVER);
	static const int timeouts[] = { 0, 1, 1000, INT_MAX };
	for (size_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
		const uint64_t before = rpmai_timeout_now();
		const uint64_t deadline = rpmai_timeout_deadline(timeouts[i]);
		const uint64_t after = rpmai_timeout_now();
		assert_true(deadline >= before + (uint64_t)timeouts[i] * MS);
		assert_true(deadline <= after + (uint64_t)timeouts[i] * MS);
	}
}

static void
what_is_left(void **state)
{
	(void)state;
	assert_int_equal(rpmai_timeout_left(DEADLINE_NEVER), -1);
	assert_int_equal(rpmai_timeout_left(0), 0);
	assert_int_equal(rpmai_timeout_left(rpmai_timeout_now()), 0);
	assert_int_equal(rpmai_timeout_left(DEADLINE_NEVER - 1), INT_MAX);

	/* rounded up: a thread that is woken too early would have to wait a second time */
	const uint64_t start = rpmai_timeout_now();
	const int left = rpmai_timeout_left(start + 3600000 * MS + 1);
	const uint64_t passed = (rpmai_timeout_now() - start) / MS;
	assert_true(left <= 3600001 && (uint64_t)left + passed >= 3600000);
	const int asked = rpmai_timeout_left(rpmai_timeout_deadline(INT_MAX));
	assert_in_range(asked, INT_MAX - 100000, INT_MAX);
}

static void
readable(void **state)
{
	(void)state;
	int fd = eventfd(0, EFD_CLOEXEC);
	assert_false(rpmai_timeout_readable(fd, 0));
	assert_false(rpmai_timeout_readable(fd, rpmai_timeout_deadline(1)));
	assert_int_equal(eventfd_write(fd, 1), 0);
	assert_true(rpmai_timeout_readable(fd, 0));
	assert_true(rpmai_timeout_readable(fd, rpmai_timeout_deadline(0)));
	assert_true(rpmai_timeout_readable(fd, DEADLINE_NEVER));
	close(fd);
}

static volatile sig_atomic_t signals;

static void
count_signal(int number)
{
	(void)number;
	signals = signals + 1;
}

/* so that a loop can check its stop flag */
static void
a_signal_ends_a_wait(void **state)
{
	(void)state;
	/* repeatedly, because the first signal may come before the wait begins */
	const struct itimerval often = { { 0, 5000 }, { 0, 5000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = count_signal, .sa_flags = SA_RESTART }, before;
	int fd = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	assert_false(rpmai_timeout_readable(fd, DEADLINE_NEVER));
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	assert_true(signals > 0);
	assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
	close(fd);
}

static bool for_ever;

static void *
wait_for_turn(void *arg)
{
	struct turn *turn = arg;
	if (!rpmai_turn_take(turn, for_ever ? DEADLINE_NEVER : rpmai_timeout_deadline(60000)))
		return turn;
	rpmai_turn_give(turn);
	return NULL;
}

static void
turns(void **state)
{
	(void)state;
	struct turn turn;
	pthread_t thread;
	void *failed;
	rpmai_turn_init(&turn);
	assert_true(rpmai_turn_take(&turn, DEADLINE_NEVER));
	assert_false(rpmai_turn_take(&turn, 1));
	assert_false(rpmai_turn_take(&turn, rpmai_timeout_deadline(0)));
	assert_false(rpmai_turn_take(&turn, rpmai_timeout_deadline(2)));
	for (int i = 0; i < 2; i++) {
		for_ever = i;
		assert_int_equal(pthread_create(&thread, NULL, wait_for_turn, &turn), 0);
		/* until the thread waits: the C library counts waiting threads above three bits of its own */
		while (__atomic_load_n(&turn.free.__data.__wrefs, __ATOMIC_ACQUIRE) >> 3 == 0)
			sched_yield();
		rpmai_turn_give(&turn);
		assert_int_equal(pthread_join(thread, &failed), 0);
		assert_null(failed);
		assert_true(rpmai_turn_take(&turn, 1));
	}
	rpmai_turn_give(&turn);
	assert_true(rpmai_turn_take(&turn, 1)); /* free: no thread has it */
	rpmai_turn_give(&turn);
	rpmai_turn_fini(&turn);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(what_is_a_timeout),
		rpma_test(deadlines),
		rpma_test(what_is_left),
		rpma_test(readable),
		rpma_test(a_signal_ends_a_wait),
		rpma_test(turns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
