/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * early_success.c -- the library warns of disks for which a kernel reports success too early
 *
 * On two disks kernels report success too early, and there was no WARNING. On an ext4 without a journal,
 * some kernels do not write the inode in msync(). On a loop device, some count a write that fits only
 * partly as done. The library must warn of each, once.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "deadline.h"
#include "lending.h"
#include "medium.h"
#include "warnings.h"

static struct medium medium;
static const char loop[] = "*persistent memory on a loop device*";
static const char no_journal[] = "*persistent memory on an ext4 without a journal*";

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

/* false if such a disk cannot be made here */
static bool
lend_from(const char *mkfs)
{
	if (!medium_open(&medium, mkfs, NULL, 64, 96))
		return false;
	warnings_begin();
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
	assert_int_equal(warnings_like(loop), 1);
	assert_int_equal(warnings_like(no_journal), 0);
}

static void
test_no_journal(void **state)
{
	(void)state;
	if (!lend_from("mkfs.ext4 -q -O ^has_journal"))
		skip();
	assert_int_equal(warnings_like(loop), 1);
	assert_int_equal(warnings_like(no_journal), 1);
}

int
main(void)
{
	deadline_start("early_success", 100);
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_journal),
		cmocka_unit_test(test_no_journal) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
