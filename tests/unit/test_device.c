/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_device.c -- the device that an address belongs to */

#include <netdb.h>

#include "device.h"
#include "info.h"
#include "mock.h"

/* the software device is the same mock, with its own table, which cannot fail */
static struct rdma_api soft;
static struct ibv_context soft_ctx;
static bool soft_works;
static int soft_errno; /* if it does not work */

static int
soft_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	(void)addr;
	errno = soft_errno;
	id->verbs = &soft_ctx;
	return soft_works ? 0 : -1;
}

static int
soft_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	(void)src;
	assert_int_equal(timeout_ms, RPMA_DEFAULT_TIMEOUT_MS);
	return soft_bind_addr(id, dst);
}

static int
setup(void **state)
{
	mock_setup(state);
	soft = mock_rdma;
	soft.bind_addr = soft_bind_addr;
	soft.resolve_addr = soft_resolve_addr;
	soft.get_devices = NULL;
	soft.free_devices = NULL;
	soft_works = true;
	soft_errno = EADDRNOTAVAIL;
	return 0;
}

static void
choices(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool ok;
		enum device_choice choice;
	} table[] = {
		{ NULL, true, DEVICE_AUTO },
		{ "", true, DEVICE_AUTO },
		{ "auto", true, DEVICE_AUTO },
		{ "rdma", true, DEVICE_RDMA },
		{ "soft", true, DEVICE_SOFT },
		{ "Soft", false, DEVICE_AUTO },
		{ "software", false, DEVICE_AUTO },
		{ "soft ", false, DEVICE_AUTO },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		enum device_choice choice = DEVICE_AUTO;
		assert_int_equal(rpmai_device_parse_choice(table[i].text, &choice), table[i].ok);
		assert_int_equal(choice, table[i].choice);
	}
}

static struct ibv_context *
find(enum device_choice choice, const char *addr, enum rpma_util_ibv_context_type type)
{
	struct ibv_context *ctx = NULL;
	int ret = rpmai_device_find(&mock_rdma, &soft, choice, addr, type, &ctx);
	assert_int_equal(ret, ctx ? 0 : RPMA_E_PROVIDER);
	return ctx;
}

static void
hardware_comes_first(void **state)
{
	(void)state;
	assert_ptr_equal(find(DEVICE_AUTO, "192.0.2.1", RPMA_UTIL_IBV_CONTEXT_LOCAL), &mock.ctx);
	assert_ptr_equal(find(DEVICE_AUTO, "192.0.2.1", RPMA_UTIL_IBV_CONTEXT_REMOTE), &mock.ctx);
	assert_ptr_equal(find(DEVICE_RDMA, "192.0.2.1", RPMA_UTIL_IBV_CONTEXT_LOCAL), &mock.ctx);
	assert_ptr_equal(find(DEVICE_SOFT, "192.0.2.1", RPMA_UTIL_IBV_CONTEXT_LOCAL), &soft_ctx);
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_WARNING], 0);
}

static void
every_reason_to_fall_back_is_told_once(void **state)
{
	(void)state;
	static const char *const calls[] = { "getaddrinfo", "create_id", "bind_addr" };
	for (size_t i = 0; i < 3; i++) {
		for (int again = 0; again < 2; again++) {
			mock.fail_call = calls[i];
			mock.fail_errno = ENODEV;
			mock.fail_skip = 0;
			assert_ptr_equal(find(DEVICE_AUTO, "192.0.2.7", RPMA_UTIL_IBV_CONTEXT_LOCAL),
				&soft_ctx);
		}
		assert_non_null(strstr(mock.last_log, "192.0.2.7"));
		assert_non_null(strstr(mock.last_log, "No such device"));
		assert_non_null(strstr(mock.last_log, "RPMA_DEVICE"));
		assert_in_range(strlen(mock.last_log), 1, 130);
		assert_int_equal(mock.logged[RPMA_LOG_LEVEL_WARNING], i + 1);
		assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], 0);
	}

	mock.fail_call = NULL;
	mock.no_verbs = true;
	assert_ptr_equal(find(DEVICE_AUTO, "192.0.2.7", RPMA_UTIL_IBV_CONTEXT_REMOTE), &soft_ctx);
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_WARNING], 4);
}

static void
a_choice_is_kept(void **state)
{
	(void)state;
	mock.no_verbs = true;
	assert_null(find(DEVICE_RDMA, "192.0.2.1", RPMA_UTIL_IBV_CONTEXT_LOCAL));
	assert_non_null(strstr(mock.last_log, "RPMA_DEVICE=rdma"));
	soft_works = false;
	assert_null(find(DEVICE_SOFT, "192.0.2.1", RPMA_UTIL_IBV_CONTEXT_REMOTE));
	assert_non_null(strstr(mock.last_log, "check the name and the route"));
	assert_null(find(DEVICE_AUTO, "192.0.2.1", RPMA_UTIL_IBV_CONTEXT_LOCAL));
	assert_non_null(strstr(mock.last_log, "nor the software device"));
	assert_non_null(strstr(mock.last_log, "give an address of this machine"));
	soft_errno = EADDRINUSE;
	assert_null(find(DEVICE_SOFT, "192.0.2.1", RPMA_UTIL_IBV_CONTEXT_LOCAL));
	assert_non_null(strstr(mock.last_log, rpmai_info_way_out_of_start(&soft, EADDRINUSE)));

	/* a reason that is the same for both devices is said once */
	mock.fail_getaddrinfo = EAI_NONAME;
	assert_null(find(DEVICE_AUTO, "no.such.name", RPMA_UTIL_IBV_CONTEXT_LOCAL));
	assert_non_null(strstr(mock.last_log,
		"no.such.name: no device can use the address (rdma_getaddrinfo() failed: Name or service not "
		"known): "));
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], 5);
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_WARNING], 0);
}

static void
wildcard(void **state)
{
	(void)state;
	mock.devices = 2;
	assert_ptr_equal(find(DEVICE_AUTO, "0.0.0.0", RPMA_UTIL_IBV_CONTEXT_LOCAL), &mock.ctx);
	assert_ptr_equal(find(DEVICE_AUTO, "::", RPMA_UTIL_IBV_CONTEXT_LOCAL), &mock.ctx);
	assert_int_equal(mock_count("bind_addr"), 0);
	assert_ptr_equal(find(DEVICE_AUTO, "::1", RPMA_UTIL_IBV_CONTEXT_LOCAL), &mock.ctx);
	assert_int_equal(mock_count("bind_addr"), 1);
	assert_ptr_equal(find(DEVICE_AUTO, "ib", RPMA_UTIL_IBV_CONTEXT_LOCAL), &mock.ctx);
	assert_int_equal(mock_count("bind_addr"), 2);
	/*
	 * as a remote address it has no special meaning; a device without a list of devices is asked by
	 * address
	 */
	assert_ptr_equal(find(DEVICE_AUTO, "0.0.0.0", RPMA_UTIL_IBV_CONTEXT_REMOTE), &mock.ctx);
	assert_ptr_equal(find(DEVICE_SOFT, "0.0.0.0", RPMA_UTIL_IBV_CONTEXT_LOCAL), &soft_ctx);
	mock.devices = 0;
	assert_ptr_equal(find(DEVICE_AUTO, "0.0.0.0", RPMA_UTIL_IBV_CONTEXT_LOCAL), &mock.ctx);

	mock.devices = -1;
	assert_ptr_equal(find(DEVICE_AUTO, "0.0.0.0", RPMA_UTIL_IBV_CONTEXT_LOCAL), &soft_ctx);
	mock.no_devices = true;
	assert_ptr_equal(find(DEVICE_AUTO, "0.0.0.0", RPMA_UTIL_IBV_CONTEXT_LOCAL), &soft_ctx);
	assert_non_null(strstr(mock.last_log, "there is no RDMA device"));
	assert_null(find(DEVICE_RDMA, "0.0.0.0", RPMA_UTIL_IBV_CONTEXT_LOCAL));
}

static void
an_id_that_cannot_be_destroyed_is_no_failure(void **state)
{
	(void)state;
	mock.fail_call = "destroy_id";
	assert_ptr_equal(find(DEVICE_AUTO, "192.0.2.1", RPMA_UTIL_IBV_CONTEXT_LOCAL), &mock.ctx);
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_WARNING], 1);
}

#define device_test(f) cmocka_unit_test_setup_teardown(f, setup, mock_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(choices),
		device_test(hardware_comes_first),
		device_test(every_reason_to_fall_back_is_told_once),
		device_test(a_choice_is_kept),
		device_test(wildcard),
		device_test(an_id_that_cannot_be_destroyed_is_no_failure),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
