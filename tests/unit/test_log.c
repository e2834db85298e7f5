/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_log.c -- thresholds, the environment, the default function and the user's; RPMA_LOG_LEVEL is
 * "nonsense" here
 */

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"
#include "mock.h"

/*
 * First of all, without mock_setup: the thresholds of the environment. The test runs several times, with
 * different ones.
 */
static void
the_environment_sets_the_thresholds(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int level;
		bool wrong;
	} table[] = {
		{ NULL, RPMA_LOG_LEVEL_WARNING, false },
		{ "", RPMA_LOG_LEVEL_WARNING, false },
		{ "nonsense", RPMA_LOG_LEVEL_WARNING, true },
		{ "6", RPMA_LOG_LEVEL_WARNING, true },
		{ "debug", RPMA_LOG_LEVEL_DEBUG, false },
		{ "INFO", RPMA_LOG_LEVEL_INFO, false },
		{ "0", RPMA_LOG_LEVEL_FATAL, false },
		{ "disabled", RPMA_LOG_DISABLED, false },
		{ "-1", RPMA_LOG_DISABLED, false },
	};
	const char *text = getenv("RPMA_LOG_LEVEL");
	size_t i = 0;
	while (text && i < sizeof(table) / sizeof(table[0]) &&
		(table[i].text == NULL || strcmp(text, table[i].text)))
		i++;
	assert_in_range(i, 0, sizeof(table) / sizeof(table[0]) - 1);

	enum rpma_log_level level;
	assert_ok(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &level));
	assert_int_equal(level, table[i].level);
	assert_ok(rpma_log_get_threshold(RPMA_LOG_THRESHOLD_AUX, &level));
	assert_int_equal(level, table[i].level);

	mock_setup(NULL);
	RPMAI_LOG(ERROR, "first");
	RPMAI_LOG(ERROR, "second");
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_WARNING], table[i].wrong);
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], 2);
}

static void
arguments(void **state)
{
	(void)state;
	enum rpma_log_level level = RPMA_LOG_LEVEL_FATAL;
	static const struct {
		int threshold;
		int level;
		int ret;
	} table[] = {
		{ RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED, 0 },
		{ RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_DEBUG, 0 },
		{ RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_INFO, 0 },
		{ RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED - 1, RPMA_E_INVAL },
		{ RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_DEBUG + 1, RPMA_E_INVAL },
		{ RPMA_LOG_THRESHOLD_MAX, RPMA_LOG_LEVEL_INFO, RPMA_E_INVAL },
		{ -1, RPMA_LOG_LEVEL_INFO, RPMA_E_INVAL },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const enum rpma_log_threshold threshold = (enum rpma_log_threshold)table[i].threshold;
		assert_int_equal(rpma_log_set_threshold(threshold, (enum rpma_log_level)table[i].level),
			table[i].ret);
		if (table[i].ret == 0) {
			assert_ok(rpma_log_get_threshold(threshold, &level));
			assert_int_equal(level, table[i].level);
		}
	}
	assert_int_equal(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, NULL), RPMA_E_INVAL);
	assert_string_equal(rpma_errormsg(), "an argument is NULL that must not be");
	assert_int_equal(rpma_log_get_threshold(RPMA_LOG_THRESHOLD_MAX, &level), RPMA_E_INVAL);
	assert_non_null(strstr(rpma_errormsg(), "give RPMA_LOG_THRESHOLD or RPMA_LOG_THRESHOLD_AUX"));
	assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, (enum rpma_log_level)99), RPMA_E_INVAL);
	assert_non_null(strstr(rpma_errormsg(), "log level 99: give "));
}

static void
the_threshold_holds_back(void **state)
{
	(void)state;
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_NOTICE);
	RPMAI_LOG(INFO, "no");
	RPMAI_LOG(NOTICE, "yes");
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
	RPMAI_LOG(FATAL, "no");
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_INFO], 0);
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_NOTICE], 1);
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_FATAL], 0);
}

static void
errno_survives(void **state)
{
	(void)state;
	errno = EXDEV;
	RPMAI_LOG(ERROR, "%m");
	assert_int_equal(errno, EXDEV);
	assert_string_equal(mock.last_log, "Invalid cross-device link\n");
}

/* captures the default function's output to stderr, through a pipe */
static size_t
default_output(enum rpma_log_level aux, char *buf, size_t size)
{
	int fds[2];
	assert_int_equal(pipe(fds), 0);
	fflush(stderr);
	int saved = dup(STDERR_FILENO);
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);

	rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION);
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, aux);
	rpmai_log(RPMA_LOG_LEVEL_WARNING, "/some/where/file.c", 7, "func", "what %d", 5);

	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	ssize_t n = read(fds[0], buf, size - 1);
	close(fds[0]);
	buf[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

static void
the_default_function_writes_one_line(void **state)
{
	(void)state;
	char buf[512];
	assert_true(default_output(RPMA_LOG_LEVEL_WARNING, buf, sizeof(buf)) > 0);
	char expected[128];
	snprintf(expected, sizeof(expected), "[%d] *WARN*  file.c:   7: func: what 5\n", (int)getpid());
	assert_non_null(strstr(buf, expected));
	assert_ptr_equal(strchr(buf, '\n'), buf + strlen(buf) - 1);

	assert_int_equal(default_output(RPMA_LOG_LEVEL_ERROR, buf, sizeof(buf)), 0);

	mock.fail_call = "localtime_r";
	mock.fail_skip = 0;
	assert_true(default_output(RPMA_LOG_LEVEL_WARNING, buf, sizeof(buf)) > 0);
	assert_int_equal(strncmp(buf, "[time error] [", 14), 0);
}

/* a program's own lines have no file, or a file name without a folder */
static void
a_place_is_not_needed(void **state)
{
	(void)state;
	rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION);
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED);
	rpmai_log(RPMA_LOG_LEVEL_WARNING, NULL, 0, NULL, "to syslog");
	rpmai_log(RPMA_LOG_LEVEL_WARNING, "file.c", 1, "func", "to syslog");
}

static void *
chatter(void *arg)
{
	for (int i = 0; i < 1000; i++) {
		rpma_log_set_threshold(RPMA_LOG_THRESHOLD, i % 2 ? RPMA_LOG_LEVEL_DEBUG : RPMA_LOG_DISABLED);
		RPMAI_LOG(DEBUG, "%d", i);
	}
	return arg;
}

static void
ignore(enum rpma_log_level level, const char *file, const int line, const char *func, const char *fmt, ...)
{
	(void)level;
	(void)file;
	(void)line;
	(void)func;
	(void)fmt;
}

static void
threads_may_log_at_once(void **state)
{
	(void)state;
	pthread_t threads[4];
	rpma_log_set_function(ignore);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, chatter, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

/* reads all that is there */
static void
read_all(int fd, char *buf, size_t size)
{
	size_t len = 0;
	for (ssize_t n; (n = read(fd, buf + len, size - 1 - len)) > 0;)
		len += (size_t)n;
	buf[len] = '\0';
}

/* a reader of standard error that does not read holds up neither a thread that logs nor a fork; later it learns what is missing */
static void
a_reader_that_does_not_read(void **state)
{
	(void)state;
	static char bytes[1 << 17];
	int pipe_fds[2], kept = dup(STDERR_FILENO);
	fflush(stderr);
	assert_int_equal(pipe2(pipe_fds, O_NONBLOCK), 0);
	while (write(pipe_fds[1], bytes, 4096) > 0)
		;
	assert_int_equal(fcntl(pipe_fds[1], F_SETFL, 0), 0);
	assert_int_equal(dup2(pipe_fds[1], STDERR_FILENO), STDERR_FILENO);
	assert_ok(rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION));
	assert_ok(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_ERROR));
	RPMAI_LOG(ERROR, "for this there is no room");
	RPMAI_LOG(ERROR, "nor for this");
	read_all(pipe_fds[0], bytes, sizeof(bytes));
	RPMAI_LOG(ERROR, "for this there is");
	read_all(pipe_fds[0], bytes, sizeof(bytes));

	assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
	close(kept);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	assert_ok(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED));
	const char *missing = "(2 lines are missing here: standard error was not read)\n";
	assert_int_equal(strncmp(bytes, missing, strlen(missing)), 0);
	assert_non_null(strstr(bytes, "for this there is\n"));
	assert_null(strstr(bytes, "nor for this"));
}

static int64_t
monotonic_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *
write_a_line(void *arg)
{
	(void)arg;
	RPMAI_LOG(ERROR, "a line that is stuck");
	return NULL;
}

/* a log line that cannot be written (syslog is not read) delays a fork by a second, not for ever */
static void
a_fork_does_not_wait_for_a_stuck_line(void **state)
{
	(void)state;
	const char *level = getenv("RPMA_LOG_LEVEL");
	if (level == NULL || strcmp(level, "debug") != 0)
		return; /* it takes a second, so run it only once */
	int status = -1;
	pthread_t thread;
	assert_ok(rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION));
	assert_ok(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_ERROR));
	sem_t held, go_on;
	sem_init(&held, 0, 0);
	sem_init(&go_on, 0, 0);
	mock.held = &held;
	mock.go_on = &go_on;
	assert_int_equal(pthread_create(&thread, NULL, write_a_line, NULL), 0);
	sem_wait(&held); /* it has the lock */

	const int64_t begin_ms = monotonic_ms();
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(monotonic_ms() - begin_ms >= 500); /* it has tried */

	sem_post(&go_on);
	pthread_join(thread, NULL);
	mock.held = NULL;
	assert_ok(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_environment_sets_the_thresholds),
		rpma_test(arguments),
		rpma_test(the_threshold_holds_back),
		rpma_test(errno_survives),
		rpma_test(the_default_function_writes_one_line),
		rpma_test(a_place_is_not_needed),
		rpma_test(threads_may_log_at_once),
		rpma_test(a_reader_that_does_not_read),
		rpma_test(a_fork_does_not_wait_for_a_stuck_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
