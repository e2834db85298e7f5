/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_utils.c -- choosing a device by the environment, texts for events */

#include <stdlib.h>

#include "mock.h"

static void
arguments(void **state)
{
	(void)state;
	struct ibv_context *ctx = NULL;
	int odp;
	assert_fails(RPMA_E_INVAL, rpma_utils_get_ibv_context(NULL, RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx));
	assert_fails(RPMA_E_INVAL,
		rpma_utils_get_ibv_context("192.0.2.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, NULL));
	assert_fails(RPMA_E_INVAL,
		rpma_utils_get_ibv_context("192.0.2.1", (enum rpma_util_ibv_context_type)2, &ctx));
	assert_fails(RPMA_E_INVAL, rpma_utils_ibv_context_is_odp_capable(NULL, &odp));
	assert_fails(RPMA_E_INVAL, rpma_utils_ibv_context_is_odp_capable(&mock.ctx, NULL));
	assert_fails(RPMA_E_INVAL, rpma_utils_ibv_context_is_soft(NULL, &odp));
	assert_fails(RPMA_E_INVAL, rpma_utils_ibv_context_is_soft(&mock.ctx, NULL));
	assert_null(ctx);
}

static void
a_wrong_choice_is_an_error(void **state)
{
	(void)state;
	struct ibv_context *ctx = NULL;
	setenv("RPMA_DEVICE", "hardware", 1);
	assert_fails(RPMA_E_INVAL,
		rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx));
	assert_string_equal(rpma_errormsg(), "RPMA_DEVICE is \"hardware\": set it to auto, rdma or soft");
	unsetenv("RPMA_DEVICE");
	assert_null(ctx);
}

static void
the_software_device(void **state)
{
	(void)state;
	struct ibv_context *ctx = NULL;
	struct rpma_peer *peer = NULL;
	int odp = -1;
	setenv("RPMA_DEVICE", "soft", 1);
	assert_fails(RPMA_E_PROVIDER,
		rpma_utils_get_ibv_context("192.0.2.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx));
	assert_null(ctx);
	assert_ok(rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx));
	unsetenv("RPMA_DEVICE");
	assert_ok(rpma_utils_ibv_context_is_odp_capable(ctx, &odp));
	assert_int_equal(odp, 0);
	int soft = -1;
	assert_ok(rpma_utils_ibv_context_is_soft(ctx, &soft));
	assert_int_equal(soft, 1);
	assert_ok(rpma_utils_ibv_context_is_soft(&mock.ctx, &soft)); /* not one of the library's devices */
	assert_int_equal(soft, 0);
	assert_ok(rpma_peer_new(ctx, &peer));
	assert_ptr_equal(peer->rdma, rpmai_rdma_soft());
	assert_true(peer->caps & RPMA_CAP_SOFT);
	assert_true(peer->caps & RPMA_CAP_NATIVE_FLUSH);
	assert_ok(rpma_peer_delete(&peer));
}

static int
broken_query(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
	struct ibv_device_attr_ex *attr, size_t size)
{
	(void)context;
	(void)input;
	memset(attr, 0, size);
	return EIO;
}

static void
a_device_that_does_not_answer(void **state)
{
	(void)state;
	static struct verbs_context vctx;
	vctx.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	vctx.sz = sizeof(vctx);
	vctx.query_device_ex = broken_query;
	int odp = 7;
	assert_fails(RPMA_E_PROVIDER, rpma_utils_ibv_context_is_odp_capable(&vctx.context, &odp));
	assert_int_equal(odp, 7);
}

static void
events_have_words(void **state)
{
	(void)state;
	static const struct {
		int event;
		const char *text;
	} table[] = {
		{ RPMA_CONN_UNDEFINED, "Undefined connection event" },
		{ RPMA_CONN_ESTABLISHED, "Connection established" },
		{ RPMA_CONN_CLOSED, "Connection closed" },
		{ RPMA_CONN_LOST, "Connection lost" },
		{ RPMA_CONN_REJECTED, "Connection rejected" },
		{ RPMA_CONN_UNREACHABLE, "Connection unreachable" },
		{ 5, "Unsupported connection event" },
		{ -2, "Unsupported connection event" },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		assert_string_equal(rpma_utils_conn_event_2str((enum rpma_conn_event)table[i].event),
			table[i].text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(arguments),
		rpma_test(a_wrong_choice_is_an_error),
		rpma_test(the_software_device),
		rpma_test(a_device_that_does_not_answer),
		rpma_test(events_have_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
