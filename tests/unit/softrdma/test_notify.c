/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_notify.c -- descriptors that applications poll: they count, they may block, and signals end a wait */

#include "connected.h"

#include "softrdma/base/notify.h"

static void
test_counts(void **state)
{
	(void)state;
	int fd = softrdma_notify_open();
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_false(readable(fd, 0));
	softrdma_notify_raise(fd);
	softrdma_notify_raise(fd);
	softrdma_notify_take(fd);
	assert_true(readable(fd, 0));
	assert_int_equal(softrdma_notify_wait(fd), 0);
	softrdma_notify_take(fd);
	assert_false(readable(fd, 0));
	close(fd);
}

static void
test_interrupted_calls_are_made_again(void **state)
{
	(void)state;
	int fd = softrdma_notify_open();
	fail_call(FAIL_MINE, "write", 0, 2, EINTR);
	softrdma_notify_raise(fd);
	assert_int_equal(fail_nothing(), 2);
	assert_true(readable(fd, 0));
	fail_call(FAIL_MINE, "read", 0, 2, EINTR);
	softrdma_notify_take(fd);
	assert_int_equal(fail_nothing(), 2);
	assert_false(readable(fd, 0));
	close(fd);
}

static void
test_waiting_ends_early(void **state)
{
	(void)state;
	int fd = softrdma_notify_open();
	fail_call(FAIL_MINE, "poll", 0, 1, EINTR);
	assert_int_equal(softrdma_notify_wait(fd), EINTR);
	fail_nothing();
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(softrdma_notify_wait(fd), EAGAIN);
	close(fd);
	assert_int_equal(softrdma_notify_wait(fd), EBADF);
}

/* an application that closes the descriptor itself only loses its wake-ups */
static void
test_closed_by_the_application(void **state)
{
	(void)state;
	int fd = softrdma_notify_open();
	close(fd);
	softrdma_notify_raise(fd);
	softrdma_notify_take(fd);
}

static void
test_no_descriptor_left(void **state)
{
	(void)state;
	fail_call(FAIL_MINE, "eventfd", 0, 1, EMFILE);
	assert_int_equal(softrdma_notify_open(), -1);
	assert_int_equal(errno, EMFILE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_counts),
		device_test(test_interrupted_calls_are_made_again),
		device_test(test_waiting_ends_early),
		device_test(test_closed_by_the_application),
		device_test(test_no_descriptor_left),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
