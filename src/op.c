/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* op.c -- what the calls that post operations have in common */

#include <errno.h>

#include "conn.h"
#include "err.h"
#include "op.h"

int
rpmai_op_check_flags(int flags)
{
	if ((flags & RPMA_F_COMPLETION_ALWAYS) == 0 ||
		(flags & ~(RPMA_F_COMPLETION_ALWAYS | RPMA_F_MORE | RPMA_F_FENCE)))
		return RPMAI_FAIL(RPMA_E_INVAL,
			"flags 0x%x: RPMA_F_COMPLETION_* is missing, or a flag is unknown", (unsigned)flags);
	return 0;
}

void
rpmai_op_init(struct work_request *req, int opcode, int flags, const void *op_context)
{
	const int always = RPMA_F_COMPLETION_ALWAYS & ~RPMA_F_COMPLETION_ON_ERROR;

	req->wr = (struct ibv_send_wr){
		.wr_id = (uintptr_t)op_context,
		.opcode = (enum ibv_wr_opcode)opcode,
		.send_flags = ((flags & always) ? IBV_SEND_SIGNALED : 0) |
			((flags & RPMA_F_FENCE) ? IBV_SEND_FENCE : 0),
	};
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

int
rpmai_op_add_remote(struct work_request *req, const struct rpma_mr_remote *mr, size_t offset, size_t len)
{
	int ret = rpmai_op_check_remote(mr, offset, len);
	if (ret)
		return ret;

	req->wr.wr.rdma.remote_addr = mr->desc.raddr + offset;
	req->wr.wr.rdma.rkey = mr->desc.rkey;
	return 0;
}

static int
check_local(const struct rpma_mr_local *mr, size_t offset, size_t len)
{
	if (!rpmai_range_ok(mr->ibv_mr->length, offset, len))
		return RPMAI_FAIL(RPMA_E_INVAL,
			"%zu bytes at offset %zu: not within the %zu bytes of the local region", len, offset,
			mr->ibv_mr->length);
	return 0;
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
check_message(const struct rpma_conn *conn, size_t len)
{
	if (len > conn->max_msg_size)
		return RPMAI_FAIL(RPMA_E_INVAL,
			"%zu bytes: more than the %u bytes that the port transfers at once", len,
			conn->max_msg_size);
	return 0;
}

/* nothing has no piece: an entry of length 0 means 2 GiB to some devices */
int
rpmai_op_add_local(const struct rpma_conn *conn, struct work_request *req, const struct rpma_mr_local *mr,
	size_t offset, size_t len)
{
	int ret = check_local(mr, offset, len);
	if (ret)
		return ret;
	ret = check_message(conn, len);
	if (ret)
		return ret;

	if (len) {
		req->sge = local_sge(mr, offset, len);
		req->wr.sg_list = &req->sge;
		req->wr.num_sge = 1;
	}
	return 0;
}

int
rpmai_op_add_pieces(const struct rpma_conn *conn, struct work_request *req, struct ibv_sge *sges,
	const struct rpma_sge *pieces, int count, size_t *len)
{
	if (count < 0 || (uint32_t)count > conn->max_sge)
		return RPMAI_FAIL(RPMA_E_INVAL, "%d pieces: the connection was made for %u", count,
			conn->max_sge);
	if (count > 0 && pieces == NULL)
		return RPMAI_FAIL_NULL();

	size_t total = 0;
	req->wr.sg_list = sges;
	for (int i = 0; i < count; i++) {
		const struct rpma_sge *piece = &pieces[i];
		if (piece->mr == NULL)
			return RPMAI_FAIL_NULL();
		int ret = check_local(piece->mr, piece->offset, piece->len);
		if (ret)
			return ret;
		ret = check_message(conn, piece->len); /* so that the total cannot wrap */
		if (ret)
			return ret;
		total += piece->len;
		if (piece->len)
			sges[req->wr.num_sge++] = local_sge(piece->mr, piece->offset, piece->len);
	}
	*len = total;
	return check_message(conn, total);
}

int
rpmai_op_add_inline(const struct rpma_conn *conn, struct work_request *req, const void *src, size_t len)
{
	if (len > conn->inline_size)
		return RPMAI_FAIL(RPMA_E_INVAL, "%zu bytes: the connection was made for %u inline", len,
			conn->inline_size);

	req->wr.send_flags |= IBV_SEND_INLINE;
	if (len) {
		req->sge = (struct ibv_sge){ .addr = (uintptr_t)src, .length = (uint32_t)len };
		req->wr.sg_list = &req->sge;
		req->wr.num_sge = 1;
	}
	return 0;
}

/* ---- receives ---- */

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
	ret = rpmai_op_posted("ibv_post_recv()", ibv_post_recv(conn->id->qp, &wr, &bad_wr));
	if (ret == 0)
		rpmai_stats_add(&conn->stats.recvs, 1);
	return ret;
}
