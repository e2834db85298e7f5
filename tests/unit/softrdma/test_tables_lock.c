/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_tables_lock.c -- the lock of the small tables: it excludes, and a child has one that is free */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "count.h"
#include "deadline.h"
#include "end_child.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/tables_lock.h"

#define DEADLINE_S 30

static atomic_bool has_it;

static void *
take_and_give(void *arg)
{
	(void)arg;
	softrdma_tables_lock();
	has_it = true;
	softrdma_tables_unlock();
	return NULL;
}

/* while one thread has the lock another one waits for it, and gets it afterwards */
static void
test_excludes(void **state)
{
	(void)state;
	pthread_t thread;
	deadline_start("the lock of the tables", DEADLINE_S);
	softrdma_tables_lock();
	assert_int_equal(pthread_create(&thread, NULL, take_and_give, NULL), 0);
	await_sleep_of_other_threads();
	assert_false(has_it);
	softrdma_tables_unlock();
	pthread_join(thread, NULL);
	assert_true(has_it);
	deadline_stop();
}

/* a thread that the child does not have may have held the lock during the fork */
static void
test_free_in_a_child(void **state)
{
	(void)state;
	int status;
	softrdma_fork_prepare_for(); /* as the device does when it begins */
	softrdma_tables_lock();
	pid_t pid = fork();
	if (pid == 0) {
		alarm(DEADLINE_S);
		take_and_give(NULL);
		take_and_give(NULL);
		end_child(0);
	}
	assert_true(pid > 0);
	softrdma_tables_unlock();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_excludes),
		cmocka_unit_test(test_free_in_a_child),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
