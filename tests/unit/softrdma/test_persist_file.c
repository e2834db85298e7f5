/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_persist_file.c -- the files behind mappings when the kernel does not help, and persist functions that
 * are not to be had
 *
 * What is durable where is in test_persist.c; here the calls fail.
 */

#include "connected.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "softrdma/persist.h"
#include "softrdma/persist_dax.h"
#include "softrdma/persist_file.h"
#include "softrdma/persist_msync.h"

#define PAGE ((size_t)4096)

static int
map_file(int fd, void **mem)
{
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)PAGE), 0);
	*mem = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(*mem, MAP_FAILED);
	return fd;
}

/* in the working directory, which is the build's */
static int
named_file(char path[static 32], void **mem)
{
	strcpy(path, "test_file.XXXXXX");
	return map_file(mkstemp(path), mem);
}

static void
expect_new(void *mem, int error)
{
	struct softrdma_persist *persist = NULL;
	assert_int_equal(softrdma_persist_new(mem, PAGE, &persist), error);
	softrdma_persist_delete(persist);
}

/* its path, the kernel's link and our own descriptors: each of them does when those before do not */
static void
test_found_by(void **state)
{
	(void)state;
	void *mem;
	int fd = map_file(memfd_create("found", MFD_CLOEXEC), &mem);
	expect_new(mem, 0);
	/* the query of the mapping opens a file first; neither its path nor the kernel's link can be opened
	 */
	for (unsigned opens = 1; opens <= 3; opens++) {
		fail_call(FAIL_MINE, "open", 1, opens, EPERM);
		expect_new(mem, opens <= 2 ? 0 : EOPNOTSUPP);
		fail_nothing();
	}
	wait_for_log("the file behind a mapping (/memfd:found (deleted)) cannot be found");

	/* one descriptor is left: the look at the mapping takes it */
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	const rlim_t before = limit.rlim_cur;
	int next = dup(fd);
	close(next);
	limit.rlim_cur = (rlim_t)next + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	expect_new(mem, EOPNOTSUPP);
	limit.rlim_cur = before;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	close(fd);
	munmap(mem, PAGE);
}

/* another file has its name now: the kernel's link names the right one */
static void
test_renamed(void **state)
{
	(void)state;
	char path[32];
	void *mem, *other;
	int fd = named_file(path, &mem);
	/* what stat says of it is not to be had: it is not taken for the file */
	for (unsigned skip = 0; skip < 3; skip++) {
		fail_call(FAIL_MINE, "fstat", skip, 1, EIO);
		struct softrdma_persist *persist = NULL;
		int ret = softrdma_persist_new(mem, PAGE, &persist);
		assert_true(ret == 0 || ret == EOPNOTSUPP);
		softrdma_persist_delete(persist);
		fail_nothing();
	}
	struct softrdma_persist *persist = NULL;
	assert_int_equal(softrdma_persist_new(mem, PAGE, &persist), 0);
	fail_call(FAIL_MINE, "statx", 0, 1, EIO); /* how long the file is, nobody knows: not durable */
	assert_int_equal(softrdma_persist_flush(persist, mem, 1), EIO);
	fail_nothing();
	softrdma_persist_delete(persist);

	unlink(path);
	int second = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	map_file(second, &other);
	expect_new(mem, 0);
	expect_new(other, 0);
	munmap(mem, PAGE);
	munmap(other, PAGE);
	close(fd);
	close(second);
	unlink(path);
}

/* what is mapped need be no file: a device keeps what it gets, or it does not */
static void
test_devices(void **state)
{
	(void)state;
	void *mem;
	int fd = map_file(memfd_create("device", MFD_CLOEXEC), &mem);
	static const struct {
		int what, error;
	} devices[] = {
		{ FAIL_BLOCK_DEVICE, 0 },
		{ FAIL_LOST_DEVICE, EOPNOTSUPP },
		{ FAIL_DEVICE, EOPNOTSUPP },
		{ EIO, EOPNOTSUPP },
	};
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		fail_call(FAIL_MINE, "fstat", 0, 1, devices[i].what);
		expect_new(mem, devices[i].error);
		assert_int_equal(fail_nothing(), 1);
	}
	wait_for_log("it is neither a file nor a DAX device");
	wait_for_log("it cannot be looked at");
	munmap(mem, PAGE);
	close(fd);

	/* memory that even the kernel does not see is a file as well, of a file system that stores nothing */
	fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
	if (fd < 0)
		skip();
	if (ftruncate(fd, (off_t)PAGE) == 0 &&
		(mem = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) != MAP_FAILED) {
		expect_new(mem, EOPNOTSUPP);
		munmap(mem, PAGE);
	}
	close(fd);
}

/* no storage, as far as anybody can tell */
static void
test_unknown_file_system(void **state)
{
	(void)state;
	char path[32];
	void *mem;
	int fd = named_file(path, &mem);
	fail_call(FAIL_MINE, "fstatfs", 0, 1, EIO);
	expect_new(mem, EOPNOTSUPP);
	fail_nothing();
	wait_for_log("cannot be made durable: its file system is unknown");
	for (unsigned skip = 0; skip < 2; skip++) { /* the region, and the file of it */
		fail_call(FAIL_MINE, "malloc", skip, 1, ENOMEM);
		expect_new(mem, ENOMEM);
		assert_int_equal(fail_nothing(), 1);
	}
	munmap(mem, PAGE);
	close(fd);
	unlink(path);
}

/* other memory has taken the place of the file's */
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

/* msync that is interrupted is made again */
static void
test_interrupted_msync(void **state)
{
	(void)state;
	fail_call(FAIL_MINE, "msync", 0, 2, EINTR);
	assert_int_equal(softrdma_msync(the_mem + 5, 10), 0);
	assert_int_equal(fail_nothing(), 2);
	softrdma_file_put(NULL);
}

/* libpmem2 needs a page of its own and memory: without them there is no persist function, and later there is
 */
static void
test_no_persist_function(void **state)
{
	(void)state;
	fail_call(FAIL_MINE, "mmap", 0, 1, ENOMEM);
	assert_int_equal(softrdma_dax_init(), ENOMEM);
	fail_call(FAIL_MINE, "pmem2_source_from_anon", 0, 1, -ENOMEM);
	assert_int_equal(softrdma_dax_init(), ENOMEM);
	fail_call(FAIL_MINE, "pmem2_map_from_existing", 0, 1, -100000); /* PMEM2_E_UNKNOWN */
	assert_int_equal(softrdma_dax_init(), ENOTSUP);
	wait_for_log("libpmem2 gives no persist function");
	/* modules that do not say what a power cut leaves: nothing is taken for granted */
	fail_call(FAIL_MINE, "glob", 0, 1, EIO);
	assert_int_equal(softrdma_dax_init(), 0);
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(softrdma_dax_init(), 0);
	assert_int_equal(softrdma_dax_init(), 0);
	memset(the_mem, 3, 100);
	softrdma_dax_flush(the_mem, 100);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_found_by),
		device_test(test_renamed),
		device_test(test_devices),
		device_test(test_unknown_file_system),
		device_test(test_replaced),
		device_test(test_interrupted_msync),
		device_test(test_no_persist_function),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
