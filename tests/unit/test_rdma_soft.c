/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_rdma_soft.c -- the table of the software device is complete, except one intended omission */

#include "mock.h"

static void
it_is_complete(void **state)
{
	(void)state;
	const struct rdma_api *soft = rpmai_rdma_soft();
	const size_t first = offsetof(struct rdma_api, getaddrinfo);
	for (size_t pos = first; pos < sizeof(struct rdma_api); pos += sizeof(void (*)(void))) {
		void (*function)(void);
		memcpy(&function, (const char *)soft + pos, sizeof(function));
		const bool absent = pos == offsetof(struct rdma_api, get_devices) ||
			pos == offsetof(struct rdma_api, free_devices);
		assert_int_equal(function == NULL, absent);
	}
	assert_true(soft->is_soft);
	assert_false(soft->read_flushes);
	assert_int_equal(soft->connect_data_max, 255);
	assert_int_equal(soft->accept_data_max, 255);
}

static void
a_foreign_context_is_of_rdma_core(void **state)
{
	(void)state;
	assert_ptr_equal(rpmai_rdma_api_of(&mock.ctx), &rpmai_rdma_core);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(it_is_complete),
		rpma_test(a_foreign_context_is_of_rdma_core),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
