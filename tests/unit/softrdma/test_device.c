/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_device.c -- the device's attributes, protection domains, registration */

#include "connected.h"

#include <infiniband/verbs.h>

static struct verbs_context *
context_ex(void)
{
	return verbs_get_ctx(softrdma_context());
}

static void
test_context(void **state)
{
	(void)state;
	struct ibv_context *ctx = softrdma_context();
	struct ibv_context other = *ctx;
	assert_true(softrdma_owns(ctx));
	assert_false(softrdma_owns(&other));
	assert_false(softrdma_owns(NULL));
	assert_string_equal(ctx->device->name, "softrdma0");
	assert_int_equal(access(ctx->device->ibdev_path, F_OK), -1);
	assert_non_null(context_ex());
}

static void
test_query_device(void **state)
{
	(void)state;
	struct ibv_context *ctx = softrdma_context();
	struct ibv_query_device_ex_input input = { 0 };
	struct ibv_device_attr_ex attr;
	assert_int_equal(softrdma_ibv_query_device_ex(ctx, NULL, &attr), 0);
	assert_int_equal(softrdma_ibv_query_device_ex(ctx, &input, &attr), 0);
	assert_int_equal(attr.orig_attr.node_guid, htobe64(SOFTRDMA_NODE_GUID));
	assert_int_equal(attr.orig_attr.max_qp_wr, SOFTRDMA_WR_MAX);
	assert_int_equal(attr.orig_attr.max_sge, SOFTRDMA_SGE_MAX);
	assert_int_equal(attr.orig_attr.max_cqe, SOFTRDMA_CQE_MAX);
	assert_int_equal(attr.orig_attr.max_qp_rd_atom, SOFTRDMA_RD_ATOM_MAX);
	assert_int_equal(attr.orig_attr.vendor_id, SOFTRDMA_VENDOR_ID);
	assert_string_equal(attr.orig_attr.fw_ver, SOFTRDMA_VERSION);
	assert_int_equal(attr.orig_attr.atomic_cap, IBV_ATOMIC_HCA);
	assert_int_equal(attr.orig_attr.phys_port_cnt, 1);
	assert_int_equal(attr.phys_port_cnt_ex, 1);
	assert_true(attr.device_cap_flags_ex & SOFTRDMA_CAP_FLUSH_PERSISTENT);
	assert_true(attr.device_cap_flags_ex & SOFTRDMA_CAP_ATOMIC_WRITE);
	input.comp_mask = 1;
	assert_int_equal(softrdma_ibv_query_device_ex(ctx, &input, &attr), EINVAL);
	/* the header's inline function calls the same function */
	assert_int_equal(ibv_query_device_ex(ctx, NULL, &attr), 0);
	assert_int_equal(attr.orig_attr.max_sge, SOFTRDMA_SGE_MAX);
}

/*
 * Programs may have been built with shorter or longer structures. The bytes after a shorter one are not
 * touched.
 */
static void
test_query_sizes(void **state)
{
	(void)state;
	struct ibv_context *ctx = softrdma_context();
	union {
		struct ibv_device_attr_ex device;
		struct ibv_port_attr port;
		uint8_t bytes[2 * sizeof(struct ibv_device_attr_ex)];
	} attr;

	memset(&attr, 0xaa, sizeof(attr));
	size_t size = sizeof(struct ibv_device_attr);
	assert_int_equal(context_ex()->query_device_ex(ctx, NULL, &attr.device, size), 0);
	assert_int_equal(attr.device.orig_attr.max_srq_wr, SOFTRDMA_WR_MAX);
	assert_int_equal(attr.bytes[size], 0xaa);

	memset(&attr, 0xaa, sizeof(attr));
	size = sizeof(attr.device) + 64;
	assert_int_equal(context_ex()->query_device_ex(ctx, NULL, &attr.device, size), 0);
	assert_int_equal(attr.bytes[size - 1], 0);
	assert_int_equal(attr.bytes[size], 0xaa);

	memset(&attr, 0xaa, sizeof(attr));
	size = offsetof(struct ibv_port_attr, link_layer);
	assert_int_equal(context_ex()->query_port(ctx, 1, &attr.port, size), 0);
	assert_int_equal(attr.port.state, IBV_PORT_ACTIVE);
	assert_int_equal(attr.bytes[size], 0xaa);

	size = sizeof(attr.port) + 8;
	assert_int_equal(context_ex()->query_port(ctx, 1, &attr.port, size), 0);
	assert_int_equal(attr.bytes[size - 1], 0);
}

static void
test_query_port(void **state)
{
	(void)state;
	struct ibv_context *ctx = softrdma_context();
	struct ibv_port_attr attr;
	assert_int_equal(softrdma_ibv_query_port(ctx, 0, &attr), EINVAL);
	assert_int_equal(softrdma_ibv_query_port(ctx, 2, &attr), EINVAL);
	assert_int_equal(softrdma_ibv_query_port(ctx, 1, &attr), 0);
	assert_int_equal(attr.state, IBV_PORT_ACTIVE);
	assert_int_equal(attr.max_msg_sz, SOFTRDMA_MSG_MAX);
	assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
}

static void
test_pd(void **state)
{
	(void)state;
	struct ibv_pd *pd = softrdma_ibv_alloc_pd(softrdma_context());
	char mem[16];
	struct ibv_mr *mr = softrdma_ibv_reg_mr(pd, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_int_equal(softrdma_ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	assert_int_equal(softrdma_ibv_dealloc_pd(pd), 0);
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_null(softrdma_ibv_alloc_pd(softrdma_context()));
	assert_int_equal(errno, ENOMEM);
}

static void
test_registration_fails(void **state)
{
	(void)state;
	char mem[16];
	assert_null(softrdma_ibv_reg_mr(the_pd, mem, sizeof(mem), 1 << 30));
	assert_int_equal(errno, EINVAL);
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_null(softrdma_ibv_reg_mr(the_pd, mem, sizeof(mem), 0));
	assert_int_equal(errno, ENOMEM);
	fail_nothing();
	random_error = EIO; /* without a key the registration fails, and releases what it has opened */
	assert_null(softrdma_ibv_reg_mr(the_pd, mem, sizeof(mem), 0));
	assert_int_equal(errno, EIO);
	random_error = 0;
}

static void
test_advise(void **state)
{
	(void)state;
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	assert_int_equal(context_ex()->advise_mr(the_pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_context),
		device_test(test_query_device),
		device_test(test_query_sizes),
		device_test(test_query_port),
		device_test(test_pd),
		device_test(test_registration_fails),
		device_test(test_advise),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
