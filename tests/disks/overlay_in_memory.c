/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * overlay_in_memory.c -- the library warns of an overlay file system
 *
 * A file of an overlay file system whose upper layer is in memory was treated as one on a disk, without a
 * WARNING. The file system below an overlay cannot be determined, so the library must warn of each, once.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deadline.h"
#include "lending.h"
#include "medium.h"
#include "warnings.h"

static struct medium medium;
static struct lending lending;
static const char overlay[] = "*an overlay file system*may be in memory*";

static void
lend_file(const char *dir, const char *name)
{
	char path[2 * MEDIUM_PATH_LEN];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	lending_begin(&lending, open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(lending_lend(&lending), 0);
	assert_true(lending_is_persistent(&lending));
	assert_int_equal(lending_write(&lending, 'o'), IBV_WC_SUCCESS);
	assert_int_equal(lending_flush(&lending), IBV_WC_SUCCESS);
	assert_int_equal(ftruncate(lending.fd, 0), 0);
	assert_int_equal(lending_flush(&lending), IBV_WC_REM_OP_ERR);
	lending_end(&lending);
}

static void
test_warning(void **state)
{
	(void)state;
	static const char *const dirs[] = { "lower", "upper", "work", "merged" };
	char paths[4][MEDIUM_PATH_LEN], options[4 * MEDIUM_PATH_LEN];
	for (int i = 0; i < 4; i++) {
		snprintf(paths[i], sizeof(paths[i]), "%s/%s", medium.base, dirs[i]);
		assert_int_equal(mkdir(paths[i], 0700), 0);
	}
	snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%s,workdir=%s", paths[0], paths[1],
		paths[2]);
	if (mount("none", paths[3], "overlay", 0, options) != 0)
		skip();
	warnings_begin();
	lend_file(medium.dir, "on-a-disk");
	assert_int_equal(warnings_like(overlay), 0);
	lend_file(paths[3], "one");
	lend_file(paths[3], "two");
	assert_int_equal(warnings_like(overlay), 1);
	umount2(paths[3], MNT_DETACH);
}

int
main(void)
{
	deadline_start("overlay_in_memory", 100);
	if (!medium_open(&medium, "mkfs.ext4 -q", NULL, 64, 96))
		return MEDIUM_SKIPPED;
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_warning) };
	int failures = cmocka_run_group_tests(tests, NULL, NULL);
	medium_close(&medium);
	return failures;
}
