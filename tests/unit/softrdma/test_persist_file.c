/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_persist_file.c -- the files behind mappings when calls of the kernel fail, and missing persist
 * functions
 *
 * test_persist.c tests which memory is durable; here the calls fail.
 */

#include "connected.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "softrdma/persist/persist.h"
#include "softrdma/persist/persist_dax.h"
#include "softrdma/persist/persist_file.h"
#include "softrdma/persist/persist_msync.h"

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

/* its path, the kernel's link, and our own descriptors: each is used if the earlier ones fail */
static void
test_found_by(void **state)
{
	(void)state;
	void *mem;
	int fd = map_file(memfd_create("found", MFD_CLOEXEC), &mem);
	expect_new(mem, 0);
	/* neither the file's path nor the kernel's link can be opened */
	for (unsigned opens = 1; opens <= 3; opens++) {
		fail_call(FAIL_MINE, "open", 0, opens, EPERM);
		expect_new(mem, opens <= 2 ? 0 : EOPNOTSUPP);
		fail_nothing();
	}
	wait_for_log("the file behind a mapping (/memfd:found (deleted)) cannot be found");

	/* one descriptor is left, which the list of mappings takes */
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

/* Another file has the name now. The kernel's link names the right one, which no longer has a name. */
static void
test_renamed(void **state)
{
	(void)state;
	char path[32];
	void *mem, *other;
	int fd = named_file(path, &mem);
	unlink(path);
	int second = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	map_file(second, &other);
	expect_new(mem, EOPNOTSUPP);
	wait_for_log("it has no name under which another process could find it");
	expect_new(other, 0);
	munmap(mem, PAGE);
	munmap(other, PAGE);
	close(fd);
	close(second);
	unlink(path);
}

/* the device opens the file itself to learn of failures; if it cannot, the registration fails */
static void
test_not_opened(void **state)
{
	(void)state;
	static const struct {
		enum fail_whose whose;
		const char *call;
		int error, expected;
	} cases[] = {
		{ FAIL_THEIRS, "open", EACCES, EOPNOTSUPP },
		{ FAIL_THEIRS, "open", EROFS, EOPNOTSUPP },
		{ FAIL_THEIRS, "open", ENFILE, ENFILE },
		{ FAIL_THEIRS, "mmap", ENOMEM, ENOMEM },
		{ FAIL_MINE, "pthread_create", EAGAIN, EAGAIN },
		{ FAIL_MINE, "madvise", EINVAL, EINVAL },
	};
	char path[32];
	void *mem;
	int fd = named_file(path, &mem);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fail_call(cases[i].whose, cases[i].call, 0, 1, cases[i].error);
		expect_new(mem, cases[i].expected);
		assert_int_equal(fail_nothing(), 1);
	}
	wait_for_log("this process may not open the file for writing (Permission denied)");
	expect_new(mem, 0);
	munmap(mem, PAGE);
	close(fd);
	unlink(path);
}

/* a sandbox that does not let a thread have its own table of descriptors */
static void
forbid_own_descriptors(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(77);
}

/*
 * Registers a file on which this process has a lock. The device's descriptor must stay open, or the lock
 * would be lost.
 */
static void
open_in_sandbox(int fd, void *mem)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct softrdma_persist *persist = NULL;
	struct stat own, st;
	unsigned same = 0;
	forbid_own_descriptors();
	fail_call(FAIL_MINE, "mmap", 0, 1, ENOMEM);
	bool refused = softrdma_persist_new(mem, PAGE, &persist) == ENOMEM;
	fail_nothing();
	bool done = refused && fcntl(fd, F_SETLK, &lock) == 0 &&
		softrdma_persist_new(mem, PAGE, &persist) == 0 &&
		softrdma_persist_flush(persist, mem, 1) == 0;
	softrdma_persist_delete(persist);
	fstat(fd, &own);
	for (int other = 0; other < 256; other++)
		same += fstat(other, &st) == 0 && st.st_ino == own.st_ino && st.st_dev == own.st_dev;
	end_child(done && same == 2 ? 0 : 1);
}

static void
test_opened_in_a_sandbox(void **state)
{
	(void)state;
	char path[32];
	void *mem;
	int fd = named_file(path, &mem);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		open_in_sandbox(fd, mem);
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	munmap(mem, PAGE);
	close(fd);
	unlink(path);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

/* later a larger part of the file is registered */
static void
test_grown(void **state)
{
	(void)state;
	char path[32];
	void *mem;
	int fd = named_file(path, &mem);
	expect_new(mem, 0);
	munmap(mem, PAGE);
	const size_t size = 64 * PAGE;
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	char *more = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct softrdma_persist *persist = NULL;
	/* even while a part of it is in use */
	struct softrdma_persist *first = NULL;
	assert_int_equal(softrdma_persist_new(more, PAGE, &first), 0);
	fail_call(FAIL_MINE, "mremap", 0, 1, ENOMEM);
	assert_int_equal(softrdma_persist_new(more, size, &persist), ENOMEM);
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(softrdma_persist_new(more, 2 * PAGE, &persist), 0);
	softrdma_persist_delete(persist);
	softrdma_persist_delete(first);
	persist = NULL;
	fail_call(FAIL_MINE, "mremap", 0, 1, ENOMEM);
	assert_int_equal(softrdma_persist_new(more, size, &persist), ENOMEM);
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(softrdma_persist_new(more, size, &persist), 0);
	assert_int_equal(softrdma_persist_flush(persist, more + size - 1, 1), 0);
	softrdma_persist_delete(persist);
	munmap(more, size);
	close(fd);
	unlink(path);
}

/* The device remembers files, up to a limit. This test is the last, because it leaves no room for others. */
static void
test_many_files(void **state)
{
	(void)state;
	char path[32];
	void *mem;
	for (int i = 0; i < SOFTRDMA_IDLE_FILES_MAX + 20; i++) {
		/* in the last round no entry can be reused: the media of all remembered files have failed */
		const bool broken = i == SOFTRDMA_IDLE_FILES_MAX + 19;
		int fd = named_file(path, &mem);
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
	assert_true(system("rm -f test_file.??????") == 0);
	fds_before = count_fds(); /* one file stays remembered as if in use */
}

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

/* an interrupted msync() is called again */
static void
test_interrupted_msync(void **state)
{
	(void)state;
	fail_call(FAIL_MINE, "msync", 0, 2, EINTR);
	assert_int_equal(softrdma_msync(the_mem + 5, 10), 0);
	assert_int_equal(fail_nothing(), 2);
	softrdma_file_put(NULL);
}

/* libpmem2 needs a page and memory. Without them there is no persist function; a later call may find one. */
static void
test_no_persist_function(void **state)
{
	(void)state;
	fail_call(FAIL_MINE, "mmap", 0, 1, ENOMEM);
	int ret = softrdma_dax_init("a file");
	if (ret == EOPNOTSUPP) /* a build without libpmem2: test_persist_dax_none.c */
		skip();
	assert_int_equal(ret, ENOMEM);
	fail_call(FAIL_MINE, "pmem2_source_from_anon", 0, 1, -ENOMEM);
	assert_int_equal(softrdma_dax_init("a file"), ENOMEM);
	fail_call(FAIL_MINE, "pmem2_map_from_existing", 0, 1, -100000); /* PMEM2_E_UNKNOWN */
	assert_int_equal(softrdma_dax_init("a file"), ENOTSUP);
	wait_for_log("libpmem2 gives no persist function for a file");
	/* modules that do not report what a power cut leaves count as not durable */
	fail_call(FAIL_MINE, "glob", 0, 1, EIO);
	assert_int_equal(softrdma_dax_init("a file"), 0);
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(softrdma_dax_init("a file"), 0);
	assert_int_equal(softrdma_dax_init("a file"), 0);
	memset(the_mem, 3, 100);
	softrdma_dax_flush(the_mem, 100);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_found_by),
		device_test(test_unknown_file),
		device_test(test_renamed),
		device_test(test_not_opened),
		device_test(test_opened_in_a_sandbox),
		device_test(test_grown),
		device_test(test_devices),
		device_test(test_unknown_file_system),
		device_test(test_replaced),
		device_test(test_interrupted_msync),
		device_test(test_no_persist_function),
		device_test(test_many_files),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
