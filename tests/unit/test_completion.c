/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_completion.c -- completions, translated one at a time */

#include <arpa/inet.h>

#include "completion.h"
#include "mock.h"

static struct {
	struct rpma_peer *peer;
	struct rpma_conn *conn;
	struct rpma_cq *cq;
} f;

static int
setup(void **state)
{
	mock_setup(state);
	f.peer = mock_peer();
	f.conn = mock_conn(f.peer, NULL);
	assert_ok(rpma_conn_get_cq(f.conn, &f.cq));
	return 0;
}

static int
teardown(void **state)
{
	rpma_conn_delete(&f.conn);
	rpma_peer_delete(&f.peer);
	return mock_teardown(state);
}

static void
arguments(void **state)
{
	(void)state;
	struct rpma_completion cmpl;
	int fd = 0;
	assert_fails(RPMA_E_INVAL, rpma_cq_get_completion(NULL, &cmpl));
	assert_fails(RPMA_E_INVAL, rpma_cq_get_completion(f.cq, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_completion_get(NULL, &cmpl));
	assert_fails(RPMA_E_INVAL, rpma_conn_completion_get(f.conn, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_completion_wait(NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_get_completion_fd(NULL, &fd));
	assert_fails(RPMA_E_INVAL, rpma_conn_get_completion_fd(f.conn, NULL));
	assert_int_equal(rpma_conn_completion_get(f.conn, &cmpl), RPMA_E_NO_COMPLETION);
	assert_int_equal(rpma_cq_get_completion(f.cq, &cmpl), RPMA_E_NO_COMPLETION);
	assert_int_equal(rpma_conn_completion_wait(f.conn), RPMA_E_NO_COMPLETION);
	mock.fail_call = "get_cq_event";
	assert_fails(RPMA_E_PROVIDER, rpma_conn_completion_wait(f.conn));
	mock.cq_event = f.cq->ibv_cq;
	assert_ok(rpma_conn_completion_wait(f.conn));
	assert_ok(rpma_conn_get_completion_fd(f.conn, &fd));
	assert_int_equal(fd, 2000);
}

static void
translation(void **state)
{
	(void)state;
	static const struct {
		int opcode, op;
	} table[] = {
		{ IBV_WC_RDMA_READ, RPMA_OP_READ },
		{ IBV_WC_RDMA_WRITE, RPMA_OP_WRITE },
		{ 9, RPMA_OP_WRITE },
		{ 8, RPMA_OP_FLUSH },
		{ IBV_WC_SEND, RPMA_OP_SEND },
		{ IBV_WC_RECV, RPMA_OP_RECV },
		{ IBV_WC_RECV_RDMA_WITH_IMM, RPMA_OP_RECV_RDMA_WITH_IMM },
		{ IBV_WC_COMP_SWAP, RPMA_OP_ATOMIC },
		{ IBV_WC_FETCH_ADD, RPMA_OP_ATOMIC },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct rpma_completion cmpl;
		memset(&cmpl, 0xEE, sizeof(cmpl));
		mock.wcs = 1;
		mock.wc[0] = (struct ibv_wc){ .wr_id = (uintptr_t)&f,
			.opcode = (enum ibv_wc_opcode)table[i].opcode,
			.byte_len = 33,
			.wc_flags = i % 2 ? IBV_WC_WITH_IMM : 0,
			.imm_data = htonl(0xABCD) };
		assert_ok(i % 3 ? rpma_conn_completion_get(f.conn, &cmpl)
				: rpma_cq_get_completion(f.cq, &cmpl));
		assert_ptr_equal(cmpl.op_context, &f);
		assert_int_equal(cmpl.op, table[i].op);
		assert_int_equal(cmpl.byte_len, 33);
		assert_int_equal(cmpl.op_status, IBV_WC_SUCCESS);
		assert_int_equal(cmpl.flags, i % 2 ? IBV_WC_WITH_IMM : 0);
		assert_int_equal(cmpl.imm, i % 2 ? 0xABCD : 0);
	}
}

static void
a_failed_one_says_only_whose(void **state)
{
	(void)state;
	struct rpma_completion cmpl, before;
	memset(&cmpl, 0xEE, sizeof(cmpl));
	before = cmpl;
	mock.wcs = 1;
	mock.wc[0] = (struct ibv_wc){ .wr_id = (uintptr_t)&f,
		.opcode = (enum ibv_wc_opcode)12345,
		.status = IBV_WC_REM_ACCESS_ERR };
	assert_ok(rpma_conn_completion_get(f.conn, &cmpl));
	assert_ptr_equal(cmpl.op_context, &f);
	assert_int_equal(cmpl.op_status, IBV_WC_REM_ACCESS_ERR);
	assert_true(cmpl.op == before.op && cmpl.byte_len == before.byte_len && cmpl.imm == before.imm);
}

static void
an_opcode_without_a_name(void **state)
{
	(void)state;
	struct rpma_completion cmpl = { .byte_len = 5 };
	mock.wcs = 1;
	mock.wc[0] = (struct ibv_wc){ .opcode = IBV_WC_BIND_MW };
	assert_fails(RPMA_E_NOSUPP, rpma_conn_completion_get(f.conn, &cmpl));
	assert_int_equal(cmpl.byte_len, 5);
	mock.wcs = -1;
	assert_fails(RPMA_E_PROVIDER, rpma_conn_completion_get(f.conn, &cmpl));
	mock.wcs = 2;
	assert_fails(RPMA_E_UNKNOWN, rpma_conn_completion_get(f.conn, &cmpl));

	mock.wcs = 1;
	assert_fails(RPMA_E_NOSUPP, rpma_cq_get_completion(f.cq, &cmpl));
	mock.wcs = -1;
	assert_fails(RPMA_E_PROVIDER, rpma_cq_get_completion(f.cq, &cmpl));
	mock.wcs = 2;
	assert_fails(RPMA_E_UNKNOWN, rpma_cq_get_completion(f.cq, &cmpl));
	assert_int_equal(cmpl.byte_len, 5);
}

static void
a_structure_of_0_9_is_not_overrun(void **state)
{
	(void)state;
	unsigned char buf[sizeof(struct rpma_completion)] __attribute__((aligned(8)));
	memset(buf, 0xEE, sizeof(buf));
	mock.wcs = 1;
	mock.wc[0] = (struct ibv_wc){ .wr_id = 7,
		.opcode = IBV_WC_RECV,
		.byte_len = 9,
		.wc_flags = IBV_WC_WITH_IMM,
		.imm_data = 1 };
	assert_ok(rpmai_conn_completion_get(f.conn, (struct rpma_completion *)(void *)buf,
		COMPLETION_SIZE_0_9));
	for (size_t i = COMPLETION_SIZE_0_9; i < sizeof(buf); i++)
		assert_int_equal(buf[i], 0xEE);
	const struct rpma_completion *cmpl = (const struct rpma_completion *)(const void *)buf;
	assert_true(cmpl->op == RPMA_OP_RECV && cmpl->byte_len == 9 && cmpl->op_status == IBV_WC_SUCCESS);
}

#define completion_test(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		completion_test(arguments),
		completion_test(translation),
		completion_test(a_failed_one_says_only_whose),
		completion_test(an_opcode_without_a_name),
		completion_test(a_structure_of_0_9_is_not_overrun),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
