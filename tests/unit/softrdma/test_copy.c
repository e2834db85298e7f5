/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_copy.c -- copies into a file mapping that ends too early, with and without the calls that sandboxes forbid, and
 * questions whether memory is there
 */

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "count.h"
#include "fixture.h"
#include "softrdma/base/copy.h"

#define PAGE ((size_t)4096)

/* more than a pipe holds */
#define LENGTH ((size_t)300 * 1024)

enum call { PROCESS_VM, PIPE2, WRITE, READ, MADVISE, CALLS };

/* errors: 0 if the call is made, otherwise its errno value; made: the number of calls */
static atomic_int errors[CALLS];
static atomic_uint made[CALLS];

static bool
fails(enum call call)
{
	const int error = errors[call];
	made[call]++;
	if (error)
		errno = error;
	return error != 0;
}

static void
fail_no_more(void)
{
	for (enum call call = 0; call < CALLS; call++)
		errors[call] = 0;
}

#define WRAP(call, type, name, params, args) \
	type __real_##name params; \
	type __wrap_##name params; \
	type __wrap_##name params \
	{ \
		return fails(call) ? -1 : __real_##name args; \
	}

WRAP(PROCESS_VM, ssize_t, process_vm_readv,
	(pid_t pid, const struct iovec *local, unsigned long locals, const struct iovec *remote,
		unsigned long remotes, unsigned long flags),
	(pid, local, locals, remote, remotes, flags))
WRAP(PROCESS_VM, ssize_t, process_vm_writev,
	(pid_t pid, const struct iovec *local, unsigned long locals, const struct iovec *remote,
		unsigned long remotes, unsigned long flags),
	(pid, local, locals, remote, remotes, flags))
WRAP(PIPE2, int, pipe2, (int ends[2], int flags), (ends, flags))
WRAP(WRITE, ssize_t, write, (int fd, const void *buf, size_t len), (fd, buf, len))
WRAP(READ, ssize_t, read, (int fd, void *buf, size_t len), (fd, buf, len))
WRAP(MADVISE, int, madvise, (void *addr, size_t len, int advice), (addr, len, advice))

/* the mapping is longer than the file */
static int file;
static uint8_t *map, *end;
static uint8_t here[LENGTH], back[LENGTH + 1];

static int
setup(void **state)
{
	(void)state;
	fail_no_more();
	file = memfd_create("test", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, LENGTH) != 0)
		return -1;
	map = mmap(NULL, 2 * LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (map == MAP_FAILED)
		return -1;
	/* LENGTH is a multiple of the page size */
	end = map + LENGTH;
	for (size_t i = 0; i < LENGTH; i++)
		here[i] = (uint8_t)(i * 7 + i / 251 + 1);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	fail_no_more();
	softrdma_copy_close();
	munmap(map, 2 * LENGTH);
	return close(file);
}

/* lengths up to the end of the file, and one byte beyond it */
static void
copies(void)
{
	static const size_t lengths[] = { 0, 1, 8, 63, PAGE, 64 * 1024, 64 * 1024 + 1, LENGTH - 1 };
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const size_t len = lengths[i];
		memset(map, 0, LENGTH);
		memset(back, 0, sizeof(back));
		assert_int_equal(softrdma_copy_to(end - len, here, len), 0);
		assert_memory_equal(end - len, here, len);
		assert_int_equal(end[-(ptrdiff_t)len - 1], 0);
		assert_int_equal(softrdma_copy_from(back, end - len, len), 0);
		assert_memory_equal(back, here, len);
		assert_int_equal(back[len], 0);
		assert_int_equal(softrdma_copy_to(end - len, here, len + 1), EFAULT);
		assert_int_equal(softrdma_copy_from(back, end - len, len + 1), EFAULT);
	}
}

static void
test_at_once(void **state)
{
	(void)state;
	int fds = count_fds();
	made[PIPE2] = 0;
	copies();
	assert_int_equal(made[PIPE2], 0);
	assert_int_equal(count_fds(), fds);
}

/* the pipe is kept, and a failed copy leaves no bytes in it */
static void
test_by_pipe(void **state)
{
	(void)state;
	static const int refusals[] = { EPERM, ENOSYS, EACCES, ENOMEM };
	int fds = count_fds();
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		errors[PROCESS_VM] = refusals[i];
		copies();
		assert_int_equal(softrdma_copy_to(map, here, 8), 0);
		made[PIPE2] = 0;
		for (int j = 0; j < 10; j++)
			assert_int_equal(softrdma_copy_to(map, here, 8), 0);
		assert_int_equal(made[PIPE2], 0);
		assert_int_equal(count_fds(), fds + 2);
		softrdma_copy_close();
		softrdma_copy_close();
		assert_int_equal(count_fds(), fds);
	}
}

/* if neither way works no byte is touched; the copy works as soon as one way does */
static void
test_no_way(void **state)
{
	(void)state;
	static const enum call calls[] = { PIPE2, WRITE, READ };
	int fds = count_fds();
	errors[PROCESS_VM] = EPERM;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		memset(map, 0, PAGE);
		memset(back, 0, PAGE);
		errors[calls[i]] = EMFILE;
		assert_int_equal(softrdma_copy_to(map, here, PAGE), EFAULT);
		assert_int_equal(softrdma_copy_from(back, here, PAGE), EFAULT);
		errors[calls[i]] = 0;
		assert_int_equal(map[0] | map[PAGE - 1] | back[0] | back[PAGE - 1], 0);
		assert_int_equal(count_fds(), fds);
		assert_int_equal(softrdma_copy_to(map, here, PAGE), 0);
		assert_memory_equal(map, here, PAGE);
		softrdma_copy_close();
	}
}

/* a child has its own pipe: its parent's pipe may hold data of a copy in progress */
static void
test_forked(void **state)
{
	(void)state;
	errors[PROCESS_VM] = EPERM;
	assert_int_equal(softrdma_copy_to(map, here, 8), 0);
	made[PIPE2] = 0;
	int fds = count_fds();
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(softrdma_copy_to(map + 8, here + 8, 8) || made[PIPE2] != 1 || count_fds() != fds);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(softrdma_copy_to(map + 16, here + 16, 8), 0);
	assert_int_equal(made[PIPE2], 0);
	assert_memory_equal(map, here, 24);
}

/* several threads share the pipe, and each gets its own bytes */
static void *
copy_often(void *arg)
{
	const size_t at = *(const size_t *)arg;
	uint8_t bytes[PAGE];
	for (int i = 0; i < 500; i++) {
		bool copied = softrdma_copy_to(map + at, here + at, PAGE) == 0 &&
			softrdma_copy_from(bytes, map + at, PAGE) == 0 &&
			memcmp(bytes, here + at, PAGE) == 0 && softrdma_copy_to(end, here, 1) == EFAULT;
		if (!copied)
			return arg;
	}
	return NULL;
}

static void
test_threads(void **state)
{
	(void)state;
	pthread_t threads[4];
	size_t places[4];
	errors[PROCESS_VM] = EPERM;
	for (size_t i = 0; i < 4; i++) {
		places[i] = i * PAGE;
		assert_int_equal(pthread_create(&threads[i], NULL, copy_often, &places[i]), 0);
	}
	for (size_t i = 0; i < 4; i++) {
		void *failed;
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
}

static void
test_populate(void **state)
{
	(void)state;
	/* holes of the file are allocated, even if the range covers two pages only in part */
	assert_int_equal(softrdma_copy_populate(map + PAGE - 8, 8), 0);
	assert_int_equal(softrdma_copy_populate(end - PAGE - 8, 16), 0);
	assert_int_equal(softrdma_copy_populate(end - 8, 16), EFAULT);
	assert_int_equal(softrdma_copy_populate(end, 8), EFAULT);
	unsigned char in_core[LENGTH / 4096];
	assert_int_equal(mincore(map, LENGTH, in_core), 0);
	for (size_t i = 0; i < sizeof(in_core); i++)
		assert_int_equal(in_core[i] & 1, i == 0 || i + 2 >= sizeof(in_core));
	assert_int_equal(munmap(map + LENGTH, LENGTH), 0);
	assert_int_equal(softrdma_copy_populate(end, 8), EFAULT);

	static const struct {
		int error, result;
	} errors_of[] = {
		{ EINVAL, EOPNOTSUPP },
		{ ENOSYS, EOPNOTSUPP },
		{ EPERM, EOPNOTSUPP },
		{ EFAULT, EFAULT },
		{ ENOMEM, EFAULT },
		{ EHWPOISON, EFAULT },
	};
	for (size_t i = 0; i < sizeof(errors_of) / sizeof(errors_of[0]); i++) {
		errors[MADVISE] = errors_of[i].error;
		assert_int_equal(softrdma_copy_populate(map, 8), errors_of[i].result);
	}
}

static void
test_is_there(void **state)
{
	(void)state;
	for (size_t i = 0; i < 16; i++) {
		assert_true(softrdma_copy_is_there(end - 1 - i));
		assert_false(softrdma_copy_is_there(end + i));
	}
}

/* the pages of a piece of anonymous memory */
enum { PRESENT, UNTOUCHED, READ_ONLY, NO_ACCESS, UNMAPPED, PAGE_KINDS };

static uint8_t *
new_pages(void)
{
	uint8_t *pages =
		mmap(NULL, PAGE_KINDS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(pages, MAP_FAILED);
	memset(pages, 1, PAGE);
	memset(pages + 2 * PAGE, 2, 3 * PAGE);
	assert_int_equal(mprotect(pages + READ_ONLY * PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(mprotect(pages + NO_ACCESS * PAGE, PAGE, PROT_NONE), 0);
	assert_int_equal(munmap(pages + UNMAPPED * PAGE, PAGE), 0);
	return pages;
}

static void
test_is_writable(void **state)
{
	(void)state;
	uint8_t *pages = new_pages();
	static const size_t offsets[] = { 0, 1, 5, 63, PAGE - 4, PAGE - 1 };
	for (size_t page = 0; page < PAGE_KINDS; page++) {
		for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
			uint8_t *at = pages + page * PAGE + offsets[i];
			assert_int_equal(softrdma_copy_is_there(at), page <= READ_ONLY);
			assert_int_equal(softrdma_copy_is_writable(at), page <= UNTOUCHED);
		}
	}
	for (size_t i = 0; i < PAGE; i++)
		assert_int_equal(pages[i], 1);
	munmap(pages, NO_ACCESS * PAGE + PAGE);
	/* a file: a hole gets a page, but the end of the file is the end */
	for (size_t i = 0; i < 16; i++) {
		assert_true(softrdma_copy_is_writable(end - 1 - i));
		assert_false(softrdma_copy_is_writable(end + i));
	}
}

/* ranges from a page to a later one, which begin and end inside them; few pages are asked one by one, more at once */
static void
test_check_ranges(void **state)
{
	(void)state;
	for (int can_populate = 0; can_populate < 2; can_populate++) {
		uint8_t *pages = new_pages();
		errors[MADVISE] = can_populate ? 0 : EINVAL;
		for (size_t from = 0; from < PAGE_KINDS; from++) {
			for (size_t to = from; to < PAGE_KINDS; to++) {
				uint8_t *start = pages + from * PAGE + 100;
				const size_t len = (to - from) * PAGE + 8;
				assert_int_equal(softrdma_copy_check_loads(start, len),
					to <= READ_ONLY ? 0 : EFAULT);
				assert_int_equal(softrdma_copy_check_stores(start, len, NULL),
					to <= UNTOUCHED ? 0 : EFAULT);
			}
		}
		/* the last byte alone is in a page that is not there */
		assert_int_equal(softrdma_copy_check_loads(pages + NO_ACCESS * PAGE - 8, 8), 0);
		assert_int_equal(softrdma_copy_check_loads(pages + NO_ACCESS * PAGE - 8, 9), EFAULT);
		assert_int_equal(softrdma_copy_check_stores(pages + READ_ONLY * PAGE - 8, 8, NULL), 0);
		assert_int_equal(softrdma_copy_check_stores(pages + READ_ONLY * PAGE - 8, 9, NULL), EFAULT);
		/* only the ends: what is in between does not matter */
		assert_int_equal(softrdma_copy_check_ends(pages, PAGE), 0);
		assert_int_equal(softrdma_copy_check_ends(pages, NO_ACCESS * PAGE + 1), EFAULT);
		assert_int_equal(mprotect(pages + UNTOUCHED * PAGE, PAGE, PROT_NONE), 0);
		assert_int_equal(softrdma_copy_check_ends(pages, NO_ACCESS * PAGE), 0);
		munmap(pages, UNMAPPED * PAGE);
		errors[MADVISE] = 0;
	}
}

/* a page that is known is not asked about again, and one that is not writable does not become known */
static void
test_known_pages(void **state)
{
	(void)state;
	uint8_t *pages = new_pages();
	struct softrdma_pages known;
	softrdma_pages_forget(&known);
	assert_int_equal(softrdma_copy_check_stores(pages + 3, 8, &known), 0);
	assert_int_equal(softrdma_copy_check_stores(pages + READ_ONLY * PAGE, 8, &known), EFAULT);
	assert_int_equal(softrdma_copy_check_stores(pages + READ_ONLY * PAGE, 8, &known), EFAULT);
	assert_int_equal(mprotect(pages, PAGE, PROT_READ), 0);
	assert_int_equal(softrdma_copy_check_stores(pages + 200, 8, &known), 0);
	assert_int_equal(softrdma_copy_check_stores(pages + 200, PAGE, &known), 0);
	softrdma_pages_forget(&known);
	assert_int_equal(softrdma_copy_check_stores(pages + 200, 8, &known), EFAULT);
	munmap(pages, UNMAPPED * PAGE);

	/* far more pages than are known at a time: each is looked at, none is taken for another one */
	const size_t count = 8 * SOFTRDMA_PAGES_KNOWN;
	pages = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < count; i += 3)
		assert_int_equal(mprotect(pages + i * PAGE, PAGE, PROT_READ), 0);
	for (size_t i = 0; i < 4 * count; i++)
		assert_int_equal(softrdma_copy_check_stores(pages + i * 5 % count * PAGE, 8, &known),
			i * 5 % count % 3 ? 0 : EFAULT);
	munmap(pages, count * PAGE);
}

static void *
store_often(void *arg)
{
	volatile uint8_t *bytes = arg;
	for (unsigned i = 0; i < 200000; i++) {
		bytes[i % 4]++;
		if (bytes[i % 4] != (uint8_t)(i / 4 + 1))
			return arg;
	}
	return NULL;
}

/* nothing that another thread stores is lost, though the kernel adds 0 to the same word meanwhile */
static void
test_questions_lose_no_store(void **state)
{
	(void)state;
	uint32_t word = 0;
	pthread_t thread;
	void *failed;
	assert_int_equal(pthread_create(&thread, NULL, store_often, &word), 0);
	while (pthread_tryjoin_np(thread, &failed) != 0)
		assert_true(softrdma_copy_is_writable(&word));
	assert_null(failed);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(((uint8_t *)&word)[i], (uint8_t)(200000 / 4));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_at_once),
		TEST(test_by_pipe),
		TEST(test_no_way),
		TEST(test_forked),
		TEST(test_threads),
		TEST(test_populate),
		TEST(test_is_there),
		TEST(test_is_writable),
		TEST(test_check_ranges),
		TEST(test_known_pages),
		TEST(test_questions_lose_no_store),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
