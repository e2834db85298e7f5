/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_atomic.c -- operations on 8 bytes at once: which are refused, and which are posted */

#include "posting.h"

static void
atomic_writes(void **state)
{
	(void)state;
	const char src[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	static const struct {
		size_t offset;
		int flags, ret;
	} table[] = {
		{ 0, ALWAYS, 0 },
		{ 56, ON_ERROR, 0 },
		{ 64, ALWAYS, RPMA_E_INVAL },
		{ 4, ALWAYS, RPMA_E_INVAL },
		{ 57, ALWAYS, RPMA_E_INVAL },
		{ SIZE_MAX - 7, ALWAYS, RPMA_E_INVAL },
		{ 0, 0, RPMA_E_INVAL },
		{ 0, 1 << 4, RPMA_E_INVAL },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mock.sends = 0;
		int ret = rpma_atomic_write(f.conn, f.remote, table[i].offset, src, table[i].flags, ctx(1));
		assert_int_equal(ret, table[i].ret);
		assert_int_equal(mock.sends, ret == 0);
		if (ret == 0) {
			unsigned signaled = table[i].flags == ALWAYS ? IBV_SEND_SIGNALED : 0;
			assert_int_equal(mock.send_wr.opcode, IBV_WR_RDMA_WRITE);
			assert_int_equal(mock.send_wr.send_flags,
				IBV_SEND_INLINE | IBV_SEND_FENCE | signaled);
			assert_int_equal(mock.send_sge.length, 8);
			assert_memory_equal(mock.send_inline, src, 8);
			assert_true(mock.send_wr.wr.rdma.remote_addr == 0x10000 + table[i].offset);
		}

		mock.sends = 0;
		ret = rpma_write_atomic(f.conn, f.remote, table[i].offset, f.mr, 3, table[i].flags, ctx(1));
		assert_int_equal(ret, table[i].ret);
		assert_int_equal(mock.sends, ret == 0);
		if (ret == 0) {
			assert_int_equal(mock.send_wr.send_flags & ~(unsigned)IBV_SEND_SIGNALED,
				IBV_SEND_FENCE);
			assert_true(mock.send_sge.addr == (uintptr_t)memory + 3 && mock.send_sge.length == 8);
		}
	}
	assert_fails(RPMA_E_INVAL, rpma_atomic_write(NULL, f.remote, 0, src, ALWAYS, NULL));
	assert_fails(RPMA_E_INVAL, rpma_atomic_write(f.conn, NULL, 0, src, ALWAYS, NULL));
	assert_fails(RPMA_E_INVAL, rpma_atomic_write(f.conn, f.remote, 0, NULL, ALWAYS, NULL));
	assert_fails(RPMA_E_INVAL, rpma_write_atomic(NULL, f.remote, 0, f.mr, 0, ALWAYS, NULL));
	assert_fails(RPMA_E_INVAL, rpma_write_atomic(f.conn, NULL, 0, f.mr, 0, ALWAYS, NULL));
	assert_fails(RPMA_E_INVAL, rpma_write_atomic(f.conn, f.remote, 0, NULL, 0, ALWAYS, NULL));
	assert_fails(RPMA_E_INVAL, rpma_write_atomic(f.conn, f.remote, 0, f.mr, 57, ALWAYS, NULL));
}

static void
a_native_atomic_write_needs_both_sides(void **state)
{
	(void)state;
	const char src[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	mock_native();
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = mock_conn(peer, NULL);
	static const struct {
		bool has_caps;
		int caps;
		bool native;
	} table[] = {
		{ true, MR_CAP_NATIVE_ATOMIC_WRITE, true },
		{ true, MR_CAP_NATIVE_FLUSH, false },
		{ false, 0, false },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct rpma_mr_remote *mr = mock_remote(64, 0xFF, table[i].has_caps, table[i].caps);
		mock.sends = mock.atomics = 0;
		assert_ok(rpma_atomic_write(conn, mr, 8, src, ALWAYS, ctx(1)));
		assert_int_equal(mock.atomics, table[i].native);
		assert_int_equal(mock.sends, !table[i].native);
		rpma_mr_remote_delete(&mr);
	}
	assert_memory_equal(mock.atomic, src, 8);
	assert_int_equal(mock.atomic_flags, IBV_SEND_FENCE | IBV_SEND_SIGNALED);
	assert_true(mock.flush.raddr == 0x10000 + 8);

	struct rpma_mr_remote *mr = mock_remote(64, 0xFF, true, MR_CAP_NATIVE_ATOMIC_WRITE);
	mock.fail_call = "wr_complete";
	assert_fails(RPMA_E_PROVIDER, rpma_atomic_write(conn, mr, 8, src, ALWAYS, ctx(1)));
	rpma_mr_remote_delete(&mr);
	rpma_conn_delete(&conn);
	rpma_peer_delete(&peer);
}

/* the two fetching operations, with one signature */
static int
do_swap(struct rpma_conn *conn, struct rpma_mr_local *result, size_t result_offset,
	struct rpma_mr_remote *dst, size_t dst_offset, int flags)
{
	return rpma_compare_and_swap(conn, result, result_offset, dst, dst_offset, 0x1111222233334444,
		0x5555666677778888, flags, ctx(1));
}

static int
do_add(struct rpma_conn *conn, struct rpma_mr_local *result, size_t result_offset, struct rpma_mr_remote *dst,
	size_t dst_offset, int flags)
{
	return rpma_fetch_and_add(conn, result, result_offset, dst, dst_offset, UINT64_MAX, flags, ctx(1));
}

static const struct {
	int (*post)(struct rpma_conn *conn, struct rpma_mr_local *result, size_t result_offset,
		struct rpma_mr_remote *dst, size_t dst_offset, int flags);
	enum ibv_wr_opcode opcode;
	uint64_t compare_add, swap;
} fetching[] = {
	{ do_swap, IBV_WR_ATOMIC_CMP_AND_SWP, 0x1111222233334444, 0x5555666677778888 },
	{ do_add, IBV_WR_ATOMIC_FETCH_AND_ADD, UINT64_MAX, 0 },
};

static void
read_modify_write(void **state)
{
	(void)state;
	static const struct {
		size_t result_offset, dst_offset;
		int flags, ret;
	} table[] = {
		{ 0, 0, ALWAYS, 0 },
		{ 3, 56, ON_ERROR, 0 },
		{ 56, 8, ALWAYS | FENCE, 0 },
		{ 0, 4, ALWAYS, RPMA_E_INVAL },
		{ 0, 57, ALWAYS, RPMA_E_INVAL },
		{ 0, 64, ALWAYS, RPMA_E_INVAL },
		{ 0, SIZE_MAX - 7, ALWAYS, RPMA_E_INVAL },
		{ 57, 0, ALWAYS, RPMA_E_INVAL },
		{ SIZE_MAX, 0, ALWAYS, RPMA_E_INVAL },
		{ 0, 0, 0, RPMA_E_INVAL },
		{ 0, 0, FENCE | MORE, RPMA_E_INVAL },
		{ 0, 0, ALWAYS | 1 << 4, RPMA_E_INVAL },
	};
	for (size_t o = 0; o < ROWS(fetching); o++) {
		for (size_t i = 0; i < ROWS(table); i++) {
			const int errors = mock.logged[RPMA_LOG_LEVEL_ERROR];
			forget_posts();
			int ret = fetching[o].post(f.conn, f.mr, table[i].result_offset, f.remote,
				table[i].dst_offset, table[i].flags);
			if (ret != table[i].ret)
				fail_msg("operation %zu, row %zu: %d", o, i, ret);
			assert_int_equal(mock.sends, ret == 0);
			assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors + (ret != 0));
			if (ret)
				continue;

			assert_posted(0, (int)fetching[o].opcode, ctx(1));
			assert_int_equal(mock.send_wr.send_flags,
				(table[i].flags & 2 ? IBV_SEND_SIGNALED : 0) |
					(table[i].flags & FENCE ? IBV_SEND_FENCE : 0));
			assert_true(mock.send_wr.wr.atomic.remote_addr == RADDR + table[i].dst_offset);
			assert_true(mock.send_wr.wr.atomic.rkey == MOCK_RKEY);
			assert_true(mock.send_wr.wr.atomic.compare_add == fetching[o].compare_add);
			assert_true(mock.send_wr.wr.atomic.swap == fetching[o].swap);
			assert_int_equal(mock.send_wr.num_sge, 1);
			assert_true(mock.send_sge.addr == (uintptr_t)memory + table[i].result_offset);
			assert_int_equal(mock.send_sge.length, 8);
			assert_int_equal(mock.send_sge.lkey, MOCK_LKEY);
		}
		forget_posts();
		assert_fails(RPMA_E_INVAL, fetching[o].post(NULL, f.mr, 0, f.remote, 0, ALWAYS));
		assert_fails(RPMA_E_INVAL, fetching[o].post(f.conn, NULL, 0, f.remote, 0, ALWAYS));
		assert_fails(RPMA_E_INVAL, fetching[o].post(f.conn, f.mr, 0, NULL, 0, ALWAYS));
		assert_int_equal(mock.rung, 0);
		fail_next("post_send", ENOMEM);
		assert_fails(RPMA_E_PROVIDER, fetching[o].post(f.conn, f.mr, 0, f.remote, 0, ALWAYS));
	}
}

/* the address must be aligned, not the offset: a region need not begin at a multiple of 8 */
static void
the_address_is_aligned(void **state)
{
	(void)state;
	struct rpma_mr_remote odd = *f.remote;
	odd.desc.raddr = RADDR + 3;
	for (size_t o = 0; o < ROWS(fetching); o++) {
		forget_posts();
		assert_fails(RPMA_E_INVAL, fetching[o].post(f.conn, f.mr, 0, &odd, 0, ALWAYS));
		assert_fails(RPMA_E_INVAL, fetching[o].post(f.conn, f.mr, 0, &odd, 8, ALWAYS));
		assert_int_equal(mock.rung, 0);
		assert_ok(fetching[o].post(f.conn, f.mr, 0, &odd, 5, ALWAYS));
		assert_true(mock.send_wr.wr.atomic.remote_addr == RADDR + 8);
	}
}

static void
both_sides_must_have_atomics(void **state)
{
	(void)state;
	static const struct {
		enum ibv_atomic_cap device;
		bool has_caps;
		int caps, ret;
	} table[] = {
		{ IBV_ATOMIC_HCA, true, MR_CAP_REMOTE_ATOMICS, 0 }, { IBV_ATOMIC_GLOB, true, ALL_CAPS, 0 },
		{ IBV_ATOMIC_NONE, true, ALL_CAPS, RPMA_E_NOSUPP },
		{ IBV_ATOMIC_HCA, true, ALL_CAPS & ~MR_CAP_REMOTE_ATOMICS, RPMA_E_NOSUPP },
		{ IBV_ATOMIC_HCA, true, 0, RPMA_E_NOSUPP },
		{ IBV_ATOMIC_HCA, false, 0, RPMA_E_NOSUPP }, /* the original's descriptor */
	};
	for (size_t i = 0; i < ROWS(table); i++) {
		mock.attr.orig_attr.atomic_cap = table[i].device;
		struct rpma_peer *peer = mock_peer();
		struct rpma_conn *conn = mock_conn(peer, NULL);
		struct rpma_mr_remote *mr = mock_remote(64, 0xFF, table[i].has_caps, table[i].caps);
		for (size_t o = 0; o < ROWS(fetching); o++) {
			const int errors = mock.logged[RPMA_LOG_LEVEL_ERROR];
			forget_posts();
			assert_int_equal(fetching[o].post(conn, f.mr, 0, mr, 0, ALWAYS), table[i].ret);
			assert_int_equal(mock.sends, table[i].ret == 0);
			assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors + (table[i].ret != 0));
		}
		rpma_mr_remote_delete(&mr);
		rpma_conn_delete(&conn);
		rpma_peer_delete(&peer);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		plain_test(atomic_writes),
		plain_test(a_native_atomic_write_needs_both_sides),
		native_test(read_modify_write),
		native_test(the_address_is_aligned),
		native_test(both_sides_must_have_atomics),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
