/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_env.c -- clock, random numbers and log: the device's own, and those that an embedder supplies
 */

#include "connected.h"

#include "softrdma/base/env.h"

/* these tests come first, because what an embedder has supplied cannot be removed */

static void
test_own_clock(void **state)
{
	(void)state;
	uint64_t before = softrdma_now_ns();
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	uint64_t now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	assert_true(before <= now);
	assert_true(softrdma_now_ns() >= now);
}

static void
test_own_random(void **state)
{
	(void)state;
	uint64_t a[4] = { 0 }, b[4] = { 0 };
	assert_int_equal(softrdma_random(a, sizeof(a)), 0);
	assert_int_equal(softrdma_random(b, sizeof(b)), 0);
	assert_memory_not_equal(a, b, sizeof(a));
	fail_call(FAIL_MINE, "getrandom", 0, 1, EINTR);
	assert_int_equal(softrdma_random(a, sizeof(a)), 0);
	fail_call(FAIL_MINE, "getrandom", 0, 1, ENOSYS);
	assert_int_equal(softrdma_random(a, sizeof(a)), ENOSYS);
	fail_nothing();
}

/* without an embedder, warnings and errors go to standard error; less severe lines are dropped */
static void
test_own_log(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	int saved = dup(STDERR_FILENO);
	dup2(ends[1], STDERR_FILENO);
	SOFTRDMA_LOG(NOTICE, "not %s", "this");
	SOFTRDMA_LOG(WARNING, "but %s", "that");
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(ends[1]);
	char text[256] = "";
	assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
	assert_string_equal(text, "softrdma: but that\n");
	close(ends[0]);
	assert_string_equal(softrdma_refused_hint(), "");
	assert_int_equal(softrdma_refused_patience_ms(), 0);
}

static void
test_embedder(void **state)
{
	static const struct softrdma_env nothing, log_only = { .log = keep_log };
	softrdma_set_env(&nothing);
	assert_true(softrdma_now_ns() > 0);
	assert_int_equal(setup_device(state), 0);
	assert_string_equal(softrdma_refused_hint(), "look at the hint");
	softrdma_set_env(&log_only); /* the other functions stay */
	uint64_t before = softrdma_now_ns();
	clock_forward_ms(1000000);
	assert_true(softrdma_now_ns() - before >= 1000000000000u);
	random_error = EIO;
	assert_int_equal(softrdma_random(&before, sizeof(before)), EIO);
}

static void
test_log_line(void **state)
{
	(void)state;
	errno = ESTALE;
	softrdma_log_line(SOFTRDMA_LOG_INFO, "a/b/c.c", 1, "f", "%d", 42);
	assert_int_equal(errno, ESTALE); /* logging must keep errno, which the caller reports next */
	assert_true(log_has("42\n"));
	softrdma_log_line(SOFTRDMA_LOG_INFO, "c.c", 1, "f", "%0600d", 1);
	assert_int_equal(strlen(log_text), 3 + 511 + 1); /* truncated */
}

/* lines that remote peers can cause do not fill the log; those left out are counted */
static void
test_few_log_lines(void **state)
{
	(void)state;
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT, other = SOFTRDMA_LOG_LIMIT;
	char line[32];
	errno = ESTALE;
	for (int i = 0; i < SOFTRDMA_LOG_LINES + 5; i++) {
		SOFTRDMA_LOG_FEW(&limit, WARNING, "line %d.", i);
		snprintf(line, sizeof(line), "line %d.\n", i);
		assert_int_equal(log_has(line), i < SOFTRDMA_LOG_LINES);
	}
	assert_int_equal(errno, ESTALE);
	assert_int_equal(log_worst, SOFTRDMA_LOG_WARNING);
	SOFTRDMA_LOG_FEW(&other, WARNING, "another kind");
	assert_true(log_has("another kind\n"));
	clock_forward_ms(SOFTRDMA_LOG_INTERVAL_MS);
	SOFTRDMA_LOG_FEW(&limit, WARNING, "later");
	assert_true(log_has("later (and 5 more like it)\n"));
	SOFTRDMA_LOG_FEW(&limit, WARNING, "and again");
	assert_true(log_has("and again\n"));

	/* a kind of which one line is enough */
	static struct softrdma_log_limit once = SOFTRDMA_LOG_ONCE;
	for (int interval = 0; interval < 2; interval++) {
		SOFTRDMA_LOG_FEW(&once, WARNING, "first of %d", interval);
		SOFTRDMA_LOG_FEW(&once, WARNING, "second of %d", interval);
		assert_true(log_has(interval ? "first of 1 (and 1 more like it)\n" : "first of 0\n"));
		assert_false(log_has("second"));
		clock_forward_ms(SOFTRDMA_LOG_INTERVAL_MS);
	}

	/* a truncated line has no room for the count */
	for (int i = 0; i < SOFTRDMA_LOG_LINES; i++)
		SOFTRDMA_LOG_FEW(&limit, WARNING, "more");
	clock_forward_ms(SOFTRDMA_LOG_INTERVAL_MS);
	log_clear();
	SOFTRDMA_LOG_FEW(&limit, WARNING, "%0600d", 1);
	assert_int_equal(strlen(log_text), 511 + 1);
}

#ifdef WRAPS_ATFORK
static bool no_memory_for_forks;

int __real_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

int
__wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	return no_memory_for_forks ? ENOMEM : __real_pthread_atfork(prepare, parent, child);
}

/*
 * The first use of the device has no memory for the fork handlers. The device works, and logs that the process
 * must not fork: a child would go on with its parent's device.
 */
static void
test_no_memory_for_forks(void **state)
{
	(void)state;
	softrdma_set_env(&(struct softrdma_env){ .log = keep_log });
	log_clear();
	no_memory_for_forks = true;
	assert_non_null(softrdma_context());
	no_memory_for_forks = false;
	assert_true(log_has("this process must not fork"));
}
#else
static void
test_no_memory_for_forks(void **state)
{
	(void)state;
	skip();
}
#endif

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_clock),
		cmocka_unit_test(test_own_random),
		cmocka_unit_test(test_own_log),
		cmocka_unit_test(test_no_memory_for_forks),
		device_test(test_embedder),
		device_test(test_log_line),
		device_test(test_few_log_lines),
	};
	return cmocka_run_group_tests(tests, NULL, teardown_device);
}
