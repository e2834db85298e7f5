/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_persist_kind.c -- what stores a file: devices, file systems, and kinds that no call reports */

#include "mapped_file.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "softrdma/persist/persist_kind.h"

/* a mapping may be of a device, which either stores data or does not */
static void
test_devices(void **state)
{
	(void)state;
	void *mem;
	if (geteuid() != 0) {
		print_message("SKIPPED: only root opens the file of a mapping by the kernel's link\n");
		skip();
	}
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

	/* secret memory is a file as well, of a file system that stores nothing */
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

/* an unknown file system does not count as storage */
static void
test_unknown_file_system(void **state)
{
	(void)state;
	char path[32];
	void *mem;
	int fd = named_file(path, &mem);
	fail_call(FAIL_MINE, "fstatfs", 1, 1, EIO); /* the first call is for /proc */
	expect_new(mem, EOPNOTSUPP);
	fail_nothing();
	wait_for_log("cannot be made durable: its file system is unknown");
	for (unsigned skip = 0; skip < 2; skip++) { /* for the region, and for its file */
		fail_call(FAIL_MINE, "malloc", skip, 1, ENOMEM);
		expect_new(mem, ENOMEM);
		assert_int_equal(fail_nothing(), 1);
	}
	munmap(mem, PAGE);
	close(fd);
	unlink(path);
}

/* the file's kind, mapped at mem; NULL, or the reason why it has none */
static const char *
kind_of(int fd, const void *mem, enum softrdma_kind *kind)
{
	struct stat st;
	assert_int_equal(fstat(fd, &st), 0);
	const struct softrdma_area area = { .start = (uintptr_t)mem, .end = (uintptr_t)mem + PAGE };
	return softrdma_kind_of(fd, &area, &st, kind);
}

static void
test_kinds(void **state)
{
	(void)state;
	enum softrdma_kind kind;
	void *mem;
	int fd = map_file(memfd_create("kind", MFD_CLOEXEC), &mem);
	kind = SOFTRDMA_KIND_DAX;
	assert_null(kind_of(fd, mem, &kind));
	assert_int_equal(kind, SOFTRDMA_KIND_MEMORY);
	munmap(mem, PAGE);
	close(fd);

	char path[32];
	struct statfs fs;
	fd = named_file(path, &mem);
	assert_int_equal(fstatfs(fd, &fs), 0);
	const bool in_memory = fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC;
	kind = SOFTRDMA_KIND_DAX;
	assert_null(kind_of(fd, mem, &kind));
	assert_int_equal(kind, in_memory ? SOFTRDMA_KIND_MEMORY : SOFTRDMA_KIND_DISK);
	munmap(mem, PAGE);
	close(fd);
	unlink(path);

	static const struct {
		const char *path, *reason;
	} others[] = {
		{ "/proc/version", "its file system stores nothing" },
		{ "/dev/null", "it is neither a file nor a DAX device" },
		{ "/", "it is neither a file nor a DAX device" },
	};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		fd = open(others[i].path, O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_string_equal(kind_of(fd, the_mem, &kind), others[i].reason);
		close(fd);
	}
}

/* one line for each cause, with the name of the file that was first */
static void
test_warns_once(void **state)
{
	(void)state;
	struct stat st;
	int fd = memfd_create("kind", MFD_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	softrdma_kind_warn(fd, &st, "the first");
	assert_true(
		log_has("persistent memory on a file system in memory (the first): it survives the process"));
	log_clear();
	softrdma_kind_warn(fd, &st, "the second");
	assert_int_equal(log_worst, 0);
	close(fd);
	/* what is no file and no block device has nothing to be warned of */
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	softrdma_kind_warn(fd, &st, "/dev/null");
	assert_int_equal(log_worst, 0);
	close(fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_warns_once), /* first, because a line is logged once */
		device_test(test_devices),
		device_test(test_unknown_file_system),
		device_test(test_kinds),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
