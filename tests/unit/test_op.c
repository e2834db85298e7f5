/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_op.c -- the operations: what is refused, and what is posted */

#include <arpa/inet.h>

#include "mock.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
#define IMM 0x01020304u

static char memory[64];
static char large[2 * MOCK_MAX_MSG];
static int context;

static struct {
	struct rpma_peer *peer;
	struct rpma_conn *conn;
	struct rpma_mr_local *mr, *large;
	struct rpma_mr_remote *remote, *large_remote;
} f;

static int
setup(void **state)
{
	mock_setup(state);
	f.peer = mock_peer();
	f.conn = mock_conn(f.peer, NULL);
	assert_ok(rpma_mr_reg(f.peer, memory, sizeof(memory), 0xFF, &f.mr));
	assert_ok(rpma_mr_reg(f.peer, large, sizeof(large), 0xFF, &f.large));
	f.remote = mock_remote(64, 0xFF, true, 0);
	f.large_remote = mock_remote(sizeof(large), 0xFF, true, 0);
	return 0;
}

static int
teardown(void **state)
{
	rpma_mr_dereg(&f.mr);
	rpma_mr_dereg(&f.large);
	rpma_mr_remote_delete(&f.remote);
	rpma_mr_remote_delete(&f.large_remote);
	rpma_conn_delete(&f.conn);
	rpma_peer_delete(&f.peer);
	return mock_teardown(state);
}

/* the three transfers between regions, with one signature */
typedef int transfer(struct rpma_conn *conn, struct rpma_mr_local *local, size_t local_offset,
	struct rpma_mr_remote *remote, size_t remote_offset, size_t len, int flags);

static int
do_read(struct rpma_conn *conn, struct rpma_mr_local *local, size_t local_offset,
	struct rpma_mr_remote *remote, size_t remote_offset, size_t len, int flags)
{
	return rpma_read(conn, local, local_offset, remote, remote_offset, len, flags, &context);
}

static int
do_write(struct rpma_conn *conn, struct rpma_mr_local *local, size_t local_offset,
	struct rpma_mr_remote *remote, size_t remote_offset, size_t len, int flags)
{
	return rpma_write(conn, remote, remote_offset, local, local_offset, len, flags, &context);
}

static int
do_write_with_imm(struct rpma_conn *conn, struct rpma_mr_local *local, size_t local_offset,
	struct rpma_mr_remote *remote, size_t remote_offset, size_t len, int flags)
{
	return rpma_write_with_imm(conn, remote, remote_offset, local, local_offset, len, flags, IMM,
		&context);
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
		int local, remote; /* which */
		size_t local_offset, remote_offset, len;
		int flags, ret;
	} table[] = {
		{ 0, 0, 0, 0, 64, ALWAYS, 0 },
		{ 0, 0, 0, 0, 64, ON_ERROR, 0 },
		{ 0, 0, 3, 5, 7, ALWAYS, 0 },
		{ 0, 0, 64, 64, 0, ALWAYS, 0 },
		{ LARGE, LARGE, 0, 0, MOCK_MAX_MSG, ALWAYS, 0 },
		{ NONE, NONE, 0, 0, 0, ALWAYS, 0 },
		/* flags */
		{ 0, 0, 0, 0, 64, 0, RPMA_E_INVAL },
		{ 0, 0, 0, 0, 64, 1 << 2, RPMA_E_INVAL },
		{ 0, 0, 0, 0, 64, ALWAYS | 1 << 2, RPMA_E_INVAL },
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
		/* 4 GiB more than 64: the length that the 32 bits of verbs would make of it is inside */
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
			assert_true(wr->wr_id == (uintptr_t)&context);
			assert_int_equal(wr->send_flags, table[i].flags == ALWAYS ? IBV_SEND_SIGNALED : 0);
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

static void
messages(void **state)
{
	(void)state;
	enum { SEND, SEND_IMM, RECV, KINDS };
	static const struct {
		bool has_mr;
		size_t offset, len;
		int flags, ret;
	} table[] = {
		{ true, 0, 64, ALWAYS, 0 },
		{ true, 1, 63, ON_ERROR, 0 },
		{ true, 64, 0, ALWAYS, 0 },
		{ false, 0, 0, ALWAYS, 0 },
		{ false, 1, 0, ALWAYS, RPMA_E_INVAL },
		{ false, 0, 1, ALWAYS, RPMA_E_INVAL },
		{ true, 0, 65, ALWAYS, RPMA_E_INVAL },
		{ true, 65, 0, ALWAYS, RPMA_E_INVAL },
		{ true, 2, SIZE_MAX, ALWAYS, RPMA_E_INVAL },
		{ true, SIZE_MAX, 2, ALWAYS, RPMA_E_INVAL },
		{ true, 0, 64, 0, RPMA_E_INVAL },
		{ true, 0, 64, 1 << 3, RPMA_E_INVAL },
	};
	for (int kind = 0; kind < KINDS; kind++) {
		for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
			struct rpma_mr_local *mr = table[i].has_mr ? f.mr : NULL;
			const size_t offset = table[i].offset, len = table[i].len;
			const int flags = table[i].flags;
			int ret;
			if (kind == RECV && (flags == 0 || flags == 1 << 3))
				continue; /* it has none */
			mock.sends = mock.recvs = 0;
			if (kind == SEND)
				ret = rpma_send(f.conn, mr, offset, len, flags, &context);
			else if (kind == SEND_IMM)
				ret = rpma_send_with_imm(f.conn, mr, offset, len, flags, IMM, &context);
			else
				ret = rpma_recv(f.conn, mr, offset, len, &context);
			assert_int_equal(ret, table[i].ret);
			assert_int_equal(kind == RECV ? mock.recvs : mock.sends, ret == 0);
			if (ret)
				continue;
			const struct ibv_sge *sge = kind == RECV ? &mock.recv_sge : &mock.send_sge;
			assert_int_equal(kind == RECV ? mock.recv_wr.num_sge : mock.send_wr.num_sge, len > 0);
			assert_true((kind == RECV ? mock.recv_wr.wr_id : mock.send_wr.wr_id) ==
				(uintptr_t)&context);
			if (len)
				assert_true(sge->addr == (uintptr_t)memory + offset && sge->length == len);
			if (kind == SEND_IMM) {
				assert_int_equal(mock.send_wr.opcode, IBV_WR_SEND_WITH_IMM);
				assert_int_equal(ntohl(mock.send_wr.imm_data), IMM);
			}
			if (kind == SEND)
				assert_int_equal(mock.send_wr.opcode, IBV_WR_SEND);
		}
	}
	assert_fails(RPMA_E_INVAL, rpma_send(NULL, f.mr, 0, 1, ALWAYS, NULL));
	assert_fails(RPMA_E_INVAL, rpma_send_with_imm(NULL, f.mr, 0, 1, ALWAYS, IMM, NULL));
	assert_fails(RPMA_E_INVAL, rpma_recv(NULL, f.mr, 0, 1, NULL));
	assert_fails(RPMA_E_INVAL, rpma_send(f.conn, f.large, 0, MOCK_MAX_MSG + 1, ALWAYS, NULL));
	assert_ok(rpma_recv(f.conn, f.large, 0, sizeof(large),
		NULL)); /* more room than a message needs is no error */
	mock.fail_call = "post_recv";
	assert_fails(RPMA_E_PROVIDER, rpma_recv(f.conn, f.mr, 0, 1, NULL));
}

static void
a_receive_too_long_for_verbs(void **state)
{
	(void)state;
	struct ibv_mr huge = { .addr = memory, .length = (1ULL << 33) };
	struct rpma_mr_local mr = { .peer = f.peer, .ibv_mr = &huge, .usage = RPMA_MR_USAGE_RECV };
	assert_fails(RPMA_E_INVAL, rpma_recv(f.conn, &mr, 0, (1ULL << 32) + 1, NULL));
	assert_ok(rpma_recv(f.conn, &mr, 0, UINT32_MAX, NULL));
}

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
		int ret = rpma_atomic_write(f.conn, f.remote, table[i].offset, src, table[i].flags, &context);
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
		ret = rpma_write_atomic(f.conn, f.remote, table[i].offset, f.mr, 3, table[i].flags, &context);
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
		assert_ok(rpma_atomic_write(conn, mr, 8, src, ALWAYS, &context));
		assert_int_equal(mock.atomics, table[i].native);
		assert_int_equal(mock.sends, !table[i].native);
		rpma_mr_remote_delete(&mr);
	}
	assert_memory_equal(mock.atomic, src, 8);
	assert_int_equal(mock.atomic_flags, IBV_SEND_FENCE | IBV_SEND_SIGNALED);
	assert_true(mock.flush.raddr == 0x10000 + 8);

	struct rpma_mr_remote *mr = mock_remote(64, 0xFF, true, MR_CAP_NATIVE_ATOMIC_WRITE);
	mock.fail_call = "post_atomic_write";
	assert_fails(RPMA_E_PROVIDER, rpma_atomic_write(conn, mr, 8, src, ALWAYS, &context));
	rpma_mr_remote_delete(&mr);
	rpma_conn_delete(&conn);
	rpma_peer_delete(&peer);
}

#define op_test(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		op_test(transfers_between_regions),
		op_test(messages),
		op_test(a_receive_too_long_for_verbs),
		op_test(atomic_writes),
		op_test(a_native_atomic_write_needs_both_sides),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
