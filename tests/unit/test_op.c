/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_op.c -- shared by the calls that post operations: flags, ranges, SGEs, receives, lengths */

#include "op.h"
#include "posting.h"

static void
flags(void **state)
{
	(void)state;
	const int known = ALWAYS | MORE | FENCE;
	for (int value = -1; value < 64; value++) {
		const bool good = (value & ALWAYS) && (value & ~known) == 0;
		if (good)
			assert_ok(rpmai_op_check_flags(value));
		else
			assert_fails(RPMA_E_INVAL, rpmai_op_check_flags(value));
	}
	assert_fails(RPMA_E_INVAL, rpmai_op_check_flags(ALWAYS | INT32_MIN));
}

/* MORE has no equivalent in verbs */
static void
flags_of_verbs(void **state)
{
	(void)state;
	for (int value = 1; value < 16; value++) {
		struct work_request req;
		memset(&req, 0xA5, sizeof(req));
		rpmai_op_init(&req, IBV_WR_RDMA_READ, value, ctx(7));
		assert_int_equal(req.wr.opcode, IBV_WR_RDMA_READ);
		assert_true(req.wr.wr_id == (uintptr_t)ctx(7));
		assert_int_equal(req.wr.send_flags,
			((value & 2) ? IBV_SEND_SIGNALED : 0) | ((value & FENCE) ? IBV_SEND_FENCE : 0));
		assert_null(req.wr.next);
		assert_int_equal(req.wr.num_sge, 0);
	}
}

static void
the_result_of_posting_receives(void **state)
{
	(void)state;
	assert_ok(rpmai_op_posted("call()", 0));
	assert_fails(RPMA_E_PROVIDER, rpmai_op_posted("call()", ENOMEM));
	assert_non_null(strstr(mock.last_log, "call()"));
	assert_non_null(strstr(mock.last_log, "queue is full"));
	assert_fails(RPMA_E_PROVIDER, rpmai_op_posted("call()", EINVAL));
	assert_null(strstr(mock.last_log, "queue is full"));
}

static void
receives(void **state)
{
	(void)state;
	static const struct {
		bool has_mr;
		size_t offset, len;
		int ret;
	} table[] = {
		{ true, 0, 64, 0 },
		{ true, 64, 0, 0 },
		{ false, 0, 0, 0 },
		{ false, 1, 0, RPMA_E_INVAL },
		{ false, 0, 1, RPMA_E_INVAL },
		{ true, 1, 64, RPMA_E_INVAL },
		{ true, SIZE_MAX, 2, RPMA_E_INVAL },
	};
	for (size_t i = 0; i < ROWS(table); i++) {
		struct ibv_sge sge = { 0 };
		struct ibv_recv_wr wr;
		memset(&wr, 0xA5, sizeof(wr));
		const int errors = mock.logged[RPMA_LOG_LEVEL_ERROR];
		assert_int_equal(rpmai_op_prepare_recv(table[i].has_mr ? f.mr : NULL, table[i].offset,
					 table[i].len, ctx(3), &sge, &wr),
			table[i].ret);
		assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors + (table[i].ret != 0));
		if (table[i].ret)
			continue;
		assert_true(wr.wr_id == (uintptr_t)ctx(3));
		assert_null(wr.next);
		assert_int_equal(wr.num_sge, table[i].len > 0);
		if (table[i].len) {
			assert_ptr_equal(wr.sg_list, &sge);
			assert_true(sge.addr == (uintptr_t)memory + table[i].offset);
			assert_int_equal(sge.length, table[i].len);
			assert_int_equal(sge.lkey, MOCK_LKEY);
		}
	}
}

/*
 * The original library cuts a length to the 32 bits that verbs have for it, and transfers the remainder: 4 GiB
 * and 8 bytes become 8 bytes.
 */
static void
lengths_beyond_32_bits(void **state)
{
	(void)state;
	const size_t gib = (size_t)1 << 30;
	const size_t lengths[] = { UINT32_MAX, 4 * gib, 4 * gib + 8, 8 * gib };
	struct rpma_mr_local *mr = NULL;
	struct rpma_mr_remote *remote = mock_remote(8 * gib, 0xFF, true, 0);
	assert_ok(rpma_mr_reg(f.peer, memory, 8 * gib, 0xFF, &mr)); /* the mock device does not access it */

	for (size_t i = 0; i < ROWS(lengths); i++) {
		size_t len = lengths[i];
		assert_fails(RPMA_E_INVAL, rpma_read(f.conn, mr, 0, remote, 0, len, ALWAYS, NULL));
		assert_fails(RPMA_E_INVAL, rpma_write(f.conn, remote, 0, mr, 0, len, ALWAYS, NULL));
		assert_fails(RPMA_E_INVAL,
			rpma_write_with_imm(f.conn, remote, 0, mr, 0, len, ALWAYS, 1, NULL));
		assert_fails(RPMA_E_INVAL, rpma_send(f.conn, mr, 0, len, ALWAYS, NULL));
		assert_fails(RPMA_E_INVAL, rpma_send_with_imm(f.conn, mr, 0, len, ALWAYS, 1, NULL));
		if (len > UINT32_MAX)
			assert_fails(RPMA_E_INVAL, rpma_recv(f.conn, mr, 0, len, NULL));
	}
	assert_int_equal(mock.sends + mock.recvs, 0);

	rpma_mr_dereg(&mr);
	rpma_mr_remote_delete(&remote);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		plain_test(flags),
		plain_test(flags_of_verbs),
		plain_test(the_result_of_posting_receives),
		plain_test(receives),
		plain_test(lengths_beyond_32_bits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
