/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* completion.c -- completions, translated and returned one at a time: the shorthands of the 0.9 manual */

#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

#include "completion.h"
#include "conn.h"
#include "err.h"

static_assert(COMPLETION_SIZE_0_9 == 20, "the layout of 0.9");
static_assert(sizeof(struct rpma_completion) == 32, "the layout of 0.10");

static bool
opcode_to_op(int opcode, enum rpma_op *op)
{
	switch (opcode) {
	case IBV_WC_RDMA_READ:
		*op = RPMA_OP_READ;
		return true;
	case IBV_WC_RDMA_WRITE:
	case RPMAI_WC_ATOMIC_WRITE:
		*op = RPMA_OP_WRITE;
		return true;
	case RPMAI_WC_FLUSH:
		*op = RPMA_OP_FLUSH;
		return true;
	case IBV_WC_SEND:
		*op = RPMA_OP_SEND;
		return true;
	case IBV_WC_RECV:
		*op = RPMA_OP_RECV;
		return true;
	case IBV_WC_RECV_RDMA_WITH_IMM:
		*op = RPMA_OP_RECV_RDMA_WITH_IMM;
		return true;
	case IBV_WC_COMP_SWAP:
	case IBV_WC_FETCH_ADD:
		*op = RPMA_OP_ATOMIC;
		return true;
	default:
		return false;
	}
}

static int
get_completion(struct rpma_cq *cq, struct rpma_completion *cmpl, size_t size)
{
	assert(size == COMPLETION_SIZE_0_9 || size == sizeof(*cmpl));

	struct ibv_wc wc = { 0 };
	int ret = rpma_cq_get_wc(cq, 1, &wc, NULL);
	if (ret)
		return ret;

	/* the device sets nothing else for a failed operation */
	if (wc.status != IBV_WC_SUCCESS) {
		cmpl->op_context = (void *)(uintptr_t)wc.wr_id;
		cmpl->op_status = wc.status;
		return 0;
	}

	struct rpma_completion got;
	memset(&got, 0, sizeof(got));
	/* message(post): rpma_cq_get_completion(3) -> Use rpma_cq_get_wc(3). */
	if (!opcode_to_op((int)wc.opcode, &got.op))
		return RPMAI_FAIL(RPMA_E_NOSUPP,
			"a completion of opcode %d, which is unknown to this version", (int)wc.opcode);

	got.op_context = (void *)(uintptr_t)wc.wr_id;
	got.byte_len = wc.byte_len;
	got.op_status = wc.status;
	got.flags = wc.wc_flags;
	got.imm = (wc.wc_flags & IBV_WC_WITH_IMM) ? ntohl(wc.imm_data) : 0;
	memcpy(cmpl, &got, size);
	return 0;
}

int
rpmai_conn_completion_get(struct rpma_conn *conn, struct rpma_completion *cmpl, size_t size)
{
	if (conn == NULL || cmpl == NULL)
		return RPMAI_FAIL_NULL();

	return get_completion(conn->cq, cmpl, size);
}

int
rpma_cq_get_completion(struct rpma_cq *cq, struct rpma_completion *cmpl)
{
	if (cq == NULL || cmpl == NULL)
		return RPMAI_FAIL_NULL();

	return get_completion(cq, cmpl, sizeof(*cmpl));
}

int
rpma_conn_get_completion_fd(const struct rpma_conn *conn, int *fd)
{
	if (conn == NULL || fd == NULL)
		return RPMAI_FAIL_NULL();

	return rpma_cq_get_fd(conn->cq, fd);
}

int
rpma_conn_completion_wait(struct rpma_conn *conn)
{
	if (conn == NULL)
		return RPMAI_FAIL_NULL();

	return rpma_cq_wait(conn->cq);
}
