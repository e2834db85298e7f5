/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_device_file.c -- stat(), stat64() and access() of the device's file, and of any other */

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void
test_device(void **state)
{
	(void)state;
	static const char path[] = "/dev/infiniband/softrdma0";
	struct stat status;
	struct stat64 status64;
	assert_int_equal(stat(path, &status), 0);
	assert_true(S_ISCHR(status.st_mode));
	assert_int_equal(stat64(path, &status64), 0);
	assert_true(S_ISCHR(status64.st_mode));
	assert_int_equal(access(path, R_OK | W_OK), 0);
	assert_int_equal(open(path, O_RDWR | O_CLOEXEC), -1); /* it is not there */
}

static void
test_others(void **state)
{
	(void)state;
	static const char *const missing[] = { "/dev/infiniband/softrdma", "/dev/infiniband/softrdma00",
		"/dev/infiniband/", "infiniband/softrdma0", "", "/nowhere" };
	struct stat status, expected;
	struct stat64 status64;
	for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
		if (lstat(missing[i], &expected) == 0)
			continue; /* a machine that has RDMA devices */
		assert_int_equal(stat(missing[i], &status), -1);
		assert_int_equal(errno, ENOENT);
		assert_int_equal(stat64(missing[i], &status64), -1);
		assert_int_equal(errno, ENOENT);
		assert_int_equal(access(missing[i], F_OK), -1);
		assert_int_equal(errno, ENOENT);
	}
	assert_int_equal(lstat("/", &expected), 0);
	assert_int_equal(stat("/", &status), 0);
	assert_true(status.st_ino == expected.st_ino && status.st_dev == expected.st_dev);
	assert_int_equal(access("/", X_OK), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_device),
		cmocka_unit_test(test_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
