/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_persist_dax_none.c -- a build without libpmem2 takes no memory that needs it
 *
 * The variant is compiled under other names, beside the one of this build. test_persist.c shows what a whole
 * build without libpmem2 does.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "softrdma/base/env.h"

/* from persist_dax_none.c, under other names */
int softrdma_dax_init_without(const char *name);

static enum softrdma_log_level last_level;
static char last_text[512];

static void
keep_log(enum softrdma_log_level level, const char *file, int line, const char *func, const char *text)
{
	(void)file;
	(void)line;
	(void)func;
	last_level = level;
	snprintf(last_text, sizeof(last_text), "%s", text);
}

static void
test_refused(void **state)
{
	(void)state;
	softrdma_set_env(&(struct softrdma_env){ .log = keep_log });
	for (int i = 0; i < 2; i++) {
		last_text[0] = '\0';
		assert_int_equal(softrdma_dax_init_without("/mnt/pmem/a file"), EOPNOTSUPP);
		assert_int_equal(last_level, SOFTRDMA_LOG_WARNING);
		assert_non_null(strstr(last_text, "/mnt/pmem/a file cannot be made durable"));
		assert_non_null(strstr(last_text, "built without libpmem2"));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
