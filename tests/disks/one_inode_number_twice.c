/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * one_inode_number_twice.c -- two files of one disk with one inode number are told apart
 *
 * Two files of btrfs with the same inode number, in two subvolumes (every snapshot has such files), were
 * taken for one. When one of them was truncated, the library checked the size of the other one, and a flush
 * succeeded.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deadline.h"
#include "lending.h"
#include "medium.h"

static struct medium medium;
static struct lending lendings[2];

/* from: NULL, or the subvolume that this one is a snapshot of */
static void
make_subvolume(const char *name, const char *from)
{
	char command[3 * MEDIUM_PATH_LEN], path[MEDIUM_PATH_LEN], from_path[MEDIUM_PATH_LEN] = "";
	if (from)
		medium_path(&medium, from, from_path);
	snprintf(command, sizeof(command),
		"unset LD_PRELOAD; PATH=$PATH:/sbin:/usr/sbin btrfs subvolume %s %s %s >/dev/null",
		from ? "snapshot" : "create", from_path, medium_path(&medium, name, path));
	assert_int_equal(system(command), 0);
}

static int
new_file(const char *subvolume, ino_t *inode)
{
	char path[MEDIUM_PATH_LEN], name[32];
	struct stat st;
	snprintf(name, sizeof(name), "%s/lent", subvolume);
	int fd = open(medium_path(&medium, name, path), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	*inode = st.st_ino;
	return fd;
}

/* the files of two subvolumes; the second file loses its content */
static void
check_two_files(const char *const subvolumes[2])
{
	ino_t inodes[2];
	for (int i = 0; i < 2; i++) {
		lending_begin(&lendings[i], new_file(subvolumes[i], &inodes[i]));
		assert_int_equal(lending_lend(&lendings[i]), 0);
		assert_true(lending_is_persistent(&lendings[i]));
		assert_int_equal(lending_write(&lendings[i], (char)('1' + i)), IBV_WC_SUCCESS);
		assert_int_equal(lending_flush(&lendings[i]), IBV_WC_SUCCESS);
	}
	assert_int_equal(inodes[0], inodes[1]);

	assert_int_equal(ftruncate(lendings[1].fd, 0), 0);
	assert_int_equal(lending_flush(&lendings[1]), IBV_WC_REM_OP_ERR);
	assert_int_equal(lending_flush(&lendings[0]), IBV_WC_SUCCESS);
	for (int i = 0; i < 2; i++)
		lending_end(&lendings[i]);
}

static void
test_two_files(void **state)
{
	(void)state;
	static const char *const subvolumes[] = { "one", "two" };
	make_subvolume("one", NULL);
	make_subvolume("two", NULL);
	check_two_files(subvolumes);
}

/* a file and its copy in a snapshot have the same time of birth too */
static void
test_snapshot(void **state)
{
	(void)state;
	static const char *const subvolumes[] = { "one", "snapshot" };
	make_subvolume("snapshot", "one");
	check_two_files(subvolumes);
}

/* the path of the mapped file now leads to the other one, which has the same numbers */
static void
test_mounted_over(void **state)
{
	(void)state;
	char one[MEDIUM_PATH_LEN], two[MEDIUM_PATH_LEN], path[MEDIUM_PATH_LEN + 16];
	static char found[LENDING_SIZE];
	ino_t inode;
	lending_begin(&lendings[0], new_file("one", &inode));
	assert_int_equal(mount(medium_path(&medium, "two", two), medium_path(&medium, "one", one), NULL,
				 MS_BIND, NULL),
		0);
	assert_int_equal(lending_lend(&lendings[0]), 0);
	assert_int_equal(lending_write(&lendings[0], 'm'), IBV_WC_SUCCESS);
	assert_int_equal(lending_flush(&lendings[0]), IBV_WC_SUCCESS);
	assert_int_equal(umount2(one, MNT_DETACH), 0);
	lending_end(&lendings[0]);
	medium_cut(&medium);
	snprintf(path, sizeof(path), "%s/one/lent", medium.cut);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, found, LENDING_SIZE), (ssize_t)LENDING_SIZE);
	close(fd);
	medium_uncut(&medium);
	assert_memory_equal(found, lendings[0].data, LENDING_SIZE);
}

int
main(void)
{
	deadline_start("one_inode_number_twice", 100);
	if (!medium_open(&medium, "mkfs.btrfs -q", NULL, 256, 256))
		return MEDIUM_SKIPPED;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_files),
		cmocka_unit_test(test_snapshot),
		cmocka_unit_test(test_mounted_over),
	};
	int failures = cmocka_run_group_tests(tests, NULL, NULL);
	medium_close(&medium);
	return failures;
}
