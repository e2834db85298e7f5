/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_mr.c -- memory regions */

#include "mock.h"

#define USAGE_ALL 0xFF

static char memory[64];

static struct rpma_mr_local *
reg(struct rpma_peer *peer, int usage)
{
	struct rpma_mr_local *mr = NULL;
	assert_ok(rpma_mr_reg(peer, memory, sizeof(memory), usage, &mr));
	return mr;
}

static void
arguments(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_mr_local *mr = NULL, *ok = reg(peer, RPMA_MR_USAGE_SEND);
	struct rpma_mr_remote *remote = NULL, *rok = mock_remote(64, RPMA_MR_USAGE_READ_SRC, true, 0);
	uint8_t desc[MR_DESCRIPTOR_SIZE] = { 0 };
	size_t size;
	void *ptr;
	int type;

	assert_fails(RPMA_E_INVAL, rpma_mr_reg(NULL, memory, 64, 1, &mr));
	assert_fails(RPMA_E_INVAL, rpma_mr_reg(peer, NULL, 64, 1, &mr));
	assert_fails(RPMA_E_INVAL, rpma_mr_reg(peer, memory, 0, 1, &mr));
	assert_fails(RPMA_E_INVAL, rpma_mr_reg(peer, memory, 64, 0, &mr));
	assert_fails(RPMA_E_INVAL, rpma_mr_reg(peer, memory, 64, 1 << 8, &mr));
	assert_fails(RPMA_E_INVAL, rpma_mr_reg(peer, memory, 64, -1, &mr));
	assert_fails(RPMA_E_INVAL, rpma_mr_reg(peer, memory, 64, 1, NULL));
	assert_fails(RPMA_E_INVAL, rpma_mr_dereg(NULL));
	assert_ok(rpma_mr_dereg(&mr));
	assert_fails(RPMA_E_INVAL, rpma_mr_get_descriptor(NULL, desc));
	assert_fails(RPMA_E_INVAL, rpma_mr_get_descriptor(ok, NULL));
	assert_fails(RPMA_E_INVAL, rpma_mr_get_descriptor_size(NULL, &size));
	assert_fails(RPMA_E_INVAL, rpma_mr_get_descriptor_size(ok, NULL));
	assert_fails(RPMA_E_INVAL, rpma_mr_get_ptr(NULL, &ptr));
	assert_fails(RPMA_E_INVAL, rpma_mr_get_ptr(ok, NULL));
	assert_fails(RPMA_E_INVAL, rpma_mr_get_size(NULL, &size));
	assert_fails(RPMA_E_INVAL, rpma_mr_get_size(ok, NULL));
	assert_fails(RPMA_E_INVAL, rpma_mr_remote_from_descriptor(NULL, 22, &remote));
	assert_fails(RPMA_E_INVAL, rpma_mr_remote_from_descriptor(desc, 22, NULL));
	assert_fails(RPMA_E_INVAL, rpma_mr_remote_from_descriptor(desc, 20, &remote));
	assert_fails(RPMA_E_INVAL, rpma_mr_remote_from_descriptor(desc, 22, &remote)); /* all zeros */
	assert_fails(RPMA_E_INVAL, rpma_mr_remote_get_size(NULL, &size));
	assert_fails(RPMA_E_INVAL, rpma_mr_remote_get_size(rok, NULL));
	assert_fails(RPMA_E_INVAL, rpma_mr_remote_get_flush_type(NULL, &type));
	assert_fails(RPMA_E_INVAL, rpma_mr_remote_get_flush_type(rok, NULL));
	assert_fails(RPMA_E_INVAL, rpma_mr_remote_delete(NULL));
	assert_ok(rpma_mr_remote_delete(&remote));
	assert_fails(RPMA_E_INVAL, rpma_mr_advise(NULL, 0, 1, 0, 0));
	assert_null(mr);
	assert_null(remote);

	assert_ok(rpma_mr_remote_delete(&rok));
	assert_null(rok);
	assert_ok(rpma_mr_dereg(&ok));
	assert_null(ok);
	rpma_peer_delete(&peer);
}

static void
usage_becomes_access(void **state)
{
	(void)state;
	const int lw = IBV_ACCESS_LOCAL_WRITE, rr = IBV_ACCESS_REMOTE_READ, rw = IBV_ACCESS_REMOTE_WRITE;
	const struct {
		int usage;
		int plain, native, iwarp;
	} table[] = {
		{ RPMA_MR_USAGE_READ_SRC, rr, rr, rr },
		{ RPMA_MR_USAGE_READ_DST, lw, lw, lw | rw },
		{ RPMA_MR_USAGE_WRITE_SRC, lw, lw, lw },
		{ RPMA_MR_USAGE_WRITE_DST, lw | rw, lw | rw, lw | rw },
		{ RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, rr, rr | RPMAI_ACCESS_FLUSH_GLOBAL, rr },
		{ RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, rr, rr | RPMAI_ACCESS_FLUSH_PERSISTENT, rr },
		{ RPMA_MR_USAGE_SEND, 0, 0, 0 },
		{ RPMA_MR_USAGE_RECV, lw, lw, lw },
		{ RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC, lw | rw | rr,
			lw | rw | rr | IBV_ACCESS_REMOTE_ATOMIC, lw | rw | rr },
	};
	for (int device = 0; device < 3; device++) {
		mock_setup(state);
		if (device == 1)
			mock_native();
		if (device == 2)
			mock.device.transport_type = IBV_TRANSPORT_IWARP;
		struct rpma_peer *peer = mock_peer();
		for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
			mock.registrations = 0;
			struct rpma_mr_local *mr = reg(peer, table[i].usage);
			assert_int_equal(mock.registrations, 1);
			assert_int_equal(mock.access[0],
				device == 0           ? table[i].plain
					: device == 1 ? table[i].native
						      : table[i].iwarp);
			assert_ok(rpma_mr_dereg(&mr));
		}
		rpma_peer_delete(&peer);
	}
}

static void
on_demand_paging_is_the_second_try(void **state)
{
	(void)state;
	struct rpma_mr_local *mr = NULL;
	mock.attr.odp_caps.general_caps = IBV_ODP_SUPPORT;
	mock.attr.odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;
	struct rpma_peer *peer = mock_peer();

	mock.fail_call = "reg_mr";
	mock.fail_errno = EOPNOTSUPP;
	mr = reg(peer, RPMA_MR_USAGE_READ_SRC);
	assert_int_equal(mock.registrations, 2);
	assert_int_equal(mock.access[1], IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND);
	rpma_mr_dereg(&mr);

	mock.fail_skip = 0;
	mock.fail_errno = EFAULT;
	assert_fails(RPMA_E_PROVIDER, rpma_mr_reg(peer, memory, 64, RPMA_MR_USAGE_READ_SRC, &mr));
	assert_int_equal(mock.registrations, 3);

	peer->caps = 0;
	mock.fail_skip = 0;
	mock.fail_errno = EOPNOTSUPP;
	assert_fails(RPMA_E_PROVIDER, rpma_mr_reg(peer, memory, 64, RPMA_MR_USAGE_READ_SRC, &mr));
	assert_int_equal(mock.registrations, 4);
	assert_null(mr);
	rpma_peer_delete(&peer);
}

static void
what_cannot_be_durable_is_not_advertised(void **state)
{
	(void)state;
	static const int errnos[] = { EOPNOTSUPP, EINVAL };
	mock_native();
	struct rpma_peer *peer = mock_peer();
	mock.fail_access = RPMAI_ACCESS_FLUSH_PERSISTENT;

	for (size_t i = 0; i < 2; i++) {
		uint8_t desc[MR_DESCRIPTOR_SIZE];
		struct rpma_mr_remote *remote = NULL;
		int type = 0;
		mock.fail_errno = errnos[i];
		struct rpma_mr_local *mr = reg(peer, USAGE_ALL);
		assert_int_equal(mock.logged[RPMA_LOG_LEVEL_WARNING], i + 1);
		assert_ok(rpma_mr_get_descriptor(mr, desc));
		assert_ok(rpma_mr_remote_from_descriptor(desc, sizeof(desc), &remote));
		assert_ok(rpma_mr_remote_get_flush_type(remote, &type));
		assert_int_equal(type, RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
		rpma_mr_remote_delete(&remote);
		rpma_mr_dereg(&mr);
	}

	/* any other error makes the call fail */
	struct rpma_mr_local *mr = NULL;
	mock.fail_errno = ENOMEM;
	assert_fails(RPMA_E_PROVIDER, rpma_mr_reg(peer, memory, 64, USAGE_ALL, &mr));
	assert_non_null(strstr(mock.last_log, "ulimit -l"));
	mock.fail_errno = EAGAIN;
	assert_fails(RPMA_E_PROVIDER, rpma_mr_reg(peer, memory, 64, USAGE_ALL, &mr));
	assert_non_null(strstr(mock.last_log, "ulimit -u"));
	assert_null(mr);
	rpma_peer_delete(&peer);
}

/*
 * Memory is pinned if possible, because a device can tell only of pinned pages whether they are persistent.
 */
static void
on_demand_paging_does_not_make_it_durable(void **state)
{
	(void)state;
	const int odp = IBV_ACCESS_ON_DEMAND, persistent = RPMAI_ACCESS_FLUSH_PERSISTENT;
	mock_native();
	mock.attr.odp_caps.general_caps = IBV_ODP_SUPPORT;
	mock.attr.odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;
	struct rpma_peer *peer = mock_peer();
	mock.fail_errno = EOPNOTSUPP;

	/* DRAM: only the right is refused, not the registration */
	mock.fail_access = persistent;
	struct rpma_mr_local *mr = reg(peer, USAGE_ALL);
	assert_int_equal(mock.registrations, 2);
	assert_false(mock.access[1] & (odp | persistent));
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_WARNING], 1);
	assert_false(mr->usage & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
	rpma_mr_dereg(&mr);

	/* a file system on DAX: only on-demand paging works, and the memory is durable */
	mock.fail_access = 0;
	mock.fail_without = odp;
	mock.registrations = 0;
	mr = reg(peer, USAGE_ALL);
	assert_int_equal(mock.registrations, 3);
	assert_int_equal(mock.access[2], mock.access[0] | odp);
	assert_int_equal(mock.access[2] & persistent, persistent);
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_WARNING], 1);
	assert_true(mr->usage & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
	rpma_mr_dereg(&mr);

	/* a device without on-demand paging: the message names an alternative */
	peer->caps &= ~(uint32_t)RPMA_CAP_ODP;
	assert_fails(RPMA_E_PROVIDER, rpma_mr_reg(peer, memory, 64, USAGE_ALL, &mr));
	assert_non_null(strstr(mock.last_log, "on-demand paging"));
	assert_non_null(strstr(mock.last_log, "use a device DAX"));
	assert_null(mr);
	rpma_peer_delete(&peer);
}

static void
a_descriptor_tells_all(void **state)
{
	(void)state;
	for (int native = 0; native < 2; native++) {
		if (native)
			mock_native();
		struct rpma_peer *peer = mock_peer();
		struct rpma_mr_local *mr = reg(peer, USAGE_ALL);
		struct rpma_mr_remote *remote = NULL;
		uint8_t desc[MR_DESCRIPTOR_SIZE + 1];
		size_t size = 0;
		void *ptr = NULL;
		int type = 0;

		desc[MR_DESCRIPTOR_SIZE] = 0x5A;
		assert_ok(rpma_mr_get_ptr(mr, &ptr));
		assert_ptr_equal(ptr, memory);
		assert_ok(rpma_mr_get_size(mr, &size));
		assert_int_equal(size, sizeof(memory));
		assert_ok(rpma_mr_get_descriptor_size(mr, &size));
		assert_int_equal(size, MR_DESCRIPTOR_SIZE);
		assert_ok(rpma_mr_get_descriptor(mr, desc));
		assert_int_equal(desc[MR_DESCRIPTOR_SIZE], 0x5A);
		assert_int_equal(desc[21], native ? 0xA7 : 0xA0);
		assert_ok(rpma_mr_remote_from_descriptor(desc, sizeof(desc), &remote));
		assert_ok(rpma_mr_remote_get_size(remote, &size));
		assert_int_equal(size, sizeof(memory));
		assert_ok(rpma_mr_remote_get_flush_type(remote, &type));
		assert_int_equal(type,
			RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
		assert_true(remote->desc.raddr == (uintptr_t)memory && remote->desc.rkey == MOCK_RKEY);

		rpma_mr_remote_delete(&remote);
		rpma_mr_dereg(&mr);
		rpma_peer_delete(&peer);
	}
}

static void
advice(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_mr_local *mr = reg(peer, RPMA_MR_USAGE_READ_SRC);
	static const struct {
		size_t offset, len;
		int errnum, ret;
	} table[] = {
		{ 0, 64, 0, 0 },
		{ 8, 56, 0, 0 },
		{ 64, 0, 0, 0 },
		{ 8, 57, 0, RPMA_E_INVAL },
		{ 65, 0, 0, RPMA_E_INVAL },
		{ SIZE_MAX, 2, 0, RPMA_E_INVAL },
		{ 2, SIZE_MAX, 0, RPMA_E_INVAL },
		{ 0, 64, EOPNOTSUPP, RPMA_E_NOSUPP },
		{ 0, 64, EFAULT, RPMA_E_INVAL },
		{ 0, 64, EINVAL, RPMA_E_INVAL },
		{ 0, 64, EPERM, RPMA_E_PROVIDER },
		{ 0, 64, EIO, RPMA_E_PROVIDER },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mock.fail_call = table[i].errnum ? "advise_mr" : NULL;
		mock.fail_skip = 0;
		mock.fail_errno = table[i].errnum;
		assert_int_equal(rpma_mr_advise(mr, table[i].offset, table[i].len, 0, 0), table[i].ret);
		if (table[i].errnum == EFAULT)
			assert_non_null(strstr(rpma_errormsg(), "a full disk"));
		if (table[i].ret == 0) {
			assert_true(mock.advised.addr == (uintptr_t)memory + table[i].offset);
			assert_int_equal(mock.advised.length, table[i].len);
			assert_int_equal(mock.advised.lkey, MOCK_LKEY);
		}
	}
	rpma_mr_dereg(&mr);
	rpma_peer_delete(&peer);
}

static void
failures(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_mr_local *mr = NULL;
	struct rpma_mr_remote *remote = NULL;
	const uint8_t desc[MR_DESCRIPTOR_SIZE] = { [8] = 1, [20] = 1 };

	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_mr_reg(peer, memory, 64, 1, &mr));
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_mr_remote_from_descriptor(desc, sizeof(desc), &remote));
	assert_null(mr);
	assert_null(remote);

	mr = reg(peer, 1);
	mock.fail_call = "dereg_mr";
	assert_fails(RPMA_E_PROVIDER, rpma_mr_dereg(&mr));
	assert_null(mr);
	rpma_peer_delete(&peer);
}

static void
ranges(void **state)
{
	(void)state;
	assert_true(rpmai_range_ok(10, 0, 10));
	assert_true(rpmai_range_ok(10, 10, 0));
	assert_false(rpmai_range_ok(10, 0, 11));
	assert_false(rpmai_range_ok(10, 11, 0));
	assert_false(rpmai_range_ok(10, UINT64_MAX, 11));
	assert_false(rpmai_range_ok(10, 5, UINT64_MAX - 4));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(arguments),
		rpma_test(usage_becomes_access),
		rpma_test(on_demand_paging_is_the_second_try),
		rpma_test(what_cannot_be_durable_is_not_advertised),
		rpma_test(on_demand_paging_does_not_make_it_durable),
		rpma_test(a_descriptor_tells_all),
		rpma_test(advice),
		rpma_test(failures),
		rpma_test(ranges),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
