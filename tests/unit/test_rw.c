/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_rw.c -- reads and writes of remote memory: which are refused, and which are posted */

#include <arpa/inet.h>

#include "posting.h"

/* the three transfers between regions, with one signature */
typedef int transfer(struct rpma_conn *conn, struct rpma_mr_local *local, size_t local_offset,
	struct rpma_mr_remote *remote, size_t remote_offset, size_t len, int flags);

static int
do_read(struct rpma_conn *conn, struct rpma_mr_local *local, size_t local_offset,
	struct rpma_mr_remote *remote, size_t remote_offset, size_t len, int flags)
{
	return rpma_read(conn, local, local_offset, remote, remote_offset, len, flags, ctx(1));
}

static int
do_write(struct rpma_conn *conn, struct rpma_mr_local *local, size_t local_offset,
	struct rpma_mr_remote *remote, size_t remote_offset, size_t len, int flags)
{
	return rpma_write(conn, remote, remote_offset, local, local_offset, len, flags, ctx(1));
}

static int
do_write_with_imm(struct rpma_conn *conn, struct rpma_mr_local *local, size_t local_offset,
	struct rpma_mr_remote *remote, size_t remote_offset, size_t len, int flags)
{
	return rpma_write_with_imm(conn, remote, remote_offset, local, local_offset, len, flags, IMM, ctx(1));
}

static const struct {
	transfer *post;
	enum ibv_wr_opcode opcode;
} transfers[] = {
	{ do_read, IBV_WR_RDMA_READ },
	{ do_write, IBV_WR_RDMA_WRITE },
	{ do_write_with_imm, IBV_WR_RDMA_WRITE_WITH_IMM },
};

static void
transfers_between_regions(void **state)
{
	(void)state;
	enum { NONE = 1, LARGE = 2 };
	static const struct {
		int local, remote; /* indices of the regions */
		size_t local_offset, remote_offset, len;
		int flags, ret;
	} table[] = {
		{ 0, 0, 0, 0, 64, ALWAYS, 0 },
		{ 0, 0, 0, 0, 64, ON_ERROR, 0 },
		{ 0, 0, 3, 5, 7, ALWAYS, 0 },
		{ 0, 0, 64, 64, 0, ALWAYS, 0 },
		{ LARGE, LARGE, 0, 0, MOCK_MAX_MSG, ALWAYS, 0 },
		{ NONE, NONE, 0, 0, 0, ALWAYS, 0 },
		{ 0, 0, 0, 0, 64, ALWAYS | FENCE, 0 },
		/* flags */
		{ 0, 0, 0, 0, 64, MORE | FENCE, RPMA_E_INVAL },
		{ 0, 0, 0, 0, 64, 0, RPMA_E_INVAL },
		{ 0, 0, 0, 0, 64, 1 << 4, RPMA_E_INVAL },
		{ 0, 0, 0, 0, 64, ALWAYS | 1 << 4, RPMA_E_INVAL },
		{ 0, 0, 0, 0, 64, -1, RPMA_E_INVAL },
		/* regions */
		{ NONE, 0, 0, 0, 0, ALWAYS, RPMA_E_INVAL },
		{ 0, NONE, 0, 0, 0, ALWAYS, RPMA_E_INVAL },
		{ NONE, NONE, 1, 0, 0, ALWAYS, RPMA_E_INVAL },
		{ NONE, NONE, 0, 1, 0, ALWAYS, RPMA_E_INVAL },
		{ NONE, NONE, 0, 0, 1, ALWAYS, RPMA_E_INVAL },
		/* ranges */
		{ 0, LARGE, 0, 0, 65, ALWAYS, RPMA_E_INVAL },
		{ 0, LARGE, 1, 0, 64, ALWAYS, RPMA_E_INVAL },
		{ 0, LARGE, 65, 0, 0, ALWAYS, RPMA_E_INVAL },
		{ 0, LARGE, SIZE_MAX, 0, 2, ALWAYS, RPMA_E_INVAL },
		{ LARGE, 0, 0, 0, 65, ALWAYS, RPMA_E_INVAL },
		{ LARGE, 0, 0, 1, 64, ALWAYS, RPMA_E_INVAL },
		{ LARGE, 0, 0, 65, 0, ALWAYS, RPMA_E_INVAL },
		{ LARGE, 0, 0, SIZE_MAX, 2, ALWAYS, RPMA_E_INVAL },
		{ 0, 0, 2, 2, SIZE_MAX, ALWAYS, RPMA_E_INVAL },
		/*
		 * 64 bytes more than 4 GiB: the length that remains of it in the 32 bits of verbs is within
		 * the region
		 */
		{ 0, 0, 0, 0, (1ULL << 32) + 64, ALWAYS, RPMA_E_INVAL },
		{ LARGE, LARGE, 0, 0, MOCK_MAX_MSG + 1, ALWAYS, RPMA_E_INVAL },
	};

	for (size_t t = 0; t < 3; t++) {
		for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
			struct rpma_mr_local *local = table[i].local == NONE ? NULL
				: table[i].local                             ? f.large
									     : f.mr;
			struct rpma_mr_remote *remote = table[i].remote == NONE ? NULL
				: table[i].remote                               ? f.large_remote
										: f.remote;
			int errors = mock.logged[RPMA_LOG_LEVEL_ERROR];
			memset(&mock.send_wr, 0, sizeof(mock.send_wr));
			mock.sends = 0;
			int ret = transfers[t].post(f.conn, local, table[i].local_offset, remote,
				table[i].remote_offset, table[i].len, table[i].flags);
			if (ret != table[i].ret)
				fail_msg("transfer %zu, row %zu: %d", t, i, ret);
			assert_int_equal(mock.sends, ret == 0);
			assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors + (ret != 0));
			if (ret)
				continue;

			const struct ibv_send_wr *wr = &mock.send_wr;
			assert_int_equal(wr->opcode, transfers[t].opcode);
			assert_true(wr->wr_id == (uintptr_t)ctx(1));
			assert_int_equal(wr->send_flags,
				(table[i].flags & 2 ? IBV_SEND_SIGNALED : 0) |
					(table[i].flags & FENCE ? IBV_SEND_FENCE : 0));
			assert_int_equal(wr->num_sge, table[i].len > 0);
			if (transfers[t].opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
				assert_int_equal(ntohl(wr->imm_data), IMM);
			if (remote) {
				assert_true(wr->wr.rdma.remote_addr == 0x10000 + table[i].remote_offset);
				assert_true(wr->wr.rdma.rkey == MOCK_RKEY);
			}
			if (table[i].len) {
				const char *base = table[i].local == LARGE ? large : memory;
				assert_true(mock.send_sge.addr == (uintptr_t)base + table[i].local_offset);
				assert_int_equal(mock.send_sge.length, table[i].len);
				assert_int_equal(mock.send_sge.lkey, MOCK_LKEY);
			}
		}
		assert_fails(RPMA_E_INVAL, transfers[t].post(NULL, f.mr, 0, f.remote, 0, 1, ALWAYS));
		mock.fail_call = "post_send";
		mock.fail_skip = 0;
		mock.fail_errno = ENOMEM;
		assert_fails(RPMA_E_PROVIDER, transfers[t].post(f.conn, f.mr, 0, f.remote, 0, 1, ALWAYS));
		assert_non_null(strstr(mock.last_log, "queue is full"));
		mock.fail_call = NULL;
	}
}

/* ---- with several SGEs ---- */

static int
do_readv(struct rpma_conn *conn, const struct rpma_sge *pieces, int count, struct rpma_mr_remote *remote,
	size_t offset, int flags)
{
	return rpma_readv(conn, pieces, count, remote, offset, flags, ctx(1));
}

static int
do_writev(struct rpma_conn *conn, const struct rpma_sge *pieces, int count, struct rpma_mr_remote *remote,
	size_t offset, int flags)
{
	return rpma_writev(conn, remote, offset, pieces, count, flags, ctx(1));
}

static const struct {
	int (*post)(struct rpma_conn *conn, const struct rpma_sge *pieces, int count,
		struct rpma_mr_remote *remote, size_t offset, int flags);
	enum ibv_wr_opcode opcode;
} vectors[] = {
	{ do_readv, IBV_WR_RDMA_READ },
	{ do_writev, IBV_WR_RDMA_WRITE },
};

static void
transfers_in_pieces(void **state)
{
	(void)state;
	enum { SMALL, LARGE, NONE };
	static const struct {
		struct {
			int mr;
			size_t offset, len;
		} pieces[PIECES + 1];
		int count;
		size_t remote_offset; /* in the large region */
		int flags, ret;
		int posted; /* number of SGEs that are not empty */
	} table[] = {
		{ { { SMALL, 0, 64 } }, 1, 0, ALWAYS, 0, 1 },
		{ { { SMALL, 0, 64 } }, 1, 0, ON_ERROR | FENCE, 0, 1 },
		{ { { SMALL, 1, 2 }, { LARGE, 3, 4 }, { SMALL, 60, 4 } }, 3, 5, ALWAYS, 0, 3 },
		{ { { SMALL, 1, 2 }, { LARGE, 3, 0 }, { SMALL, 64, 0 } }, 3, 5, ALWAYS, 0, 1 },
		{ { { LARGE, 0, 4000 }, { LARGE, 4000, 96 } }, 2, 4096, ALWAYS, 0, 2 },
		{ { { SMALL, 0, 0 } }, 1, 2 * MOCK_MAX_MSG, ALWAYS, 0, 0 },
		{ { { 0, 0, 0 } }, 0, 0, ALWAYS, 0, 0 },
		/* flags */
		{ { { SMALL, 0, 64 } }, 1, 0, 0, RPMA_E_INVAL, 0 },
		{ { { SMALL, 0, 64 } }, 1, 0, ALWAYS | 1 << 4, RPMA_E_INVAL, 0 },
		/* the number of SGEs */
		{ { { SMALL, 0, 1 }, { SMALL, 0, 1 }, { SMALL, 0, 1 }, { SMALL, 0, 1 } }, 4, 0, ALWAYS,
			RPMA_E_INVAL, 0 },
		{ { { SMALL, 0, 1 } }, -1, 0, ALWAYS, RPMA_E_INVAL, 0 },
		{ { { SMALL, 0, 1 } }, INT32_MIN, 0, ALWAYS, RPMA_E_INVAL, 0 },
		/* the range of each SGE */
		{ { { SMALL, 0, 1 }, { NONE, 0, 1 } }, 2, 0, ALWAYS, RPMA_E_INVAL, 0 },
		{ { { SMALL, 0, 1 }, { SMALL, 0, 65 } }, 2, 0, ALWAYS, RPMA_E_INVAL, 0 },
		{ { { SMALL, 0, 1 }, { SMALL, 65, 0 } }, 2, 0, ALWAYS, RPMA_E_INVAL, 0 },
		{ { { SMALL, 0, 1 }, { SMALL, 2, SIZE_MAX } }, 2, 0, ALWAYS, RPMA_E_INVAL, 0 },
		{ { { LARGE, 0, MOCK_MAX_MSG + 1 } }, 1, 0, ALWAYS, RPMA_E_INVAL, 0 },
		/* the range of their sum */
		{ { { LARGE, 0, 4000 }, { LARGE, 4000, 97 } }, 2, 0, ALWAYS, RPMA_E_INVAL, 0 },
		{ { { SMALL, 0, 8 }, { SMALL, 0, 9 } }, 2, sizeof(large) - 16, ALWAYS, RPMA_E_INVAL, 0 },
		{ { { SMALL, 0, 1 } }, 1, SIZE_MAX, ALWAYS, RPMA_E_INVAL, 0 },
		{ { { 0, 0, 0 } }, 0, sizeof(large) + 1, ALWAYS, RPMA_E_INVAL, 0 },
	};
	for (size_t v = 0; v < ROWS(vectors); v++) {
		for (size_t i = 0; i < ROWS(table); i++) {
			struct rpma_mr_local *const mrs[] = { f.mr, f.large, NULL };
			struct rpma_sge pieces[PIECES + 1];
			for (int p = 0; p <= PIECES; p++)
				pieces[p] = (struct rpma_sge){ mrs[table[i].pieces[p].mr],
					table[i].pieces[p].offset, table[i].pieces[p].len };
			const int errors = mock.logged[RPMA_LOG_LEVEL_ERROR];
			forget_posts();
			int ret = vectors[v].post(f.conn, pieces, table[i].count, f.large_remote,
				table[i].remote_offset, table[i].flags);
			if (ret != table[i].ret)
				fail_msg("vector %zu, row %zu: %d", v, i, ret);
			assert_int_equal(mock.sends, ret == 0);
			assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors + (ret != 0));
			if (ret)
				continue;

			assert_posted(0, (int)vectors[v].opcode, ctx(1));
			assert_int_equal(mock.send_wr.send_flags,
				table[i].flags == ALWAYS ? IBV_SEND_SIGNALED : IBV_SEND_FENCE);
			assert_int_equal(mock.send_wr.num_sge, table[i].posted);
			assert_true(mock.send_wr.wr.rdma.remote_addr == RADDR + table[i].remote_offset);
			assert_true(mock.send_wr.wr.rdma.rkey == MOCK_RKEY);
			for (int p = 0; p < table[i].posted; p++) {
				const char *base = table[i].pieces[p].mr == LARGE ? large : memory;
				const struct ibv_sge *sge = &mock.chain[0].sge[p];
				assert_true(sge->addr == (uintptr_t)base + table[i].pieces[p].offset);
				assert_int_equal(sge->length, table[i].pieces[p].len);
				assert_int_equal(sge->lkey, MOCK_LKEY);
			}
		}
		struct rpma_sge piece = { f.mr, 0, 8 };
		forget_posts();
		assert_fails(RPMA_E_INVAL, vectors[v].post(NULL, &piece, 1, f.remote, 0, ALWAYS));
		assert_fails(RPMA_E_INVAL, vectors[v].post(f.conn, &piece, 1, NULL, 0, ALWAYS));
		assert_fails(RPMA_E_INVAL, vectors[v].post(f.conn, NULL, 1, f.remote, 0, ALWAYS));
		assert_int_equal(mock.rung, 0);
		assert_ok(vectors[v].post(f.conn, NULL, 0, f.remote, 0, ALWAYS));
		fail_next("post_send", EIO);
		assert_fails(RPMA_E_PROVIDER, vectors[v].post(f.conn, &piece, 1, f.remote, 0, ALWAYS));
	}
}

/* a connection with the default configuration takes one SGE */
static void
one_piece_by_default(void **state)
{
	(void)state;
	struct rpma_conn *conn = mock_conn(f.peer, NULL);
	const struct rpma_sge pieces[] = { { f.mr, 0, 8 }, { f.mr, 8, 8 } };
	assert_ok(rpma_writev(conn, f.remote, 0, pieces, 1, ALWAYS, NULL));
	assert_fails(RPMA_E_INVAL, rpma_writev(conn, f.remote, 0, pieces, 2, ALWAYS, NULL));
	assert_fails(RPMA_E_INVAL, rpma_readv(conn, pieces, 2, f.remote, 0, ALWAYS, NULL));
	assert_ok(rpma_conn_delete(&conn));
}

/* ---- inline ---- */

static void
writes_inline(void **state)
{
	(void)state;
	static const struct {
		size_t offset, len;
		int flags, ret;
	} table[] = {
		{ 0, 1, ALWAYS, 0 },
		{ 7, INLINE_SIZE, ALWAYS, 0 },
		{ 64 - INLINE_SIZE, INLINE_SIZE, ON_ERROR | FENCE, 0 },
		{ 64, 0, ALWAYS, 0 },
		{ 0, INLINE_SIZE + 1, ALWAYS, RPMA_E_INVAL },
		{ 0, SIZE_MAX, ALWAYS, RPMA_E_INVAL },
		{ 0, (1ULL << 32) + 8, ALWAYS, RPMA_E_INVAL },
		{ 65, 0, ALWAYS, RPMA_E_INVAL },
		{ 33, INLINE_SIZE, ALWAYS, RPMA_E_INVAL },
		{ SIZE_MAX, 2, ALWAYS, RPMA_E_INVAL },
		{ 0, 8, 0, RPMA_E_INVAL },
		{ 0, 8, FENCE, RPMA_E_INVAL },
		{ 0, 8, ALWAYS | 1 << 4, RPMA_E_INVAL },
	};
	char src[INLINE_SIZE + 1];
	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (char)(i + 1);
	for (int with_imm = 0; with_imm < 2; with_imm++) {
		for (size_t i = 0; i < ROWS(table); i++) {
			const int errors = mock.logged[RPMA_LOG_LEVEL_ERROR];
			forget_posts();
			int ret = with_imm ? rpma_write_inline_with_imm(f.conn, f.remote, table[i].offset,
						     src, table[i].len, table[i].flags, IMM, ctx(1))
					   : rpma_write_inline(f.conn, f.remote, table[i].offset, src,
						     table[i].len, table[i].flags, ctx(1));
			if (ret != table[i].ret)
				fail_msg("with_imm %d, row %zu: %d", with_imm, i, ret);
			assert_int_equal(mock.sends, ret == 0);
			assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors + (ret != 0));
			if (ret)
				continue;

			assert_posted(0, with_imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, ctx(1));
			if (with_imm)
				assert_int_equal(ntohl(mock.send_wr.imm_data), IMM);
			assert_int_equal(mock.send_wr.send_flags,
				IBV_SEND_INLINE |
					(table[i].flags == ALWAYS ? IBV_SEND_SIGNALED : IBV_SEND_FENCE));
			assert_true(mock.send_wr.wr.rdma.remote_addr == RADDR + table[i].offset);
			assert_true(mock.send_wr.wr.rdma.rkey == MOCK_RKEY);
			assert_int_equal(mock.send_wr.num_sge, table[i].len > 0);
			if (table[i].len) {
				assert_int_equal(mock.send_sge.length, table[i].len);
				assert_memory_equal(mock.send_inline, src, table[i].len);
			}
		}
	}
	forget_posts();
	assert_fails(RPMA_E_INVAL, rpma_write_inline(NULL, f.remote, 0, src, 8, ALWAYS, NULL));
	assert_fails(RPMA_E_INVAL, rpma_write_inline(f.conn, NULL, 0, src, 8, ALWAYS, NULL));
	assert_fails(RPMA_E_INVAL, rpma_write_inline(f.conn, f.remote, 0, NULL, 8, ALWAYS, NULL));
	assert_fails(RPMA_E_INVAL, rpma_write_inline_with_imm(NULL, f.remote, 0, src, 8, ALWAYS, IMM, NULL));
	assert_fails(RPMA_E_INVAL, rpma_write_inline_with_imm(f.conn, NULL, 0, src, 8, ALWAYS, IMM, NULL));
	assert_fails(RPMA_E_INVAL,
		rpma_write_inline_with_imm(f.conn, f.remote, 0, NULL, 8, ALWAYS, IMM, NULL));
	assert_int_equal(mock.rung, 0);
	assert_ok(rpma_write_inline(f.conn, f.remote, 0, NULL, 0, ALWAYS, NULL));
	assert_ok(rpma_write_inline_with_imm(f.conn, f.remote, 0, NULL, 0, ALWAYS, IMM, NULL));
	fail_next("post_send", ENOMEM);
	assert_fails(RPMA_E_PROVIDER, rpma_write_inline(f.conn, f.remote, 0, src, 8, ALWAYS, NULL));
	assert_non_null(strstr(mock.last_log, "queue is full"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		plain_test(transfers_between_regions),
		plain_test(transfers_in_pieces),
		plain_test(one_piece_by_default),
		plain_test(writes_inline),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
