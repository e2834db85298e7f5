/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_message.c -- messages: which are refused, and which are posted */

#include <arpa/inet.h>

#include "posting.h"

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
		{ true, 0, 64, 1 << 4, RPMA_E_INVAL },
	};
	for (int kind = 0; kind < KINDS; kind++) {
		for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
			struct rpma_mr_local *mr = table[i].has_mr ? f.mr : NULL;
			const size_t offset = table[i].offset, len = table[i].len;
			const int flags = table[i].flags;
			int ret;
			if (kind == RECV && (flags == 0 || flags == 1 << 4))
				continue; /* it has none */
			mock.sends = mock.recvs = 0;
			if (kind == SEND)
				ret = rpma_send(f.conn, mr, offset, len, flags, ctx(1));
			else if (kind == SEND_IMM)
				ret = rpma_send_with_imm(f.conn, mr, offset, len, flags, IMM, ctx(1));
			else
				ret = rpma_recv(f.conn, mr, offset, len, ctx(1));
			assert_int_equal(ret, table[i].ret);
			assert_int_equal(kind == RECV ? mock.recvs : mock.sends, ret == 0);
			if (ret)
				continue;
			const struct ibv_sge *sge = kind == RECV ? &mock.recv_sge : &mock.send_sge;
			assert_int_equal(kind == RECV ? mock.recv_wr.num_sge : mock.send_wr.num_sge, len > 0);
			assert_true((kind == RECV ? mock.recv_wr.wr_id : mock.send_wr.wr_id) ==
				(uintptr_t)ctx(1));
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
		NULL)); /* a buffer longer than the message is no error */
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
messages_inline(void **state)
{
	(void)state;
	static const struct {
		size_t len;
		int flags, ret;
	} table[] = {
		{ 1, ALWAYS, 0 },
		{ INLINE_SIZE, ON_ERROR | FENCE, 0 },
		{ 0, ALWAYS, 0 },
		{ INLINE_SIZE + 1, ALWAYS, RPMA_E_INVAL },
		{ SIZE_MAX, ALWAYS, RPMA_E_INVAL },
		{ (1ULL << 32) + 8, ALWAYS, RPMA_E_INVAL },
		{ 8, 0, RPMA_E_INVAL },
		{ 8, MORE, RPMA_E_INVAL },
		{ 8, ALWAYS | 1 << 4, RPMA_E_INVAL },
	};
	char src[INLINE_SIZE];
	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (char)(0x40 + i);
	for (size_t i = 0; i < ROWS(table); i++) {
		const int errors = mock.logged[RPMA_LOG_LEVEL_ERROR];
		forget_posts();
		assert_int_equal(rpma_send_inline(f.conn, src, table[i].len, table[i].flags, ctx(1)),
			table[i].ret);
		assert_int_equal(mock.sends, table[i].ret == 0);
		assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors + (table[i].ret != 0));
		if (table[i].ret)
			continue;
		assert_posted(0, IBV_WR_SEND, ctx(1));
		assert_int_equal(mock.send_wr.send_flags,
			IBV_SEND_INLINE | (table[i].flags == ALWAYS ? IBV_SEND_SIGNALED : IBV_SEND_FENCE));
		assert_int_equal(mock.send_wr.num_sge, table[i].len > 0);
		if (table[i].len) {
			assert_int_equal(mock.send_sge.length, table[i].len);
			assert_memory_equal(mock.send_inline, src, table[i].len);
		}
	}
	forget_posts();
	assert_fails(RPMA_E_INVAL, rpma_send_inline(NULL, src, 8, ALWAYS, NULL));
	assert_fails(RPMA_E_INVAL, rpma_send_inline(f.conn, NULL, 8, ALWAYS, NULL));
	assert_int_equal(mock.rung, 0);
	assert_ok(rpma_send_inline(f.conn, NULL, 0, ALWAYS, NULL));
	fail_next("post_send", EIO);
	assert_fails(RPMA_E_PROVIDER, rpma_send_inline(f.conn, src, 8, ALWAYS, NULL));
}

/* 8 bytes inline are always possible, because atomic writes need them */
static void
eight_bytes_inline_by_default(void **state)
{
	(void)state;
	const char src[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	struct rpma_conn_cfg *cfg = NULL;
	assert_ok(rpma_conn_cfg_new(&cfg));
	assert_ok(rpma_conn_cfg_set_inline_size(cfg, 0));
	for (int none = 0; none < 2; none++) {
		struct rpma_conn *conn = mock_conn(f.peer, none ? cfg : NULL);
		assert_int_equal(mock.qp_attr.cap.max_inline_data, 8);
		assert_ok(rpma_send_inline(conn, src, 8, ALWAYS, NULL));
		assert_fails(RPMA_E_INVAL, rpma_send_inline(conn, src, 9, ALWAYS, NULL));
		assert_ok(rpma_conn_delete(&conn));
	}
	assert_ok(rpma_conn_cfg_delete(&cfg));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		plain_test(messages),
		plain_test(a_receive_too_long_for_verbs),
		plain_test(messages_inline),
		plain_test(eight_bytes_inline_by_default),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
