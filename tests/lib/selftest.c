/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* selftest.c -- do the tests' own tools see what they are there to see? */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "count.h"
#include "deadline.h"
#include "net.h"
#include "pattern.h"
#include "process.h"

#define LEN 300
#define WAIT_MS 10000

/* any piece of a pattern is the same wherever its filling began */
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

/* every changed byte is found, at its place */
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
	assert_true(n > 0);
	self[n] = '\0';
	argv[0] = self;
	assert_int_equal(proc_start(&p, argv, NULL), 0);
	assert_int_equal(proc_wait_line(&p, "DEADLINE: the one that hangs", NULL, 0, WAIT_MS), 0);
	assert_int_equal(proc_wait(&p, WAIT_MS), DEADLINE_EXIT_CODE);
	proc_kill(&p);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pattern_depends_on_position),
		cmocka_unit_test(pattern_finds_each_byte),
		cmocka_unit_test(process_lines_and_status),
		cmocka_unit_test(process_is_killed),
		cmocka_unit_test(ports_differ),
		cmocka_unit_test(deadline_names_the_test),
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
