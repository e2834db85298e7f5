/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_variables.c -- the settings that the device takes from the environment, and typing errors in them */

#include "connected.h"

#include "softrdma/base/variables.h"

#define NAME "SOFTRDMA_SPIN_US"

static void
test_text(void **state)
{
	(void)state;
	unsetenv(NAME);
	assert_null(softrdma_variable(NAME));
	setenv(NAME, "", 1);
	assert_null(softrdma_variable(NAME));
	setenv(NAME, "text", 1);
	assert_string_equal(softrdma_variable(NAME), "text");
	unsetenv(NAME);
}

static void
test_number(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t value;
		bool wrong;
	} cases[] = {
		{ "10", 10, false },
		{ "15", 15, false },
		{ "20", 20, false },
		{ "", 12, false },
		{ "9", 12, true },
		{ "21", 12, true },
		{ "x", 12, true },
		{ "15x", 12, true },
		{ "-15", 12, true },
		{ "-18446744073709551601", 12, true },
		{ " -18446744073709551601", 12, true },
		{ "99999999999999999999", 12, true },
	};
	unsetenv(NAME);
	assert_int_equal(softrdma_setting(NAME, 10, 20, 12), 12);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char line[128];
		snprintf(line, sizeof(line),
			NAME " is \"%s\", which is no number from 10 to 20: 12 is used\n", cases[i].text);
		log_clear();
		setenv(NAME, cases[i].text, 1);
		assert_int_equal(softrdma_setting(NAME, 10, 20, 12), cases[i].value);
		assert_int_equal(log_has(line), cases[i].wrong);
		/* each connection reads some of them, and that must not fill the log */
		log_clear();
		assert_int_equal(softrdma_setting(NAME, 10, 20, 12), cases[i].value);
		assert_string_equal(log_text, "");
	}
	setenv(NAME, "a value of more than thirty-two characters", 1);
	assert_int_equal(softrdma_setting(NAME, 10, 20, 12), 12);
	assert_true(log_has(NAME " is \"a value of more than thirty-two \", which"));
	unsetenv(NAME);
}

/* a wrong value of one variable does not silence that of another one */
static void
test_each_variable(void **state)
{
	(void)state;
	static const char *const names[] = { "SOFTRDMA_CRC", "SOFTRDMA_THREADS", "SOFTRDMA_SAME_HOST" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		setenv(names[i], "maybe", 1);
		log_clear();
		assert_int_equal(softrdma_setting(names[i], 0, 1, 1), 1);
		assert_true(log_has(names[i]));
		unsetenv(names[i]);
	}
}

static void
test_unknown(void **state)
{
	(void)state;
	log_clear();
	setenv("SOFTRDMA_MAX_PENDING", "7", 1);
	setenv("NOT_SOFTRDMA_THREADS", "7", 1);
	setenv("SOFTRDMATHREADS", "7", 1);
	softrdma_variables_check();
	assert_string_equal(log_text, "");

	setenv("SOFTRDMA_THREAD", "7", 1);
	setenv("SOFTRDMA_THREADS_", "7", 1);
	softrdma_variables_check();
	assert_int_equal(log_worst, SOFTRDMA_LOG_WARNING);
	assert_true(log_has("SOFTRDMA_THREAD is no variable of the software device"));
	assert_true(log_has("SOFTRDMA_THREADS_ is no variable of the software device"));
	assert_false(log_has("MAX_PENDING"));

	/* at most as many lines as a peer could cause */
	char name[32];
	for (int i = 0; i < 2 * SOFTRDMA_LOG_LINES; i++) {
		snprintf(name, sizeof(name), "SOFTRDMA_WRONG_%d", i);
		setenv(name, "", 1);
	}
	log_clear();
	softrdma_variables_check();
	unsigned lines = 0;
	for (const char *c = log_text; *c; c++)
		lines += *c == '\n';
	assert_in_range(lines, 1, SOFTRDMA_LOG_LINES);
	clearenv();
	softrdma_variables_check();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_text),
		device_test(test_number),
		device_test(test_each_variable),
		device_test(test_unknown),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
