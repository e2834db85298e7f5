/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_err.c -- texts of errors, and that an error says itself once */

#include "err.h"
#include "mock.h"

static void
texts(void **state)
{
	(void)state;
	static const struct {
		int ret;
		const char *text;
	} table[] = {
		{ 0, "Success" },
		{ RPMA_E_UNKNOWN, "Unknown error" },
		{ RPMA_E_NOSUPP, "Not supported" },
		{ RPMA_E_PROVIDER, "Provider error occurred" },
		{ RPMA_E_NOMEM, "Out of memory" },
		{ RPMA_E_INVAL, "Invalid argument" },
		{ RPMA_E_NO_COMPLETION, "No next completion available" },
		{ RPMA_E_NO_EVENT, "No next event available" },
		{ RPMA_E_AGAIN, "Temporary error, try again" },
		{ RPMA_E_SHARED_CHANNEL, "Completion channel is shared" },
		{ RPMA_E_NOT_SHARED_CHNL, "Completion channel is not shared" },
		{ 1, "Unknown error" },
		{ -1, "Unknown error" },
		{ -100010, "Unknown error" },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		assert_string_equal(rpma_err_2str(table[i].ret), table[i].text);
}

static void
a_failure_is_logged_once(void **state)
{
	(void)state;
	assert_fails(RPMA_E_INVAL, RPMAI_FAIL(RPMA_E_INVAL, "%d of %s", 3, "them"));
	assert_string_equal(mock.last_log, "3 of them\n");

	assert_fails(RPMA_E_PROVIDER, RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, ENOENT, NULL, "call(%d)", 1));
	assert_string_equal(mock.last_log, "call(1) failed: No such file or directory\n");

	assert_fails(RPMA_E_PROVIDER, RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, ENOENT, "make one", "call()"));
	assert_string_equal(mock.last_log, "call() failed: No such file or directory: make one\n");
}

static void
the_first_error_is_kept(void **state)
{
	(void)state;
	assert_int_equal(rpmai_first_error(0, 0), 0);
	assert_int_equal(rpmai_first_error(0, -2), -2);
	assert_int_equal(rpmai_first_error(-1, -2), -1);
	assert_int_equal(rpmai_first_error(-1, 0), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(texts),
		rpma_test(a_failure_is_logged_once),
		rpma_test(the_first_error_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
