/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* message.c -- messages: sends and receives */

#include <arpa/inet.h>

#include "conn.h"
#include "err.h"
#include "op.h"

ALWAYS_INLINE int
post_message(struct rpma_conn *conn, struct work_request *req, size_t len, int flags)
{
	rpmai_op_trace(conn, req, len);
	int ret = rpmai_op_post(conn, req, flags);
	if (ret == 0) {
		rpmai_stats_add(&conn->stats.sends, 1);
		rpmai_stats_add(&conn->stats.bytes_sent, len);
	}
	return ret;
}

ALWAYS_INLINE int
send_region(struct rpma_conn *conn, enum ibv_wr_opcode opcode, const struct rpma_mr_local *src, size_t offset,
	size_t len, int flags, uint32_t imm, const void *op_context)
{
	if (conn == NULL)
		return RPMAI_FAIL_NULL();

	int ret = rpmai_op_check_flags(flags);
	if (ret)
		return ret;

	struct work_request req;
	rpmai_op_init(&req, (int)opcode, flags, op_context);
	if (opcode == IBV_WR_SEND_WITH_IMM)
		req.wr.imm_data = htonl(imm);
	if (src == NULL) {
		/* message(post, no-region): NULL as a region -> As they say. */
		if (offset || len)
			return RPMAI_FAIL(RPMA_E_INVAL,
				"without a memory region, give 0 as offset and length");
	} else {
		ret = rpmai_op_add_local(conn, &req, src, offset, len);
		if (ret)
			return ret;
	}
	return post_message(conn, &req, len, flags);
}

int
rpma_send(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
	const void *op_context)
{
	return send_region(conn, IBV_WR_SEND, src, offset, len, flags, 0, op_context);
}

int
rpma_send_with_imm(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len,
	int flags, uint32_t imm, const void *op_context)
{
	return send_region(conn, IBV_WR_SEND_WITH_IMM, src, offset, len, flags, imm, op_context);
}

int
rpma_send_inline(struct rpma_conn *conn, const void *src, size_t len, int flags, const void *op_context)
{
	if (conn == NULL || (src == NULL && len > 0))
		return RPMAI_FAIL_NULL();

	int ret = rpmai_op_check_flags(flags);
	if (ret)
		return ret;

	struct work_request req;
	rpmai_op_init(&req, IBV_WR_SEND, flags, op_context);
	ret = rpmai_op_add_inline(conn, &req, src, len);
	if (ret)
		return ret;
	return post_message(conn, &req, len, flags);
}

int
rpma_recv(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t offset, size_t len,
	const void *op_context)
{
	if (conn == NULL)
		return RPMAI_FAIL_NULL();

	return rpmai_op_recv(conn, dst, offset, len, op_context);
}
