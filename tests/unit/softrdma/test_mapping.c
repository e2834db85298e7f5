/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_mapping.c -- what the kernel reports about mapped areas, by its query and by its text */

#include "connected.h"

#include <sys/mman.h>

#include "softrdma/persist/mapping.h"

#define PAGE ((size_t)4096)

struct seen {
	unsigned count;
	struct softrdma_area area[8];
	char name[8][64];
	int stop_with;
};

static int
note(const struct softrdma_area *area, const char *name, void *arg)
{
	struct seen *seen = arg;
	if (seen->count < 8) {
		seen->area[seen->count] = *area;
		snprintf(seen->name[seen->count], sizeof(seen->name[0]), "%s", name);
	}
	seen->count++;
	return seen->stop_with;
}

/* NULL opens the text for each call */
static struct softrdma_maps *
open_way(int way)
{
	struct softrdma_maps *maps = way ? softrdma_maps_open() : NULL;
	assert_true(!way || maps);
	return maps;
}

/* three pages of a file, the middle one read-only; then a hole */
static void
test_areas(void **state)
{
	(void)state;
	int file = memfd_create("areas", MFD_CLOEXEC);
	assert_int_equal(ftruncate(file, 4 * PAGE), 0);
	uint8_t *mem = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	assert_ptr_not_equal(mem, MAP_FAILED);
	munmap(mem + 3 * PAGE, PAGE);
	mprotect(mem + PAGE, PAGE, PROT_READ);
	uintptr_t start = (uintptr_t)mem, end = start + 3 * PAGE;
	for (int way = 0; way < 2; way++) {
		struct softrdma_maps *maps = open_way(way);
		struct seen seen = { 0 };
		assert_int_equal(softrdma_mapping_each(maps, start + 1, end - 1, true, note, &seen), 0);
		assert_int_equal(seen.count, 3);
		for (unsigned i = 0; i < 3; i++) {
			assert_int_equal(seen.area[i].start, start + i * PAGE);
			assert_int_equal(seen.area[i].end, start + (i + 1) * PAGE);
			assert_int_equal(seen.area[i].offset, i * PAGE);
			assert_true(seen.area[i].readable && seen.area[i].shared && seen.area[i].inode != 0);
			assert_int_equal(seen.area[i].writable, i != 1);
			assert_string_equal(seen.name[i], "/memfd:areas (deleted)");
		}
		seen = (struct seen){ 0 };
		assert_int_equal(softrdma_mapping_each(maps, end - 1, end + 1, false, note, &seen), EFAULT);
		assert_int_equal(seen.count, 1);
		seen = (struct seen){ .stop_with = 42 };
		assert_int_equal(softrdma_mapping_each(maps, start, end, false, note, &seen), 42);
		assert_int_equal(seen.count, 1);
		/* there is nothing at the very end of the address space */
		assert_int_equal(
			softrdma_mapping_each(maps, UINTPTR_MAX - PAGE, UINTPTR_MAX - 1, false, note, &seen),
			EFAULT);
		softrdma_maps_close(maps);
	}
	munmap(mem, 3 * PAGE);
	close(file);
}

/* memory without a file has no name; a query must not keep the name that an earlier one returned */
static void
test_nameless(void **state)
{
	(void)state;
	uint8_t *mem = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int file = memfd_create("first", MFD_CLOEXEC);
	assert_int_equal(ftruncate(file, PAGE), 0);
	assert_ptr_equal(mmap(mem, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0), mem);
	for (int way = 0; way < 2; way++) {
		struct softrdma_maps *maps = open_way(way);
		struct seen seen = { 0 };
		assert_int_equal(softrdma_mapping_each(maps, (uintptr_t)mem, (uintptr_t)mem + PAGE + 1, true,
					 note, &seen),
			0);
		assert_int_equal(seen.count, 2);
		assert_string_equal(seen.name[0], "/memfd:first (deleted)");
		assert_string_equal(seen.name[1], "");
		assert_int_equal(seen.area[1].inode, 0);
		assert_false(seen.area[1].shared);
		softrdma_maps_close(maps);
	}
	munmap(mem, 2 * PAGE);
	close(file);
}

/* an emulator's list is a copy of the moment when it was opened, so it is opened again for each look */
static void
test_copy(void **state)
{
	(void)state;
	struct seen seen = { 0 };
	fail_call(FAIL_MINE, "fstatfs", 0, 1, EIO);
	struct softrdma_maps *maps = softrdma_maps_open();
	assert_int_equal(fail_nothing(), 1);
	assert_non_null(maps);
	uint8_t *mem = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t start = (uintptr_t)mem;
	assert_int_equal(softrdma_mapping_each(maps, start, start + PAGE, true, note, &seen), 0);
	assert_int_equal(seen.count, 1);
	static const int now[] = { EMFILE, ENFILE, ENOMEM };
	for (size_t i = 0; i < sizeof(now) / sizeof(now[0]); i++) {
		fail_call(FAIL_MINE, "fopen", 0, 1, now[i]);
		assert_int_equal(softrdma_mapping_each(maps, start, start + PAGE, false, note, &seen),
			now[i]);
		assert_int_equal(fail_nothing(), 1);
	}
	fail_call(FAIL_MINE, "fopen", 0, 1, EACCES);
	assert_int_equal(softrdma_mapping_each(maps, start, start + PAGE, false, note, &seen), EACCES);
	fail_nothing();
	munmap(mem, PAGE);
	assert_int_equal(softrdma_mapping_each(maps, start, start + PAGE, false, note, &seen), EFAULT);
	assert_int_equal(seen.count, 1);
	softrdma_maps_close(maps);
}

static void
test_no_proc(void **state)
{
	(void)state;
	struct seen seen = { 0 };
	uintptr_t start = (uintptr_t)the_mem;
	fail_call(FAIL_MINE, "fopen", 0, FAIL_FOR_EVER, EACCES);
	assert_int_equal(softrdma_mapping_each(NULL, start, start + 1, false, note, &seen), EACCES);
	assert_false(softrdma_mapping_is_sync(start));
	assert_null(softrdma_maps_open());
	assert_int_equal(errno, EACCES);
	fail_call(FAIL_MINE, "malloc", 0, 1, ENOMEM);
	assert_null(softrdma_maps_open());
	fail_nothing();
	assert_int_equal(seen.count, 0);
}

/* the text may end early, or have invalid lines */
static void
test_odd_text(void **state)
{
	(void)state;
	struct seen seen = { 0 };
	uintptr_t start = (uintptr_t)the_mem & ~(PAGE - 1);
	char text[512];
	snprintf(text, sizeof(text), "what is this?\n%lx-%lx rw-s 0 0:1 7 /a\\012b\\0\n", start,
		start + PAGE);
	fail_file(text);
	assert_int_equal(softrdma_mapping_each(NULL, start, start + 1, true, note, &seen), 0);
	assert_string_equal(seen.name[0], "/a\nb\\0");
	fail_file(text);
	assert_int_equal(softrdma_mapping_each(NULL, start, start + 2 * PAGE, true, note, &seen), EFAULT);

	static const struct {
		const char *format;
		bool sync;
	} smaps[] = {
		{ "%lx-%lx rw-s 0 0:1 7\nSize: 4 kB\nVmFlags: rd wr sf \n", true },
		{ "%lx-%lx rw-s 0 0:1 7\nVmFlags: rd wr sh\n", false },
		{ "1-2 rw-s 0 0:1 7\nVmFlags: rd sf\n%lx-%lx rw-s 0 0:1 7\n2-3 rw-s 0 0:1 7\nVmFlags: sf\n",
			false },
		{ "1-2 rw-s 0 0:1 7\nVmFlags: rd sf\n", false },
		{ "", false },
	};
	for (size_t i = 0; i < sizeof(smaps) / sizeof(smaps[0]); i++) {
		/* the format is one of the constants above */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(text, sizeof(text), smaps[i].format, start, start + PAGE);
#pragma GCC diagnostic pop
		fail_file(text);
		assert_int_equal(softrdma_mapping_is_sync(start), smaps[i].sync);
	}
	assert_false(softrdma_mapping_is_sync((uintptr_t)the_mem)); /* the real text */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_areas),
		device_test(test_nameless),
		device_test(test_copy),
		device_test(test_no_proc),
		device_test(test_odd_text),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
