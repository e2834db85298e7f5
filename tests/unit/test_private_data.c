/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_private_data.c -- copies of private data */

#include "mock.h"
#include "private_data.h"

static void
copies(void **state)
{
	(void)state;
	uint8_t bytes[255];
	for (int len = 0; len <= 255; len++) {
		struct rpma_conn_private_data pdata = { bytes, 9 };
		memset(bytes, len, sizeof(bytes));
		assert_ok(rpmai_private_data_copy(bytes, (uint8_t)len, &pdata));
		assert_int_equal(pdata.len, len);
		assert_int_equal(pdata.ptr == NULL, len == 0);
		assert_ptr_not_equal(pdata.ptr, bytes);
		if (len)
			assert_memory_equal(pdata.ptr, bytes, (size_t)len);
		rpmai_private_data_free(&pdata);
		assert_null(pdata.ptr);
		assert_int_equal(pdata.len, 0);
	}
}

static void
nothing(void **state)
{
	(void)state;
	struct rpma_conn_private_data pdata = { NULL, 9 };
	assert_ok(rpmai_private_data_copy(NULL, 5, &pdata));
	assert_null(pdata.ptr);
	assert_int_equal(pdata.len, 0);
}

static void
no_memory(void **state)
{
	(void)state;
	struct rpma_conn_private_data pdata = { NULL, 0 };
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpmai_private_data_copy("x", 1, &pdata));
	assert_null(pdata.ptr);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { rpma_test(copies), rpma_test(nothing), rpma_test(no_memory) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
