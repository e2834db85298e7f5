/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * failed_write_back.c -- no flush succeeds after the write-back of its data has failed
 *
 * The failure of a medium was forgotten when the memory was registered again. And an fsync() of the
 * application took the failure away before the client's flush could see it. Both times a flush reported
 * success for data that was not on the disk.
 *
 * The disk is an image in a tmpfs. While the tmpfs is full, the file system's writes to the disk fail. It
 * is full before anything is written: the kernel writes memory to a disk whenever it likes.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deadline.h"
#include "end_child.h"
#include "lending.h"
#include "medium.h"

static struct medium medium;
static struct lending lending;
static char name[16], path[MEDIUM_PATH_LEN];

static int
setup(void **state)
{
	(void)state;
	/* a file that has failed once remains failed in this process, so each test has a file of its own */
	static unsigned number;
	snprintf(name, sizeof(name), "lent-%u", ++number);
	medium_path(&medium, name, path);
	lending_begin(&lending, open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
	assert_int_equal(fsync(lending.fd), 0);
	assert_int_equal(lending_lend(&lending), 0);
	return 0;
}

/*
 * The file stays. If its blocks, for which the image now has room, were reused, the next write would not
 * fail.
 */
static int
teardown(void **state)
{
	(void)state;
	lending_end(&lending);
	return 0;
}

/* the control of the disk itself: data that fits is written */
static void
test_working_disk(void **state)
{
	(void)state;
	char found_at[sizeof(medium.cut) + sizeof(name) + 1];
	static char found[LENDING_SIZE];
	assert_int_equal(lending_write(&lending, 'w'), IBV_WC_SUCCESS);
	assert_int_equal(lending_flush(&lending), IBV_WC_SUCCESS);
	/*
	 * Without a journal msync() does not write the inode on 6.1 (doc/durability.md). The status is not
	 * checked, because it may report the failure of an earlier test.
	 */
	(void)syncfs(lending.fd);
	medium_cut(&medium);
	snprintf(found_at, sizeof(found_at), "%s/%s", medium.cut, name);
	int fd = open(found_at, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, found, LENDING_SIZE), (ssize_t)LENDING_SIZE);
	close(fd);
	medium_uncut(&medium);
	assert_memory_equal(found, lending.data, LENDING_SIZE);
}

static void
let_a_flush_fail(void)
{
	medium_fill(&medium);
	assert_int_equal(lending_write(&lending, 'a'), IBV_WC_SUCCESS);
	assert_int_not_equal(lending_flush(&lending), IBV_WC_SUCCESS);
	medium_make_room(&medium);
}

/* the same mapping is registered again for the next client */
static void
test_registered_again(void **state)
{
	(void)state;
	let_a_flush_fail();
	lending_disconnect(&lending);
	lending_connect(&lending);
	assert_int_equal(lending_lend(&lending), RPMA_E_PROVIDER);
}

static void
test_mapped_again(void **state)
{
	(void)state;
	let_a_flush_fail();
	lending_end(&lending);
	lending_begin(&lending, open(path, O_RDWR | O_CLOEXEC));
	assert_int_equal(lending_lend(&lending), RPMA_E_PROVIDER);
}

/* a child has the memory of its parent, and opens a description that has not seen the failure */
static void
test_child(void **state)
{
	(void)state;
	let_a_flush_fail();
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct lending own;
		lending_begin(&own, open(path, O_RDWR | O_CLOEXEC));
		int ret = lending_lend(&own);
		lending_end(&own);
		end_child(ret == RPMA_E_PROVIDER ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* the write-back fails while no memory of the file is registered, and the application sees the failure */
static void
test_failed_in_between(void **state)
{
	(void)state;
	medium_fill(&medium);
	assert_int_equal(lending_write(&lending, 'b'), IBV_WC_SUCCESS);
	lending_disconnect(&lending);
	assert_int_equal(fsync(lending.fd), -1);
	medium_make_room(&medium);
	lending_connect(&lending);
	assert_int_equal(lending_lend(&lending), 0);
	assert_int_not_equal(lending_flush(&lending), IBV_WC_SUCCESS);
}

static void
ask_fsync(void)
{
	assert_int_equal(fsync(lending.fd), -1);
	assert_int_equal(fsync(lending.fd), 0); /* the kernel reports a failure only once */
}

static void
ask_msync(void)
{
	assert_int_equal(msync(lending.mem, LENDING_SIZE, MS_SYNC), -1);
	assert_int_equal(msync(lending.mem, LENDING_SIZE, MS_SYNC), 0);
}

static void
ask_syncfs(void)
{
	(void)syncfs(lending.fd);
	(void)fsync(lending.fd);
}

static void
ask_in_another_process(void)
{
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int fd = open(path, O_RDWR | O_CLOEXEC);
		(void)fsync(fd);
		(void)fsync(lending.fd);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void
ask_before_the_flush(void (*ask)(void))
{
	medium_fill(&medium);
	assert_int_equal(lending_write(&lending, 'c'), IBV_WC_SUCCESS);
	ask();
	medium_make_room(&medium);
	assert_int_not_equal(lending_flush(&lending), IBV_WC_SUCCESS);
}

static void
test_fsync_before(void **state)
{
	(void)state;
	ask_before_the_flush(ask_fsync);
}

static void
test_msync_before(void **state)
{
	(void)state;
	ask_before_the_flush(ask_msync);
}

static void
test_syncfs_before(void **state)
{
	(void)state;
	ask_before_the_flush(ask_syncfs);
}

static void
test_another_process_before(void **state)
{
	(void)state;
	ask_before_the_flush(ask_in_another_process);
}

/* a child has the application's mapping, but must not have the device's description */
static void
test_children(void **state)
{
	(void)state;
	fflush(NULL);
	medium_fill(&medium);
	assert_int_equal(lending_write(&lending, 'd'), IBV_WC_SUCCESS);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		/* syncs every mapping of the file that the child has, through whichever description */
		FILE *maps = fopen("/proc/self/maps", "re");
		unsigned long start, end;
		char line[512];
		while (maps && fgets(line, sizeof(line), maps)) {
			if (strstr(line, name) && sscanf(line, "%lx-%lx", &start, &end) == 2)
				(void)msync((void *)start, end - start, MS_SYNC);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	medium_make_room(&medium);
	assert_int_not_equal(lending_flush(&lending), IBV_WC_SUCCESS);
}

int
main(void)
{
	deadline_start("failed_write_back", 100);
	/* a journal would fail together with the data, and end all work on the disk */
	if (!medium_open(&medium, "mkfs.ext4 -q -O ^has_journal", NULL, 64, 32))
		return MEDIUM_SKIPPED;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_registered_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mapped_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_child, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failed_in_between, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fsync_before, setup, teardown),
		cmocka_unit_test_setup_teardown(test_msync_before, setup, teardown),
		cmocka_unit_test_setup_teardown(test_syncfs_before, setup, teardown),
		cmocka_unit_test_setup_teardown(test_another_process_before, setup, teardown),
		cmocka_unit_test_setup_teardown(test_children, setup, teardown),
		cmocka_unit_test_setup_teardown(test_working_disk, setup, teardown),
	};
	int failures = cmocka_run_group_tests(tests, NULL, NULL);
	medium_close(&medium);
	return failures;
}
