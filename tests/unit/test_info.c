/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_info.c -- addresses resolved for a device */

#include <netdb.h>
#include <netinet/in.h>

#include "info.h"
#include "mock.h"

static void
sides(void **state)
{
	(void)state;
	struct rdma_addrinfo *rai = NULL;
	char reason[INFO_REASON_MAX];
	assert_true(rpmai_info_get(&mock_rdma, "192.0.2.1", "7204", INFO_ACTIVE, &rai, reason));
	assert_non_null(rai->ai_dst_addr);
	assert_int_equal(((struct sockaddr_in *)rai->ai_dst_addr)->sin_port, htons(7204));
	mock_rdma.freeaddrinfo(rai);
	assert_true(rpmai_info_get(&mock_rdma, "192.0.2.1", NULL, INFO_PASSIVE, &rai, reason));
	assert_non_null(rai->ai_src_addr);
	mock_rdma.freeaddrinfo(rai);
}

static void
reasons(void **state)
{
	(void)state;
	struct rdma_addrinfo *rai = NULL;
	char reason[INFO_REASON_MAX];
	mock.fail_call = "getaddrinfo";
	mock.fail_errno = ENODEV;
	assert_false(rpmai_info_get(&mock_rdma, "192.0.2.1", NULL, INFO_ACTIVE, &rai, reason));
	assert_string_equal(reason, "rdma_getaddrinfo() failed: No such device");

	mock.fail_getaddrinfo = EAI_NONAME;
	assert_false(rpmai_info_get(&mock_rdma, "192.0.2.1", NULL, INFO_ACTIVE, &rai, reason));
	assert_string_equal(reason, "rdma_getaddrinfo() failed: Name or service not known");
	assert_null(rai);
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { rpma_test(sides), rpma_test(reasons) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
