/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_flush.c -- the way a flush takes, for each device and region, and the requests that are posted */

#include "flush.h"
#include "mock.h"

#define VISIBILITY RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY
#define PERSISTENT RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT
#define ALWAYS RPMA_F_COMPLETION_ALWAYS

static int context;

static void
declare_direct_write(struct rpma_conn *conn, bool supported)
{
	struct rpma_peer_cfg *cfg = NULL;
	assert_ok(rpma_peer_cfg_new(&cfg));
	assert_ok(rpma_peer_cfg_set_direct_write_to_pmem(cfg, supported));
	assert_ok(rpma_conn_apply_remote_peer_cfg(conn, cfg));
	rpma_peer_cfg_delete(&cfg);
}

static void
arguments(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = mock_conn(peer, NULL);
	struct rpma_mr_remote *mr = mock_remote(64, VISIBILITY, true, 0);
	const struct {
		struct rpma_conn *conn;
		struct rpma_mr_remote *mr;
		size_t offset, len;
		int type, flags, ret;
	} table[] = {
		{ conn, mr, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, 0 },
		{ conn, mr, 64, 0, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ON_ERROR, 0 },
		{ NULL, mr, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, RPMA_E_INVAL },
		{ conn, NULL, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, RPMA_E_INVAL },
		{ conn, mr, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, 0, RPMA_E_INVAL },
		{ conn, mr, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS | 1 << 4, RPMA_E_INVAL },
		{ conn, mr, 0, 64, 2, ALWAYS, RPMA_E_INVAL },
		{ conn, mr, 0, 64, -1, ALWAYS, RPMA_E_INVAL },
		{ conn, mr, 0, 65, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, RPMA_E_INVAL },
		{ conn, mr, 65, 0, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, RPMA_E_INVAL },
		{ conn, mr, 1, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, RPMA_E_INVAL },
		{ conn, mr, 1, SIZE_MAX, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, RPMA_E_INVAL },
		{ conn, mr, 0, 64, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, RPMA_E_NOSUPP },
	};
	int posted = 0;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int errors = mock.logged[RPMA_LOG_LEVEL_ERROR];
		int ret = rpma_flush(table[i].conn, table[i].mr, table[i].offset, table[i].len,
			(enum rpma_flush_type)table[i].type, table[i].flags, NULL);
		assert_int_equal(ret, table[i].ret);
		assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors + (ret != 0));
		posted += ret == 0;
		assert_int_equal(mock.sends + mock.flushes, posted);
	}
	rpma_mr_remote_delete(&mr);
	rpma_conn_delete(&conn);
	rpma_peer_delete(&peer);
}

static void
the_way(void **state)
{
	enum { NO, READ, NATIVE };
	static const struct {
		bool device_native, has_caps, remote_native, read_flushes, direct;
		int visible, durable;
	} table[] = {
		/* hardware without FLUSH */
		{ false, true, false, true, false, READ, NO },
		{ false, true, false, true, true, READ, READ },
		{ false, true, true, true, false, READ, NO },
		{ false, false, false, true, true, READ, READ },
		/* hardware with FLUSH */
		{ true, true, true, true, false, NATIVE, NATIVE },
		{ true, true, true, true, true, NATIVE, NATIVE },
		{ true, true, false, true, false, READ, NO },
		{ true, true, false, true, true, READ, READ },
		{ true, false, false, true, false, NATIVE, NATIVE },
		/* a device on which reading does not flush */
		{ true, true, true, false, false, NATIVE, NATIVE },
		{ true, false, false, false, false, NATIVE, NATIVE },
		{ true, true, false, false, true, NO, NO },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mock_setup(state);
		if (table[i].device_native)
			mock_native();
		mock_rdma.read_flushes = table[i].read_flushes;
		struct rpma_peer *peer = mock_peer();
		struct rpma_conn *conn = mock_conn(peer, NULL);
		struct rpma_mr_remote *mr = mock_remote(64, VISIBILITY | PERSISTENT, table[i].has_caps,
			table[i].remote_native ? MR_CAP_NATIVE_FLUSH : 0);
		declare_direct_write(conn, table[i].direct);

		for (int persistent = 0; persistent < 2; persistent++) {
			const int way = persistent ? table[i].durable : table[i].visible;
			mock.sends = mock.flushes = 0;
			int ret = rpma_flush(conn, mr, 8, 40,
				persistent ? RPMA_FLUSH_TYPE_PERSISTENT : RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS,
				&context);
			assert_int_equal(ret, way == NO ? RPMA_E_NOSUPP : 0);
			assert_int_equal(mock.sends, way == READ);
			assert_int_equal(mock.flushes, way == NATIVE);
			if (way == NATIVE)
				assert_int_equal(mock.flush.type,
					persistent ? RPMAI_FLUSH_PERSISTENT : RPMAI_FLUSH_GLOBAL);
		}

		rpma_mr_remote_delete(&mr);
		rpma_conn_delete(&conn);
		rpma_peer_delete(&peer);
		assert_int_equal(mock.live, 0);
	}
}

/*
 * Our device has FLUSH, and the region is the original's, so it is not known whether it allows FLUSH. If it
 * may be read, it is flushed by reading.
 */
static void
the_way_to_the_original(void **state)
{
	static const struct {
		bool readable, direct;
		bool visible_native, durable_native;
	} table[] = {
		{ false, false, true, true },
		{ false, true, true, true },
		{ true, false, false, true },
		{ true, true, false, false },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mock_setup(state);
		mock_native();
		struct rpma_peer *peer = mock_peer();
		struct rpma_conn *conn = mock_conn(peer, NULL);
		struct rpma_mr_remote *mr = mock_remote(64,
			VISIBILITY | PERSISTENT | (table[i].readable ? RPMA_MR_USAGE_READ_SRC : 0), false, 0);
		declare_direct_write(conn, table[i].direct);

		mock.sends = mock.flushes = 0;
		assert_int_equal(rpma_flush(conn, mr, 8, 40, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, &context),
			0);
		assert_int_equal(mock.flushes, table[i].visible_native);
		assert_int_equal(mock.sends, !table[i].visible_native);
		mock.sends = mock.flushes = 0;
		assert_int_equal(rpma_flush(conn, mr, 8, 40, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, &context),
			0);
		assert_int_equal(mock.flushes, table[i].durable_native);
		assert_int_equal(mock.sends, !table[i].durable_native);

		rpma_mr_remote_delete(&mr);
		rpma_conn_delete(&conn);
		rpma_peer_delete(&peer);
		assert_int_equal(mock.live, 0);
	}
}

/*
 * The software device: a region of the original is made visible by a READ of no bytes, which needs no right, since it
 * is not known whether the region may be read or flushed. To make it durable, FLUSH is tried.
 */
static void
the_way_to_the_original_on_the_software_device(void **state)
{
	for (int i = 0; i < 4; i++) {
		const bool readable = i & 1, has_caps = i & 2;
		mock_setup(state);
		mock_native();
		mock_rdma.read_flushes = false;
		mock_rdma.writes_are_visible = true;
		struct rpma_peer *peer = mock_peer();
		struct rpma_conn *conn = mock_conn(peer, NULL);
		struct rpma_mr_remote *mr =
			mock_remote(64, VISIBILITY | PERSISTENT | (readable ? RPMA_MR_USAGE_READ_SRC : 0),
				has_caps, has_caps ? MR_CAP_NATIVE_FLUSH : 0);
		declare_direct_write(conn, true);
		static const size_t ranges[][2] = { { 8, 40 }, { 0, 64 }, { 64, 0 } };
		for (size_t k = 0; k < 3; k++) {
			mock.sends = mock.flushes = 0;
			assert_ok(rpma_flush(conn, mr, ranges[k][0], ranges[k][1], RPMA_FLUSH_TYPE_VISIBILITY,
				ALWAYS | RPMA_F_FENCE, &context));
			assert_int_equal(mock.flushes, has_caps);
			assert_int_equal(mock.sends, !has_caps);
			if (has_caps)
				continue;
			assert_int_equal(mock.send_wr.opcode, IBV_WR_RDMA_READ);
			assert_int_equal(mock.send_wr.num_sge, 0);
			assert_int_equal(mock.send_wr.send_flags, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
			assert_true(mock.send_wr.wr_id == (uintptr_t)&context);
		}
		mock.sends = mock.flushes = 0;
		assert_ok(rpma_flush(conn, mr, 8, 40, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, &context));
		assert_int_equal(mock.flushes, 1);
		assert_int_equal(mock.sends, 0);
		rpma_mr_remote_delete(&mr);
		rpma_conn_delete(&conn);
		rpma_peer_delete(&peer);
		assert_int_equal(mock.live, 0);
	}
}

static void
native_posts_the_range(void **state)
{
	(void)state;
	mock_native();
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = mock_conn(peer, NULL);
	struct rpma_mr_remote *mr = mock_remote(1ULL << 40, PERSISTENT, true, MR_CAP_NATIVE_FLUSH);
	const size_t len = (1ULL << 40) - 16; /* more than any message; nothing is transferred */

	assert_ok(rpma_flush(conn, mr, 16, len, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, &context));
	assert_true(mock.flush.wr_id == (uintptr_t)&context);
	assert_true(
		mock.flush.raddr == 0x10000 + 16 && mock.flush.len == len && mock.flush.rkey == MOCK_RKEY);
	assert_int_equal(mock.flush.flags, IBV_SEND_SIGNALED);
	assert_ok(rpma_flush(conn, mr, 0, 1, RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ON_ERROR, NULL));
	assert_int_equal(mock.flush.flags, 0);

	mock.fail_call = "wr_complete";
	mock.fail_errno = ENOMEM;
	assert_fails(RPMA_E_PROVIDER, rpma_flush(conn, mr, 0, 1, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, NULL));
	mock_rdma.flush_max = len - 1;
	assert_fails(RPMA_E_INVAL, rpma_flush(conn, mr, 0, len, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, NULL));
	assert_non_null(strstr(mock.last_log, "4 GiB"));
	rpma_mr_remote_delete(&mr);
	rpma_conn_delete(&conn);
	rpma_peer_delete(&peer);
}

static void
no_extended_queue_pair(void **state)
{
	(void)state;
	mock_native();
	mock.no_qp_ex = true;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = mock_conn(peer, NULL);
	struct rpma_mr_remote *mr = mock_remote(64, VISIBILITY, true, MR_CAP_NATIVE_FLUSH);
	assert_ok(rpma_flush(conn, mr, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, NULL));
	assert_int_equal(mock.sends, 1);
	rpma_mr_remote_delete(&mr);
	rpma_conn_delete(&conn);
	rpma_peer_delete(&peer);
}

static void
a_read_stays_inside(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = mock_conn(peer, NULL);
	static const struct {
		size_t size, offset, len;
		size_t read_offset, read_len;
	} table[] = {
		{ 64, 0, 64, 0, 8 },
		{ 64, 56, 8, 56, 8 },
		{ 64, 57, 7, 57, 7 },
		{ 64, 63, 1, 63, 1 },
		{ 64, 0, 1, 0, 1 },
		{ 64, 0, 0, 0, 1 },
		{ 64, 63, 0, 63, 1 },
		{ 64, 64, 0, 63, 1 },
		{ 1, 0, 1, 0, 1 },
		{ 1, 1, 0, 0, 1 },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct rpma_mr_remote *mr = mock_remote(table[i].size, VISIBILITY, true, 0);
		assert_ok(rpma_flush(conn, mr, table[i].offset, table[i].len, RPMA_FLUSH_TYPE_VISIBILITY,
			ALWAYS, &context));
		assert_int_equal(mock.send_wr.opcode, IBV_WR_RDMA_READ);
		assert_int_equal(mock.send_wr.send_flags, IBV_SEND_SIGNALED);
		assert_true(mock.send_wr.wr_id == (uintptr_t)&context);
		assert_true(mock.send_wr.wr.rdma.remote_addr == 0x10000 + table[i].read_offset);
		assert_int_equal(mock.send_sge.length, table[i].read_len);
		rpma_mr_remote_delete(&mr);
	}
	rpma_conn_delete(&conn);
	rpma_peer_delete(&peer);
}

static void
the_scratch_page(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct flush_scratch *scratch = NULL;
	const int live = mock.live;

	assert_ok(rpmai_flush_scratch_new(peer, &scratch));
	assert_ok(rpmai_flush_scratch_delete(&scratch));
	assert_null(scratch);
	assert_ok(rpmai_flush_scratch_delete(&scratch));

	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpmai_flush_scratch_new(peer, &scratch));
	mock.fail_call = "mmap";
	assert_fails(RPMA_E_NOMEM, rpmai_flush_scratch_new(peer, &scratch));
	mock.fail_call = "reg_mr";
	mock.fail_skip = 0;
	assert_fails(RPMA_E_PROVIDER, rpmai_flush_scratch_new(peer, &scratch));
	assert_null(scratch);

	assert_ok(rpmai_flush_scratch_new(peer, &scratch));
	mock.fail_call = "dereg_mr";
	mock.fail_skip = 0;
	assert_fails(RPMA_E_PROVIDER, rpmai_flush_scratch_delete(&scratch));
	assert_int_equal(mock.live, live);

	/* nothing else is leaked */
	assert_ok(rpmai_flush_scratch_new(peer, &scratch));
	mock.fail_call = "munmap";
	mock.fail_skip = 0;
	assert_fails(RPMA_E_PROVIDER, rpmai_flush_scratch_delete(&scratch));
	assert_int_equal(mock.live, live);
	rpma_peer_delete(&peer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(arguments),
		rpma_test(the_way),
		rpma_test(the_way_to_the_original),
		rpma_test(the_way_to_the_original_on_the_software_device),
		rpma_test(native_posts_the_range),
		rpma_test(no_extended_queue_pair),
		rpma_test(a_read_stays_inside),
		rpma_test(the_scratch_page),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
