/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_persist_dax.c -- durability of memory on DAX: its function of libpmem2, and what happens without one */

#include "mapped_file.h"

#include "softrdma/persist/persist_dax.h"

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

static void
test_dax(void **state)
{
	(void)state;
	static char mem[100000];
	if (softrdma_dax_init("a file") == EOPNOTSUPP)
		skip();
	assert_int_equal(softrdma_dax_init("a file"), 0);
	memset(mem, 1, sizeof(mem));
	softrdma_dax_flush(mem + 3, sizeof(mem) - 5);
	softrdma_dax_flush(mem, 1);
	assert_int_equal(mem[50000], 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_no_persist_function),
		device_test(test_dax),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
