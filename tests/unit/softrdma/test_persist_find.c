/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_persist_find.c -- the file of a mapping is found if it can be, and another file is not taken for it */

#include "mapped_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include "softrdma/persist/persist_find.h"

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

static void
test_names_of_memfds(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		bool is;
	} cases[] = {
		{ "/memfd:found (deleted)", true },
		{ "/memfd: (deleted)", true },
		{ "/memfd:found", false },
		{ "/tmp/memfd:found (deleted)", false },
		{ "/memfd (deleted)", false },
		{ "(deleted)", false },
		{ "", false },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(softrdma_find_is_memfd(cases[i].name), cases[i].is);
}

/* the area of a mapping and the name that the kernel shows for it */
struct seen {
	struct softrdma_area area;
	char name[4096];
};

static int
see(const struct softrdma_area *area, const char *name, void *arg)
{
	struct seen *seen = arg;
	seen->area = *area;
	snprintf(seen->name, sizeof(seen->name), "%s", name);
	return 0;
}

static void
look_at(const void *mem, struct seen *seen)
{
	assert_int_equal(softrdma_mapping_each(NULL, (uintptr_t)mem, (uintptr_t)mem + 1, true, see, seen), 0);
}

/* one of two files is found by its area, and is told from the other; later it has no name, and is found still */
static void
test_one_of_two(void **state)
{
	(void)state;
	char paths[2][32];
	void *mem[2];
	int fds[2];
	static struct seen seen[2];
	struct stat st[2];
	for (int i = 0; i < 2; i++) {
		fds[i] = named_file(paths[i], &mem[i]);
		assert_int_equal(fstat(fds[i], &st[i]), 0);
		look_at(mem[i], &seen[i]);
		assert_false(softrdma_find_is_deleted(mem[i]));
	}
	for (int i = 0; i < 2; i++) {
		struct stat found;
		int fd = softrdma_find_file(&seen[i].area, seen[i].name);
		assert_true(fd >= 3);
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		assert_int_equal(fstat(fd, &found), 0);
		assert_int_equal(found.st_ino, st[i].st_ino);
		assert_int_equal(found.st_dev, st[i].st_dev);
		close(fd);
		for (int at = 0; at < 2; at++)
			assert_int_equal(softrdma_find_is_same(mem[at], &seen[i].area, seen[i].name, &st[i]),
				at == i);
	}
	assert_int_equal(unlink(paths[0]), 0);
	assert_true(softrdma_find_is_deleted(mem[0]));
	assert_false(softrdma_find_is_deleted(mem[1]));
	look_at(mem[0], &seen[0]);
	int fd = softrdma_find_file(&seen[0].area, seen[0].name);
	assert_true(fd >= 0);
	close(fd);

	/* a mapping that is gone shows no file */
	for (int i = 0; i < 2; i++) {
		munmap(mem[i], PAGE);
		assert_false(softrdma_find_is_same(mem[i], &seen[i].area, seen[i].name, &st[i]));
		assert_false(softrdma_find_is_deleted(mem[i]));
		close(fds[i]);
	}
	unlink(paths[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_found_by),
		device_test(test_renamed),
		device_test(test_names_of_memfds),
		device_test(test_one_of_two),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
