/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_persist_msync.c -- pages that the kernel writes to a medium */

#include "mapped_file.h"

#include "softrdma/persist/persist_file.h"
#include "softrdma/persist/persist_msync.h"

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

/* a range may begin and end within pages; if a page of it is not mapped, or the medium fails, it is not durable */
static void
test_ranges(void **state)
{
	(void)state;
	char path[32];
	void *mem;
	int fd = named_file(path, &mem);
	assert_int_equal(ftruncate(fd, (off_t)(3 * PAGE)), 0);
	munmap(mem, PAGE);
	uint8_t *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(pages, MAP_FAILED);
	memset(pages, 'x', 3 * PAGE);
	assert_int_equal(softrdma_msync(pages, 3 * PAGE), 0);
	assert_int_equal(softrdma_msync(pages + 1, 1), 0);
	assert_int_equal(softrdma_msync(pages + PAGE - 1, 2), 0);
	fail_call(FAIL_MINE, "msync", 0, 1, EIO);
	assert_int_equal(softrdma_msync(pages, 1), EIO);
	assert_int_equal(fail_nothing(), 1);

	munmap(pages + PAGE, PAGE);
	assert_int_equal(softrdma_msync(pages, PAGE), 0);
	assert_int_equal(softrdma_msync(pages + 2 * PAGE, 1), 0);
	assert_int_equal(softrdma_msync(pages, PAGE + 1), ENOMEM);
	assert_int_equal(softrdma_msync(pages + PAGE - 1, 2), ENOMEM);
	assert_int_equal(softrdma_msync(pages, 3 * PAGE), ENOMEM);
	munmap(pages, PAGE);
	munmap(pages + 2 * PAGE, PAGE);
	close(fd);
	unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_interrupted_msync),
		device_test(test_ranges),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
