/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * Two disks that kernels report success for too early, without a WARNING: an ext4 without a journal, whose
 * inode some do not write in msync(), and a loop device, where some take a write that fits only in part for
 * one that is done. Each is warned of, once.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "deadline.h"
#include "lending.h"
#include "medium.h"

static struct medium medium;
static atomic_int loops, journals;

__attribute__((format(printf, 5, 6))) static void
count_warnings(enum rpma_log_level level, const char *file_name, const int line_no, const char *function_name,
	const char *message_format, ...)
{
	char text[1024];
	(void)file_name;
	(void)line_no;
	(void)function_name;
	va_list ap;
	va_start(ap, message_format);
	vsnprintf(text, sizeof(text), message_format, ap);
	va_end(ap);
	if (level != RPMA_LOG_LEVEL_WARNING)
		return;
	if (strstr(text, "persistent memory on a loop device"))
		loops++;
	if (strstr(text, "persistent memory on an ext4 without a journal"))
		journals++;
}

static void
lend_file(const char *name)
{
	struct lending lending;
	char path[MEDIUM_PATH_LEN];
	lending_begin(&lending, open(medium_path(&medium, name, path), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(lending_lend(&lending), 0);
	assert_true(lending_is_persistent(&lending));
	assert_int_equal(lending_write(&lending, 'o'), IBV_WC_SUCCESS);
	assert_int_equal(lending_flush(&lending), IBV_WC_SUCCESS);
	lending_end(&lending);
}

/* false: no such disk can be made here */
static bool
lend_from(const char *mkfs)
{
	if (!medium_open(&medium, mkfs, NULL, 64, 96))
		return false;
	assert_int_equal(rpma_log_set_function(count_warnings), 0);
	lend_file("one");
	lend_file("two");
	medium_close(&medium);
	return true;
}

static void
test_journal(void **state)
{
	(void)state;
	if (!lend_from("mkfs.ext4 -q"))
		skip();
	assert_int_equal(loops, 1);
	assert_int_equal(journals, 0);
}

static void
test_no_journal(void **state)
{
	(void)state;
	if (!lend_from("mkfs.ext4 -q -O ^has_journal"))
		skip();
	assert_int_equal(loops, 1);
	assert_int_equal(journals, 1);
}

int
main(void)
{
	deadline_start("disks-that-say-yes", 100);
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_journal),
		cmocka_unit_test(test_no_journal) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
