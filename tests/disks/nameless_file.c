/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * nameless_file.c -- a file without a name is not persistent memory
 *
 * A file without a name was offered as persistent memory. Flushes of it succeeded, but the file was gone
 * after the process had ended. Such files are made by O_TMPFILE, by unlink(), and by renaming another file
 * over one.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "deadline.h"
#include "lending.h"
#include "medium.h"

static struct medium medium;
static struct lending lending;
static char path[MEDIUM_PATH_LEN];

static int
new_file(void)
{
	return open(medium_path(&medium, "lent", path), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

static void
rename_over(void)
{
	char other[MEDIUM_PATH_LEN];
	int fd = open(medium_path(&medium, "other", other), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)LENDING_SIZE), 0);
	close(fd);
	assert_int_equal(rename(other, path), 0);
}

static void
is_not_offered(void)
{
	assert_int_equal(lending_lend(&lending), 0);
	assert_false(lending_is_persistent(&lending));
	assert_int_equal(rpma_flush(lending.pair.client.conn, lending.remote, 0, LENDING_SIZE,
				 RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS, NULL),
		RPMA_E_NOSUPP);
	/* everything else works */
	assert_int_equal(lending_write(&lending, 'n'), IBV_WC_SUCCESS);
	assert_memory_equal(lending.mem, lending.data, LENDING_SIZE);
	lending_end(&lending);
}

static void
test_never_had_one(void **state)
{
	(void)state;
	int fd = open(medium.dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	lending_begin(&lending, fd);
	is_not_offered();
}

static void
test_unlinked(void **state)
{
	(void)state;
	lending_begin(&lending, new_file());
	assert_int_equal(unlink(path), 0);
	is_not_offered();
}

static void
test_renamed_over(void **state)
{
	(void)state;
	lending_begin(&lending, new_file());
	rename_over();
	is_not_offered();
}

static void
test_lost_later(void (*lose)(void))
{
	lending_begin(&lending, new_file());
	assert_int_equal(lending_lend(&lending), 0);
	assert_true(lending_is_persistent(&lending));
	assert_int_equal(lending_write(&lending, 'l'), IBV_WC_SUCCESS);
	assert_int_equal(lending_flush(&lending), IBV_WC_SUCCESS);
	lose();
	assert_int_equal(lending_flush(&lending), IBV_WC_REM_OP_ERR);
	lending_end(&lending);
}

static void
unlink_it(void)
{
	assert_int_equal(unlink(path), 0);
}

static void
test_unlinked_later(void **state)
{
	(void)state;
	test_lost_later(unlink_it);
}

static void
test_renamed_over_later(void **state)
{
	(void)state;
	test_lost_later(rename_over);
}

/* a second name is enough */
static void
test_two_names(void **state)
{
	(void)state;
	char second[MEDIUM_PATH_LEN];
	lending_begin(&lending, new_file());
	assert_int_equal(link(path, medium_path(&medium, "second", second)), 0);
	assert_int_equal(lending_lend(&lending), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(lending_write(&lending, '2'), IBV_WC_SUCCESS);
	assert_int_equal(lending_flush(&lending), IBV_WC_SUCCESS);
	lending_end(&lending);
	assert_int_equal(unlink(second), 0);
}

int
main(void)
{
	deadline_start("nameless_file", 100);
	if (!medium_open(&medium, "mkfs.ext4 -q", NULL, 64, 96))
		return MEDIUM_SKIPPED;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_never_had_one),
		cmocka_unit_test(test_unlinked),
		cmocka_unit_test(test_renamed_over),
		cmocka_unit_test(test_unlinked_later),
		cmocka_unit_test(test_renamed_over_later),
		cmocka_unit_test(test_two_names),
	};
	int failures = cmocka_run_group_tests(tests, NULL, NULL);
	medium_close(&medium);
	return failures;
}
