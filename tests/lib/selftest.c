/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* selftest.c -- checks that the tests' own tools detect what they are meant to detect */

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "count.h"
#include "deadline.h"
#include "driver.h"
#include "fault.h"
#include "net.h"
#include "options.h"
#include "pattern.h"
#include "process.h"

#define LEN 300
#define WAIT_MS 10000

/* a part of a pattern is the same wherever the filling began */
static void
pattern_depends_on_position(void **state)
{
	uint8_t whole[LEN], piece[LEN];

	(void)state;
	pattern_fill(whole, LEN, 7, 0);
	for (size_t from = 0; from < 20; from++) {
		for (size_t len = 0; len < 40; len++) {
			pattern_fill(piece, len, 7, from);
			assert_memory_equal(piece, whole + from, len);
			assert_int_equal(pattern_check(whole + from, len, 7, from), -1);
		}
	}
	assert_true(pattern_check(whole, LEN, 8, 0) >= 0);
	assert_true(pattern_check(whole, LEN - 8, 7, 8) >= 0);
}

/* every changed byte is found, at its position */
static void
pattern_finds_each_byte(void **state)
{
	uint8_t buf[LEN];

	(void)state;
	pattern_fill(buf, LEN, 1, 3);
	for (int i = 0; i < LEN; i++) {
		buf[i] ^= 0x10;
		assert_int_equal(pattern_check(buf, LEN, 1, 3), i);
		buf[i] ^= 0x10;
	}
	memset(buf, 5, LEN);
	assert_int_equal(pattern_check_byte(buf, LEN, 5), -1);
	buf[LEN - 1] = 4;
	assert_int_equal(pattern_check_byte(buf, LEN, 5), LEN - 1);
}

static void
process_lines_and_status(void **state)
{
	char *argv[] = { "sh", "-c", "echo one; echo $WORD >&2; read x; printf \"got $x\"; exit 3", NULL };
	char *env[] = { "WORD=two", NULL };
	static struct proc p;
	char line[64];

	(void)state;
	assert_int_equal(proc_start(&p, argv, env), 0);
	assert_int_equal(proc_read_line(&p, line, sizeof(line), WAIT_MS), 3);
	assert_string_equal(line, "one");
	assert_int_equal(proc_wait_line(&p, "tw", line, sizeof(line), WAIT_MS), 0);
	assert_string_equal(line, "two");
	/* nothing more for now */
	assert_int_equal(proc_read_line(&p, line, sizeof(line), 0), -1);
	assert_int_equal(proc_wait(&p, 0), -1);
	assert_int_equal(proc_write(&p, "it\n", 3), 0);
	assert_int_equal(proc_read_line(&p, line, sizeof(line), WAIT_MS), 6);
	assert_string_equal(line, "got it");
	assert_int_equal(proc_read_line(&p, line, sizeof(line), WAIT_MS), -1);
	assert_int_equal(proc_wait(&p, WAIT_MS), 3);
	proc_kill(&p);
}

static void *
run_until_told(void *arg)
{
	atomic_bool *end = arg;
	while (!atomic_load(end))
		; /* it must run: no call that sleeps */
	return NULL;
}

static void *
wait_for_end(void *arg)
{
	sem_wait(arg);
	return NULL;
}

static void
other_threads_run_and_sleep(void **state)
{
	pthread_t runs, waits;
	atomic_bool end = false;
	sem_t never;

	(void)state;
	await_sleep_of_other_threads();
	sem_init(&never, 0, 0);
	assert_int_equal(pthread_create(&waits, NULL, wait_for_end, &never), 0);
	await_sleep_of_other_threads();
	assert_int_equal(pthread_create(&runs, NULL, run_until_told, &end), 0);
	assert_false(other_threads_sleep());
	atomic_store(&end, true);
	assert_int_equal(pthread_join(runs, NULL), 0);
	await_sleep_of_other_threads();
	sem_post(&never);
	assert_int_equal(pthread_join(waits, NULL), 0);
	sem_destroy(&never);
}

static void
process_is_killed(void **state)
{
	char *argv[] = { "sleep", "1000", NULL };
	int fds = count_fds();
	static struct proc p;

	(void)state;
	assert_int_equal(proc_start(&p, argv, NULL), 0);
	proc_kill(&p);
	proc_kill(&p);
	assert_int_equal(count_fds(), fds);
	argv[0] = "/nonexistent";
	assert_int_equal(proc_start(&p, argv, NULL), 0);
	assert_int_equal(proc_wait(&p, WAIT_MS), 127);
	proc_kill(&p);
}

static void
ports_differ(void **state)
{
	char v4[NET_PORT_LEN], v6[NET_PORT_LEN];

	(void)state;
	assert_int_equal(net_free_port("127.0.0.1", v4), 0);
	assert_true(atol(v4) > 0);
	if (!net_free_port("::1", v6))
		assert_true(atol(v6) > 0);
	assert_int_equal(net_free_port("no such address", v4), -1);
}

static void
deadline_names_the_test(void **state)
{
	static struct proc p;
	char *argv[] = { "/proc/self/exe", "--hang", NULL };
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	(void)state;
	if (in_emulator()) {
		puts("SKIPPED: the kernel executes no program for the emulated processor");
		skip();
	}
	assert_true(n > 0);
	self[n] = '\0';
	argv[0] = self;
	assert_int_equal(proc_start(&p, argv, NULL), 0);
	assert_int_equal(proc_wait_line(&p, "DEADLINE: the one that hangs", NULL, 0, WAIT_MS), 0);
	assert_int_equal(proc_wait(&p, WAIT_MS), DEADLINE_EXIT_CODE);
	proc_kill(&p);
}

/* a bit mask of the calls that fail, of ten calls */
static unsigned
failing_calls(enum fault_domain domain)
{
	static const int errnos[] = { EIO, 0 };
	unsigned mask = 0;

	for (unsigned n = 1; n <= 10; n++)
		mask |= (fault_hits(domain, "call", errnos) == EIO ? 1u : 0u) << n;
	return mask;
}

static void
faults_hit_what_they_are_to_hit(void **state)
{
	(void)state;
	fault_arm(0, FAULT_ONCE, FAULT_SYSTEM, 0);
	assert_int_equal(failing_calls(FAULT_SYSTEM), 0);
	assert_int_equal(fault_calls(), 10);
	assert_false(fault_used());
	fault_arm(3, FAULT_ONCE, FAULT_SYSTEM, 0);
	assert_int_equal(failing_calls(FAULT_VERBS), 0);
	assert_int_equal(failing_calls(FAULT_SYSTEM), 1 << 3);
	assert_true(fault_used());
	fault_arm(8, FAULT_FROM, FAULT_SYSTEM, 0);
	assert_int_equal(failing_calls(FAULT_SYSTEM), 1 << 8 | 1 << 9 | 1 << 10);
	fault_arm(2, FAULT_ONCE, FAULT_SYSTEM | FAULT_VERBS, 0);
	fault_also(7);
	assert_int_equal(failing_calls(FAULT_VERBS), 1 << 2 | 1 << 7);
	fault_arm(4, FAULT_ONCE, FAULT_SYSTEM, 0); /* fault_arm() forgets the second one */
	assert_int_equal(failing_calls(FAULT_SYSTEM), 1 << 4);
	fault_disarm();
	assert_int_equal(failing_calls(FAULT_SYSTEM), 0);
}

static void
options_are_read(void **state)
{
	unsigned long value = 0;

	(void)state;
	assert_true(option_number("7", 7, 7, &value));
	assert_int_equal(value, 7);
	assert_true(option_number("0x10", 0, 100, &value));
	assert_int_equal(value, 16);
	assert_false(option_number("", 0, 100, &value));
	assert_false(option_number("7s", 0, 100, &value));
	assert_false(option_number("-1", 0, ULONG_MAX, &value));
	assert_false(option_number(" 7", 0, 100, &value));
	assert_false(option_number("6", 7, 8, &value));
	assert_false(option_number("9", 7, 8, &value));
	assert_false(option_number("99999999999999999999", 0, ULONG_MAX, &value));
	assert_true(option_matches(NULL, "write"));
	assert_true(option_matches("read|wr*", "write"));
	assert_true(option_matches("write|read", "write"));
	assert_false(option_matches("rite|read*", "write"));
	assert_false(option_matches("", "write"));
}

static unsigned long driver_count = 3;
static const char *driver_mode;
static const struct driver_option driver_options[] = {
	{ DRIVER_SEED },
	{ DRIVER_ONLY },
	{ DRIVER_RESUME, .help = "a file" },
	{ "count", "N", "a number", .number = &driver_count, .min = 1, .max = 9 },
	{ "mode", "once|from", "a choice", .text = &driver_mode, .is_choice = true },
	{ 0 },
};
static const struct driver_program driver_program = { "selftest", "Tests the driver.", driver_options };

/* the exit status of a program that takes this command line, and admits the name "write" only */
static int
status_of(char *first, char *second)
{
	char *argv[] = { "selftest", first, second, NULL };
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
			_exit(EXIT_FAILURE);
		driver_parse(&driver_program, second ? 3 : 2, argv);
		driver_needs("mode", "count");
		driver_refuse_if_none(driver_admits("write"), "name");
		_exit(driver.seed == 5 || driver_count == 9 ? 5 : 6);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void
driver_takes_and_refuses_options(void **state)
{
	(void)state;
	assert_int_equal(status_of("--help", NULL), 0);
	assert_int_equal(status_of("--seed", "5"), 5);
	assert_int_equal(status_of("--count=9", NULL), 5);
	assert_int_equal(status_of("--only", "read|wr*"), 6);
	assert_int_equal(status_of("--only", "read"), DRIVER_REFUSED);
	assert_int_equal(status_of("--count", "x"), DRIVER_REFUSED);
	assert_int_equal(status_of("--count", "10"), DRIVER_REFUSED);
	assert_int_equal(status_of("--count", NULL), DRIVER_REFUSED);
	assert_int_equal(status_of("--mode", "from"), DRIVER_REFUSED);
	assert_int_equal(status_of("--mode=never", "--count=9"), DRIVER_REFUSED);
	assert_int_equal(status_of("--mode=from", "--count=9"), 5);
	assert_int_equal(status_of("--unknown", NULL), DRIVER_REFUSED);
	assert_int_equal(status_of("stray", NULL), DRIVER_REFUSED);
}

/* a resume file counts only if it begins as the caller expects */
static void
driver_goes_on_from_its_file(void **state)
{
	char path[] = "selftest-XXXXXX", rest[DRIVER_LINE_MAX], line[DRIVER_LINE_MAX];
	char *argv[] = { "selftest", "--resume", path, NULL };
	int fd = mkstemp(path);
	FILE *f;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	driver_parse(&driver_program, 3, argv);
	assert_null(driver_open_resume(rest, "run %d", 1));
	driver_save("run %d of 7\n", 1);
	driver_append("done %d\n", 2);
	assert_null(driver_open_resume(rest, "run %d", 2));
	f = driver_open_resume(rest, "run %d", 1);
	assert_non_null(f);
	assert_string_equal(rest, " of 7\n");
	assert_non_null(fgets(line, sizeof(line), f));
	assert_string_equal(line, "done 2\n");
	fclose(f);
	unlink(path);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pattern_depends_on_position),
		cmocka_unit_test(pattern_finds_each_byte),
		cmocka_unit_test(process_lines_and_status),
		cmocka_unit_test(other_threads_run_and_sleep),
		cmocka_unit_test(process_is_killed),
		cmocka_unit_test(ports_differ),
		cmocka_unit_test(deadline_names_the_test),
		cmocka_unit_test(faults_hit_what_they_are_to_hit),
		cmocka_unit_test(options_are_read),
		cmocka_unit_test(driver_takes_and_refuses_options),
		cmocka_unit_test(driver_goes_on_from_its_file),
	};

	(void)argv;
	if (argc > 1) {
		deadline_start("the one that hangs", 1);
		for (;;)
			pause();
	}
	deadline_start("testlib", 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
