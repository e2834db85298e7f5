/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * op.c -- the operations: checked, translated into one work request each, posted
 *
 * Ranges are checked here because a remote access error would break the connection, and truncating a length
 * to the 32 bits of verbs would lose data in silence. An empty operation carries no scatter/gather entry: an
 * entry of length 0 means 2 GiB to some devices.
 */

#include <arpa/inet.h>
#include <errno.h>

#include "conn.h"
#include "err.h"
#include "op.h"

static int
check_local(const struct rpma_mr_local *mr, size_t offset, size_t len)
{
	if (!rpmai_range_ok(mr->ibv_mr->length, offset, len))
		return RPMAI_FAIL(RPMA_E_INVAL,
			"%zu bytes at offset %zu: not within the %zu bytes of the local region", len, offset,
			mr->ibv_mr->length);
	return 0;
}

int
rpmai_op_check_remote(const struct rpma_mr_remote *mr, size_t offset, size_t len)
{
	if (!rpmai_range_ok(mr->desc.size, offset, len))
		return RPMAI_FAIL(RPMA_E_INVAL,
			"%zu bytes at offset %zu: not within the %llu bytes of the remote region", len,
			offset, (unsigned long long)mr->desc.size);
	return 0;
}

static int
check_message(const struct rpma_conn *conn, size_t len)
{
	if (len > conn->max_msg_size)
		return RPMAI_FAIL(RPMA_E_INVAL,
			"%zu bytes: more than the %u bytes that the port transfers at once", len,
			conn->max_msg_size);
	return 0;
}

int
rpmai_op_check_flags(int flags)
{
	if ((flags & RPMA_F_COMPLETION_ALWAYS) == 0 || (flags & ~RPMA_F_COMPLETION_ALWAYS))
		return RPMAI_FAIL(RPMA_E_INVAL, "flags 0x%x: not one of RPMA_F_COMPLETION_*",
			(unsigned)flags);
	return 0;
}

unsigned int
rpmai_op_send_flags(int flags)
{
	return (flags & RPMA_F_COMPLETION_ALWAYS & ~RPMA_F_COMPLETION_ON_ERROR) ? IBV_SEND_SIGNALED : 0;
}

int
rpmai_op_posted(const char *call, int errnum)
{
	if (errnum == 0)
		return 0;
	return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum,
		errnum == ENOMEM ? "the queue is full: collect completions first, or ask for a larger queue"
				 : NULL,
		"%s", call);
}

static struct ibv_sge
local_sge(const struct rpma_mr_local *mr, size_t offset, size_t len)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)mr->ibv_mr->addr + offset,
		.length = (uint32_t)len,
		.lkey = mr->ibv_mr->lkey,
	};
}

static int
post_send(struct rpma_conn *conn, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad_wr;
	return rpmai_op_posted("ibv_post_send()", ibv_post_send(conn->id->qp, wr, &bad_wr));
}

/* a transfer between a local and a remote region, or of nothing if both are NULL */
static int
post_rdma(struct rpma_conn *conn, enum ibv_wr_opcode opcode, const struct rpma_mr_local *local,
	size_t local_offset, const struct rpma_mr_remote *remote, size_t remote_offset, size_t len,
	unsigned int send_flags, int flags, uint32_t imm, const void *op_context)
{
	if (conn == NULL || (local == NULL) != (remote == NULL))
		return RPMAI_FAIL_NULL();

	int ret = rpmai_op_check_flags(flags);
	if (ret)
		return ret;

	struct ibv_sge sge;
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)op_context,
		.opcode = opcode,
		.send_flags = send_flags | rpmai_op_send_flags(flags),
		.imm_data = htonl(imm),
	};

	if (local == NULL) {
		if (local_offset || remote_offset || len)
			return RPMAI_FAIL(RPMA_E_INVAL,
				"without memory regions offsets and length must be 0");
		return post_send(conn, &wr);
	}

	ret = check_local(local, local_offset, len);
	if (ret)
		return ret;
	ret = rpmai_op_check_remote(remote, remote_offset, len);
	if (ret)
		return ret;
	ret = check_message(conn, len);
	if (ret)
		return ret;

	wr.wr.rdma.remote_addr = remote->desc.raddr + remote_offset;
	wr.wr.rdma.rkey = remote->desc.rkey;
	if (len) {
		sge = local_sge(local, local_offset, len);
		wr.sg_list = &sge;
		wr.num_sge = 1;
	}
	return post_send(conn, &wr);
}

int
rpma_read(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t dst_offset,
	const struct rpma_mr_remote *src, size_t src_offset, size_t len, int flags, const void *op_context)
{
	return post_rdma(conn, IBV_WR_RDMA_READ, dst, dst_offset, src, src_offset, len, 0, flags, 0,
		op_context);
}

int
rpma_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, const void *op_context)
{
	return post_rdma(conn, IBV_WR_RDMA_WRITE, src, src_offset, dst, dst_offset, len, 0, flags, 0,
		op_context);
}

int
rpma_write_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, uint32_t imm,
	const void *op_context)
{
	return post_rdma(conn, IBV_WR_RDMA_WRITE_WITH_IMM, src, src_offset, dst, dst_offset, len, 0, flags,
		imm, op_context);
}

static int
check_atomic_offset(size_t dst_offset)
{
	if (dst_offset % RPMA_ATOMIC_WRITE_ALIGNMENT)
		return RPMAI_FAIL(RPMA_E_INVAL, "offset %zu is no multiple of %d", dst_offset,
			RPMA_ATOMIC_WRITE_ALIGNMENT);
	return 0;
}

/*
 * The pointer that an atomic write moves must not become visible before the data it points to: the fence
 * holds it back until the flush (a read, where that is how it is done) before it is through.
 */
int
rpma_atomic_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const char src[8],
	int flags, const void *op_context)
{
	if (conn == NULL || dst == NULL || src == NULL)
		return RPMAI_FAIL_NULL();

	int ret = rpmai_op_check_flags(flags);
	if (ret)
		return ret;
	ret = check_atomic_offset(dst_offset);
	if (ret)
		return ret;
	ret = rpmai_op_check_remote(dst, dst_offset, RPMA_ATOMIC_WRITE_ALIGNMENT);
	if (ret)
		return ret;

	const uint64_t remote_addr = dst->desc.raddr + dst_offset;
	const unsigned int send_flags = IBV_SEND_FENCE | rpmai_op_send_flags(flags);

	if (conn->qp_ex && (conn->peer->caps & PEER_CAP_NATIVE_ATOMIC_WRITE) &&
		(dst->desc.caps & MR_CAP_NATIVE_ATOMIC_WRITE)) {
		int errnum = conn->peer->rdma->post_atomic_write(conn->qp_ex, (uintptr_t)op_context,
			send_flags, dst->desc.rkey, remote_addr, src);
		return rpmai_op_posted("posting an atomic write", errnum);
	}

	/* inline: taken out of src before the call returns, so src needs no registration */
	struct ibv_sge sge = { .addr = (uintptr_t)src, .length = RPMA_ATOMIC_WRITE_ALIGNMENT };
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)op_context,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = send_flags | IBV_SEND_INLINE,
		.wr.rdma = { .remote_addr = remote_addr, .rkey = dst->desc.rkey },
	};
	return post_send(conn, &wr);
}

int
rpma_write_atomic(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, int flags, const void *op_context)
{
	if (dst == NULL || src == NULL)
		return RPMAI_FAIL_NULL();

	int ret = check_atomic_offset(dst_offset);
	if (ret)
		return ret;

	return post_rdma(conn, IBV_WR_RDMA_WRITE, src, src_offset, dst, dst_offset,
		RPMA_ATOMIC_WRITE_ALIGNMENT, IBV_SEND_FENCE, flags, 0, op_context);
}

static int
post_message(struct rpma_conn *conn, enum ibv_wr_opcode opcode, const struct rpma_mr_local *src,
	size_t offset, size_t len, int flags, uint32_t imm, const void *op_context)
{
	if (conn == NULL)
		return RPMAI_FAIL_NULL();

	int ret = rpmai_op_check_flags(flags);
	if (ret)
		return ret;

	struct ibv_sge sge;
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)op_context,
		.opcode = opcode,
		.send_flags = rpmai_op_send_flags(flags),
		.imm_data = htonl(imm),
	};

	if (src == NULL) {
		if (offset || len)
			return RPMAI_FAIL(RPMA_E_INVAL,
				"without a memory region offset and length must be 0");
		return post_send(conn, &wr);
	}

	ret = check_local(src, offset, len);
	if (ret)
		return ret;
	ret = check_message(conn, len);
	if (ret)
		return ret;

	if (len) {
		sge = local_sge(src, offset, len);
		wr.sg_list = &sge;
		wr.num_sge = 1;
	}
	return post_send(conn, &wr);
}

int
rpma_send(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
	const void *op_context)
{
	return post_message(conn, IBV_WR_SEND, src, offset, len, flags, 0, op_context);
}

int
rpma_send_with_imm(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len,
	int flags, uint32_t imm, const void *op_context)
{
	return post_message(conn, IBV_WR_SEND_WITH_IMM, src, offset, len, flags, imm, op_context);
}

int
rpmai_op_prepare_recv(const struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context,
	struct ibv_sge *sge, struct ibv_recv_wr *wr)
{
	*wr = (struct ibv_recv_wr){ .wr_id = (uintptr_t)op_context };

	if (dst == NULL) {
		if (offset || len)
			return RPMAI_FAIL(RPMA_E_INVAL,
				"without a memory region offset and length must be 0");
		return 0;
	}

	int ret = check_local(dst, offset, len);
	if (ret)
		return ret;
	if (len > UINT32_MAX)
		return RPMAI_FAIL(RPMA_E_INVAL, "%zu bytes: more than a receive can take", len);

	if (len) {
		*sge = local_sge(dst, offset, len);
		wr->sg_list = sge;
		wr->num_sge = 1;
	}
	return 0;
}

int
rpmai_op_recv(struct rpma_conn *conn, const struct rpma_mr_local *dst, size_t offset, size_t len,
	const void *op_context)
{
	if (conn->srq)
		return RPMAI_FAIL(RPMA_E_INVAL,
			"the connection takes its receives from a shared queue: use rpma_srq_recv");

	struct ibv_sge sge;
	struct ibv_recv_wr wr;
	int ret = rpmai_op_prepare_recv(dst, offset, len, op_context, &sge, &wr);
	if (ret)
		return ret;

	struct ibv_recv_wr *bad_wr;
	return rpmai_op_posted("ibv_post_recv()", ibv_post_recv(conn->id->qp, &wr, &bad_wr));
}

int
rpma_recv(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t offset, size_t len,
	const void *op_context)
{
	if (conn == NULL)
		return RPMAI_FAIL_NULL();

	return rpmai_op_recv(conn, dst, offset, len, op_context);
}
