/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_tls_none.c -- a build without OpenSSL refuses connections that are meant to use TLS, and never makes plain ones */

#include "connected.h"

#include <sys/stat.h>

#include "softrdma/wire/credentials.h"

static const char *const variables[] = {
	"SOFTRDMA_TLS_CERT",
	"SOFTRDMA_TLS_KEY",
	"SOFTRDMA_TLS_CA",
	"SOFTRDMA_TLS_PSK",
};

/* the files are there and may be read, so that only the missing OpenSSL is a reason */
static void
use_files(bool certificates, bool psk)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		FILE *file = fopen(variables[i], "we");
		assert_non_null(file);
		fputs("node:000102030405060708090a0b0c0d0e0f\n", file);
		fclose(file);
		assert_int_equal(chmod(variables[i], 0600), 0);
		if (i == 3 ? psk : certificates)
			setenv(variables[i], variables[i], 1);
		else
			unsetenv(variables[i]);
	}
}

static int
remove_files(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		unlink(variables[i]);
		unsetenv(variables[i]);
	}
	return 0;
}

/* each time, not only the first */
static void
expect_refused(void)
{
	for (int i = 0; i < 2; i++) {
		struct softrdma_credentials *credentials = NULL;
		log_clear();
		assert_int_equal(softrdma_credentials_of_environment(&credentials), EOPNOTSUPP);
		assert_null(credentials);
		assert_true(log_has("built without OpenSSL"));
		assert_int_equal(log_worst, SOFTRDMA_LOG_ERROR);
	}
}

static void
test_certificates(void **state)
{
	(void)state;
	use_files(true, false);
	expect_refused();
}

static void
test_psk(void **state)
{
	(void)state;
	use_files(false, true);
	expect_refused();
}

/* an endpoint that is meant to use TLS does not listen */
static void
test_endpoints(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	struct sockaddr_in here = loopback(0);
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&here), 0);
	use_files(false, true);
	log_clear();
	assert_int_equal(softrdma_rdma_listen(id, 1), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_true(log_has("built without OpenSSL"));

	/* the same call without the variables listens */
	remove_files(NULL);
	assert_int_equal(softrdma_rdma_listen(id, 1), 0);
	assert_int_equal(softrdma_rdma_destroy_id(id), 0);
	softrdma_rdma_destroy_event_channel(channel);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_certificates, remove_files),
		cmocka_unit_test_teardown(test_psk, remove_files),
		cmocka_unit_test_teardown(test_endpoints, remove_files),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
