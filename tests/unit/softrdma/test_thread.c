/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_thread.c -- threads of the device leave signals to the application */

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing.h"
#include "softrdma/base/thread.h"

static void *
report_signals(void *arg)
{
	sigset_t *blocked = arg;
	pthread_sigmask(SIG_SETMASK, NULL, blocked);
	return NULL;
}

/* the device's threads block all signals, and the application's mask does not change */
static void
test_signals(void **state)
{
	(void)state;
	sigset_t before, after, blocked;
	pthread_t thread;
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(softrdma_thread_create(&thread, "name", report_signals, &blocked), 0);
	pthread_join(thread, NULL);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	static const int signals[] = { SIGTERM, SIGUSR1, SIGALRM, SIGPIPE, SIGCHLD };
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		assert_int_equal(sigismember(&blocked, signals[i]), 1);
		assert_int_equal(sigismember(&after, signals[i]), sigismember(&before, signals[i]));
	}
	fail_call(FAIL_MINE, "pthread_create", 0, 1, EAGAIN);
	assert_int_equal(softrdma_thread_create(&thread, "name", report_signals, &blocked), EAGAIN);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_signals) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
