/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* rw.c -- reads and writes of remote memory: one region, several segments, inline data */

#include <arpa/inet.h>

#include "conn.h"
#include "err.h"
#include "op.h"

/* counts an operation if it was posted */
ALWAYS_INLINE int
count_read(struct rpma_conn *conn, int ret, size_t len)
{
	if (ret == 0) {
		rpmai_stats_add(&conn->stats.reads, 1);
		rpmai_stats_add(&conn->stats.bytes_read, len);
	}
	return ret;
}

ALWAYS_INLINE int
count_write(struct rpma_conn *conn, int ret, size_t len)
{
	if (ret == 0) {
		rpmai_stats_add(&conn->stats.writes, 1);
		rpmai_stats_add(&conn->stats.bytes_written, len);
	}
	return ret;
}

/* posts a transfer of 0 bytes without memory; it completes like any other */
static int
post_nothing(struct rpma_conn *conn, struct work_request *req, const struct rpma_mr_local *local,
	size_t local_offset, const struct rpma_mr_remote *remote, size_t remote_offset, size_t len, int flags)
{
	if (local || remote)
		return RPMAI_FAIL_NULL();
	/* message(no-region) */
	if (local_offset || remote_offset || len)
		return RPMAI_FAIL(RPMA_E_INVAL, "without memory regions, give 0 as offsets and length");
	req->wr.wr.rdma.remote_addr = 0;
	req->wr.wr.rdma.rkey = 0;
	rpmai_op_trace(conn, req, len);
	return rpmai_op_post(conn, req, flags);
}

/* transfers between a local and a remote region; if both are NULL, transfers 0 bytes */
ALWAYS_INLINE int
post_transfer(struct rpma_conn *conn, struct work_request *req, const struct rpma_mr_local *local,
	size_t local_offset, const struct rpma_mr_remote *remote, size_t remote_offset, size_t len, int flags)
{
	if (local == NULL || remote == NULL)
		return post_nothing(conn, req, local, local_offset, remote, remote_offset, len, flags);

	int ret = rpmai_op_add_local(conn, req, local, local_offset, len);
	if (ret)
		return ret;
	ret = rpmai_op_add_remote(req, remote, remote_offset, len);
	if (ret)
		return ret;
	rpmai_op_trace(conn, req, len);
	return rpmai_op_post(conn, req, flags);
}

int
rpma_read(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t dst_offset,
	const struct rpma_mr_remote *src, size_t src_offset, size_t len, int flags, const void *op_context)
{
	if (conn == NULL)
		return RPMAI_FAIL_NULL();

	int ret = rpmai_op_check_flags(flags);
	if (ret)
		return ret;

	struct work_request req;
	rpmai_op_init(&req, IBV_WR_RDMA_READ, flags, op_context);
	ret = post_transfer(conn, &req, dst, dst_offset, src, src_offset, len, flags);
	return count_read(conn, ret, len);
}

ALWAYS_INLINE int
write_region(struct rpma_conn *conn, enum ibv_wr_opcode opcode, const struct rpma_mr_remote *dst,
	size_t dst_offset, const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags,
	uint32_t imm, const void *op_context)
{
	if (conn == NULL)
		return RPMAI_FAIL_NULL();

	int ret = rpmai_op_check_flags(flags);
	if (ret)
		return ret;

	struct work_request req;
	rpmai_op_init(&req, (int)opcode, flags, op_context);
	if (opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		req.wr.imm_data = htonl(imm);
	ret = post_transfer(conn, &req, src, src_offset, dst, dst_offset, len, flags);
	return count_write(conn, ret, len);
}

int
rpma_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, const void *op_context)
{
	return write_region(conn, IBV_WR_RDMA_WRITE, dst, dst_offset, src, src_offset, len, flags, 0,
		op_context);
}

int
rpma_write_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, uint32_t imm,
	const void *op_context)
{
	return write_region(conn, IBV_WR_RDMA_WRITE_WITH_IMM, dst, dst_offset, src, src_offset, len, flags,
		imm, op_context);
}

/* ---- several segments ---- */

static int
post_sges(struct rpma_conn *conn, struct work_request *req, const struct rpma_mr_remote *remote,
	size_t remote_offset, const struct rpma_sge *segments, int count, int flags, size_t *len)
{
	struct ibv_sge sges[MAX_SGE];
	int ret = rpmai_op_add_sges(conn, req, sges, segments, count, len);
	if (ret)
		return ret;
	ret = rpmai_op_add_remote(req, remote, remote_offset, *len);
	if (ret)
		return ret;
	rpmai_op_trace(conn, req, *len);
	return rpmai_op_post(conn, req, flags);
}

int
rpma_readv(struct rpma_conn *conn, const struct rpma_sge *dst, int dst_count,
	const struct rpma_mr_remote *src, size_t src_offset, int flags, const void *op_context)
{
	if (conn == NULL || src == NULL)
		return RPMAI_FAIL_NULL();

	int ret = rpmai_op_check_flags(flags);
	if (ret)
		return ret;

	struct work_request req;
	size_t len = 0;
	rpmai_op_init(&req, IBV_WR_RDMA_READ, flags, op_context);
	ret = post_sges(conn, &req, src, src_offset, dst, dst_count, flags, &len);
	return count_read(conn, ret, len);
}

int
rpma_writev(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const struct rpma_sge *src,
	int src_count, int flags, const void *op_context)
{
	if (conn == NULL || dst == NULL)
		return RPMAI_FAIL_NULL();

	int ret = rpmai_op_check_flags(flags);
	if (ret)
		return ret;

	struct work_request req;
	size_t len = 0;
	rpmai_op_init(&req, IBV_WR_RDMA_WRITE, flags, op_context);
	ret = post_sges(conn, &req, dst, dst_offset, src, src_count, flags, &len);
	return count_write(conn, ret, len);
}

/* ---- inline ---- */

static int
write_inline(struct rpma_conn *conn, enum ibv_wr_opcode opcode, const struct rpma_mr_remote *dst,
	size_t dst_offset, const void *src, size_t len, int flags, uint32_t imm, const void *op_context)
{
	if (conn == NULL || dst == NULL || (src == NULL && len > 0))
		return RPMAI_FAIL_NULL();

	int ret = rpmai_op_check_flags(flags);
	if (ret)
		return ret;

	struct work_request req;
	rpmai_op_init(&req, (int)opcode, flags, op_context);
	if (opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		req.wr.imm_data = htonl(imm);
	ret = rpmai_op_add_inline(conn, &req, src, len);
	if (ret)
		return ret;
	ret = rpmai_op_add_remote(&req, dst, dst_offset, len);
	if (ret)
		return ret;
	rpmai_op_trace(conn, &req, len);
	return count_write(conn, rpmai_op_post(conn, &req, flags), len);
}

int
rpma_write_inline(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const void *src,
	size_t len, int flags, const void *op_context)
{
	return write_inline(conn, IBV_WR_RDMA_WRITE, dst, dst_offset, src, len, flags, 0, op_context);
}

int
rpma_write_inline_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const void *src, size_t len, int flags, uint32_t imm, const void *op_context)
{
	return write_inline(conn, IBV_WR_RDMA_WRITE_WITH_IMM, dst, dst_offset, src, len, flags, imm,
		op_context);
}
