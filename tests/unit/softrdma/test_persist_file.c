/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_persist_file.c -- the files behind mappings that the device remembers, and what happens when calls of the kernel fail
 *
 * test_persist.c tests which memory is durable; here the calls fail.
 */

#include "mapped_file.h"

#include "softrdma/persist/persist_file.h"

/* if calls fail to report the kind of a file, it does not count as durable */
static void
test_unknown_file(void **state)
{
	(void)state;
	char path[32];
	void *mem;
	int fd = named_file(path, &mem);
	for (unsigned skip = 0; skip < 3; skip++) {
		fail_call(FAIL_MINE, "fstat", skip, 1, EIO);
		struct softrdma_persist *persist = NULL;
		int ret = softrdma_persist_new(mem, PAGE, &persist);
		assert_true(ret == 0 || ret == EOPNOTSUPP);
		softrdma_persist_delete(persist);
		fail_nothing();
	}
	fail_call(FAIL_MINE, "statx", 0, 1, EIO);
	expect_new(mem, EOPNOTSUPP);
	fail_nothing();
	struct softrdma_persist *persist = NULL;
	assert_int_equal(softrdma_persist_new(mem, PAGE, &persist), 0);
	fail_call(FAIL_MINE, "statx", 0, 1, EIO); /* the length of the file is unknown: the flush fails */
	assert_int_equal(softrdma_persist_flush(persist, mem, 1), EIO);
	fail_nothing();
	softrdma_persist_delete(persist);
	munmap(mem, PAGE);
	close(fd);
	unlink(path);
}

/* other memory was mapped in place of the file's */
static void
test_replaced(void **state)
{
	(void)state;
	void *mem;
	int fd = map_file(memfd_create("replaced", MFD_CLOEXEC), &mem);
	struct softrdma_persist *persist = NULL;
	assert_int_equal(softrdma_persist_new(mem, PAGE, &persist), 0);
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	assert_ptr_equal(mmap(mem, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0), mem);
	assert_int_equal(softrdma_persist_flush(persist, mem, 1), ESTALE);
	assert_int_equal(softrdma_persist_flush(persist, mem, 1), EIO);
	softrdma_persist_delete(persist);
	munmap(mem, PAGE);
	close(fd);
}

/* The device remembers files, up to a limit. This test is the last, because it leaves no room for others. */
static void
test_many_files(void **state)
{
	(void)state;
	enum { FILES = SOFTRDMA_IDLE_FILES_MAX + 20 };
	static char paths[FILES][32];
	void *mem;
	for (int i = 0; i < FILES; i++) {
		/* in the last round no entry can be reused: the media of all remembered files have failed */
		const bool broken = i == FILES - 1;
		int fd = named_file(paths[i], &mem);
		struct softrdma_persist *persist = NULL;
		assert_int_equal(softrdma_persist_new(mem, PAGE, &persist), 0);
		if (broken)
			fail_call(FAIL_MINE, "msync", 0, FAIL_FOR_EVER, EIO);
		softrdma_persist_delete(persist);
		if (broken) {
			assert_int_equal(fail_nothing(), SOFTRDMA_IDLE_FILES_MAX);
			/* a file without an entry can still be registered */
			expect_new(mem, 0);
		}
		munmap(mem, PAGE);
		close(fd);
	}
	for (int i = 0; i < FILES; i++)
		assert_int_equal(unlink(paths[i]), 0);
	fds_before = count_fds(); /* one file stays remembered as if in use */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_unknown_file),
		device_test(test_replaced),
		device_test(test_many_files),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
