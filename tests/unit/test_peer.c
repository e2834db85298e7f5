/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_peer.c -- a device in use: capabilities and protection domain */

#include "mock.h"

static void
arguments(void **state)
{
	(void)state;
	struct rpma_peer *peer = NULL;
	assert_fails(RPMA_E_INVAL, rpma_peer_new(NULL, &peer));
	assert_fails(RPMA_E_INVAL, rpma_peer_new(&mock.ctx, NULL));
	assert_fails(RPMA_E_INVAL, rpma_peer_delete(NULL));
	assert_ok(rpma_peer_delete(&peer));
	assert_null(peer);
}

static void
capabilities(void **state)
{
	(void)state;
	static const struct {
		uint64_t general_odp, rc_odp, flags;
		enum ibv_atomic_cap atomic_cap;
		uint32_t caps;
	} table[] = {
		{ 0, 0, 0, IBV_ATOMIC_NONE, 0 },
		{ IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_READ, 0, IBV_ATOMIC_NONE, 0 },
		{ IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_WRITE, 0, IBV_ATOMIC_NONE, 0 },
		{ 0, IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ, 0, IBV_ATOMIC_NONE, 0 },
		{ IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ, 0, IBV_ATOMIC_NONE,
			PEER_CAP_ODP },
		{ 0, 0, RPMAI_CAP_FLUSH_GLOBAL, IBV_ATOMIC_NONE, 0 },
		{ 0, 0, RPMAI_CAP_FLUSH_PERSISTENT, IBV_ATOMIC_NONE, 0 },
		{ 0, 0, RPMAI_CAP_FLUSH_GLOBAL | RPMAI_CAP_FLUSH_PERSISTENT, IBV_ATOMIC_NONE,
			PEER_CAP_NATIVE_FLUSH },
		{ 0, 0, RPMAI_CAP_ATOMIC_WRITE, IBV_ATOMIC_NONE, PEER_CAP_NATIVE_ATOMIC_WRITE },
		{ 0, 0, 0, IBV_ATOMIC_HCA, PEER_CAP_ATOMICS },
		{ 0, 0, 0, IBV_ATOMIC_GLOB, PEER_CAP_ATOMICS },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mock.attr.odp_caps.general_caps = table[i].general_odp;
		mock.attr.odp_caps.per_transport_caps.rc_odp_caps = (uint32_t)table[i].rc_odp;
		mock.attr.device_cap_flags_ex = table[i].flags;
		mock.attr.orig_attr.atomic_cap = table[i].atomic_cap;
		struct rpma_peer *peer = mock_peer();
		assert_int_equal(peer->caps, table[i].caps);
		assert_ok(rpma_peer_delete(&peer));
		assert_null(peer);
	}

	mock_rdma.is_soft = true;
	mock.device.transport_type = IBV_TRANSPORT_IWARP;
	struct rpma_peer *peer = mock_peer();
	assert_true(peer->caps & PEER_CAP_SOFT);
	assert_true(peer->is_iwarp);
	assert_ok(rpma_peer_delete(&peer));
}

static void
failures(void **state)
{
	(void)state;
	static const struct {
		const char *call;
		int errnum;
		int ret;
	} table[] = {
		{ "query_device_ex", EIO, RPMA_E_PROVIDER },
		{ "alloc_pd", ENOMEM, RPMA_E_NOMEM },
		{ "alloc_pd", EPERM, RPMA_E_PROVIDER },
		{ "alloc_pd", -1, RPMA_E_UNKNOWN },
	};
	struct rpma_peer *peer = NULL;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mock.fail_call = table[i].call;
		mock.fail_skip = 0;
		mock.fail_errno = table[i].errnum;
		assert_fails(table[i].ret, rpmai_peer_new(&mock_rdma, &mock.ctx, &peer));
	}
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpmai_peer_new(&mock_rdma, &mock.ctx, &peer));
	assert_null(peer);

	peer = mock_peer();
	mock.fail_call = "dealloc_pd";
	mock.fail_skip = 0;
	mock.fail_errno = EBUSY;
	assert_fails(RPMA_E_PROVIDER, rpma_peer_delete(&peer));
	assert_null(peer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { rpma_test(arguments), rpma_test(capabilities),
		rpma_test(failures) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
