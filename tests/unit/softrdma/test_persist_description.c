/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_persist_description.c -- an open file description of the device: it opens a file apart, and grows */

#include "mapped_file.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "softrdma/persist/persist_description.h"

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

/* the life of a description: it needs no descriptor, allows no access, and its syncs fail as the medium does */
static void
test_sync(void **state)
{
	(void)state;
	char path[32];
	void *mem;
	struct softrdma_description description = { 0 };
	int fd = named_file(path, &mem);
	assert_int_equal(ftruncate(fd, (off_t)(2 * PAGE)), 0);
	int path_fd = open(path, O_PATH | O_CLOEXEC);
	int fds = count_fds();
	softrdma_description_close(&description); /* nothing was opened yet */
	assert_int_equal(softrdma_description_open(path_fd, PAGE, &description), 0);
	assert_int_equal(count_fds(), fds);
	assert_int_equal(description.len, PAGE);
	assert_int_equal(softrdma_description_sync(&description, 0, PAGE), 0);
	assert_int_equal(softrdma_description_sync(&description, PAGE - 1, 1), 0);
	assert_int_equal(softrdma_description_grow(&description, 2 * PAGE), 0);
	assert_int_equal(description.len, 2 * PAGE);
	assert_int_equal(softrdma_description_sync(&description, PAGE, PAGE), 0);

	fail_call(FAIL_MINE, "msync", 0, 1, EIO);
	assert_int_equal(softrdma_description_sync(&description, 0, 1), EIO);
	assert_int_equal(fail_nothing(), 1);
	fail_call(FAIL_MINE, "mremap", 0, 1, ENOMEM);
	assert_int_equal(softrdma_description_grow(&description, 3 * PAGE), ENOMEM);
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(description.len, 2 * PAGE); /* as before */
	assert_int_equal(softrdma_description_sync(&description, PAGE, PAGE), 0);

	/* nothing is to be read or written there: the kernel refuses to take data from it */
	int pipes[2];
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(write(pipes[1], description.base, 1), -1);
	assert_int_equal(errno, EFAULT);
	close(pipes[0]);
	close(pipes[1]);

	const uint8_t *base = description.base;
	softrdma_description_close(&description);
	assert_null(description.base);
	unsigned char there;
	assert_int_equal(mincore((void *)(uintptr_t)base, PAGE, &there), -1);
	assert_int_equal(errno, ENOMEM);

	/* a directory cannot be opened for writing: no description, and no descriptor is left */
	int folder = open(".", O_PATH | O_CLOEXEC);
	assert_int_equal(softrdma_description_open(folder, PAGE, &description), EISDIR);
	assert_null(description.base);
	close(folder);
	assert_int_equal(count_fds(), fds);
	close(path_fd);
	munmap(mem, PAGE);
	close(fd);
	unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_not_opened),
		device_test(test_opened_in_a_sandbox),
		device_test(test_grown),
		device_test(test_sync),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
