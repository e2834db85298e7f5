/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_info.c -- addresses resolved for a device */

#include <errno.h>
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

	/* not "Servname not supported for ai_socktype" */
	mock.fail_getaddrinfo = EAI_SERVICE;
	assert_false(rpmai_info_get(&mock_rdma, "192.0.2.1", "nonsense", INFO_ACTIVE, &rai, reason));
	assert_string_equal(reason,
		"port \"nonsense\" is neither a number from 0 to 65535 nor the name of a service");
	assert_false(rpmai_info_get(&mock_rdma, "192.0.2.1", NULL, INFO_ACTIVE, &rai, reason));
	assert_non_null(strstr(reason, "rdma_getaddrinfo() failed"));
	assert_null(rai);
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], 0);
}

/* getaddrinfo() would take the lowest 16 bits */
static void
ports(void **state)
{
	(void)state;
	static const struct {
		const char *port;
		bool good;
	} cases[] = { { "0", true }, { "65535", true }, { "65536", false }, { "99999", false },
		{ "-1", false }, { "99999999999999999999", false } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rdma_addrinfo *rai = NULL;
		char reason[INFO_REASON_MAX];
		assert_int_equal(
			rpmai_info_get(&mock_rdma, "192.0.2.1", cases[i].port, INFO_PASSIVE, &rai, reason),
			cases[i].good);
		if (cases[i].good)
			mock_rdma.freeaddrinfo(rai);
		else
			assert_non_null(strstr(reason, cases[i].port));
	}
}

static void
ways_out(void **state)
{
	(void)state;
	const int known[] = { EADDRINUSE, EADDRNOTAVAIL, ENODEV, EACCES, EHOSTUNREACH, ENETUNREACH };
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		assert_non_null(rpmai_info_way_out(known[i]));
	assert_null(rpmai_info_way_out(EMFILE)); /* err.c knows that one */

	/* only the software device has written the reason to the log */
	struct rdma_api soft = mock_rdma;
	soft.is_soft = true;
	const int of_settings[] = { EINVAL, ENOENT, EACCES, EOPNOTSUPP };
	for (size_t i = 0; i < sizeof(of_settings) / sizeof(of_settings[0]); i++) {
		assert_non_null(rpmai_info_way_out_of_start(&soft, of_settings[i]));
		assert_null(rpmai_info_way_out_of_start(&mock_rdma, of_settings[i]));
	}
	assert_non_null(rpmai_info_way_out_of_start(&mock_rdma, EADDRINUSE));
	assert_null(rpmai_info_way_out_of_start(&soft, EMFILE));
}

int
main(void)
{
	const struct CMUnitTest tests[] = { rpma_test(sides), rpma_test(reasons), rpma_test(ports),
		rpma_test(ways_out) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
