/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_command_line.c -- nbdkit-rpma-plugin knows whether nbdkit was started with -r */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "command_line.h"

/* words: separated by blanks; '_' is an argument without any letter */
static bool
is_read_only(const char *words)
{
	char args[256];
	size_t len = strlen(words) + 1, kept = 0;

	assert_true(len <= sizeof(args));
	for (size_t i = 0; i < len; i++)
		if (words[i] != '_')
			args[kept++] = words[i] == ' ' ? '\0' : words[i];
	FILE *file = fmemopen(args, kept, "r");
	assert_non_null(file);
	const bool result = command_line_is_read_only(file);
	fclose(file);
	return result;
}

static void
read_only(void **state)
{
	(void)state;
	assert_true(is_read_only("nbdkit -r rpma host=a name=b"));
	assert_true(is_read_only("nbdkit --readonly rpma"));
	assert_true(is_read_only("nbdkit --read-only rpma"));
	assert_true(is_read_only("nbdkit --re rpma"));
	assert_true(is_read_only("nbdkit --read- rpma"));
	assert_true(is_read_only("nbdkit --filt cow --readon rpma"));
	assert_true(is_read_only("nbdkit rpma host=a name=b -r"));
	assert_true(is_read_only("nbdkit -fvr -U - rpma"));
	assert_true(is_read_only("nbdkit -rU - rpma"));
	assert_true(is_read_only("nbdkit -U - -r rpma"));
	assert_true(is_read_only("nbdkit -U- -r rpma"));
	assert_true(is_read_only("nbdkit -fU - -r rpma"));
	assert_true(is_read_only("nbdkit --run=true --filter cow -r rpma"));
	assert_true(is_read_only("nbdkit -e _ -r rpma"));
	assert_true(is_read_only("nbdkit - -r rpma"));
}

static void
writable(void **state)
{
	(void)state;
	assert_false(is_read_only("nbdkit rpma host=r name=-r"));
	assert_false(is_read_only("nbdkit -f -U server rpma"));
	assert_false(is_read_only("nbdkit -fUr rpma"));
	assert_false(is_read_only("nbdkit -U -r rpma"));
	assert_false(is_read_only("nbdkit -fU -r rpma"));
	assert_false(is_read_only("nbdkit --run -r rpma"));
	assert_false(is_read_only("nbdkit --unix --readonly rpma"));
	assert_false(is_read_only("nbdkit --ru -r rpma"));
	assert_false(is_read_only("nbdkit --uni=x --readonly=no rpma"));
	assert_false(is_read_only("nbdkit -e _ rpma"));
	assert_false(is_read_only("nbdkit --tls-verify-peer --no-sr rpma"));
	assert_false(is_read_only("nbdkit -- rpma -r"));
	assert_false(is_read_only("-r"));
	assert_false(is_read_only(""));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_only),
		cmocka_unit_test(writable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
