/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* op.c -- code shared by the calls that post operations */

#include <errno.h>
#include <stdlib.h>

#include "err.h"
#include "inherited.h"
#include "op.h"

/* ---- refusals ---- */

int
rpmai_op_refuse_flags(int flags)
{
	/*
	 * message(post): the flags of an operation -> Give `RPMA_F_COMPLETION_ALWAYS` or
	 * `RPMA_F_COMPLETION_ON_ERROR`.
	 */
	return RPMAI_FAIL(RPMA_E_INVAL, "flags 0x%x: RPMA_F_COMPLETION_* is missing, or a flag is unknown",
		(unsigned)flags);
}

int
rpmai_op_refuse_remote(const struct rpma_mr_remote *mr, size_t offset, size_t len)
{
	/* message(post, range): the range of an operation -> Correct offset or length. */
	return RPMAI_FAIL(RPMA_E_INVAL,
		"%zu bytes at offset %zu: not within the %llu bytes of the remote region", len, offset,
		(unsigned long long)mr->desc.size);
}

int
rpmai_op_refuse_local(const struct rpma_mr_local *mr, size_t offset, size_t len)
{
	/* message(range) */
	return RPMAI_FAIL(RPMA_E_INVAL,
		"%zu bytes at offset %zu: not within the %zu bytes of the local region", len, offset,
		mr->ibv_mr->length);
}

int
rpmai_op_refuse_message(const struct rpma_conn *conn, size_t len)
{
	/* message(post, too-long): one operation is too long -> Split it. */
	return RPMAI_FAIL(RPMA_E_INVAL, "%zu bytes: more than the %u bytes that the port transfers at once",
		len, conn->max_msg_size);
}

int
rpmai_op_refuse_inline(const struct rpma_conn *conn, size_t len)
{
	/* message(more-than-configured) */
	return RPMAI_FAIL(RPMA_E_INVAL,
		"%zu bytes inline: the connection allows %u (rpma_conn_cfg_set_inline_size)", len,
		conn->inline_size);
}

/* ---- segments ---- */

int
rpmai_op_add_sges(const struct rpma_conn *conn, struct work_request *req, struct ibv_sge *sges,
	const struct rpma_sge *segments, int count, size_t *len)
{
	/* message(more-than-configured) */
	if (count < 0 || (uint32_t)count > conn->max_sge)
		return RPMAI_FAIL(RPMA_E_INVAL,
			"%d segments: the connection allows %u (rpma_conn_cfg_set_max_sge)", count,
			conn->max_sge);
	if (count > 0 && segments == NULL)
		return RPMAI_FAIL_NULL();

	size_t total = 0;
	req->wr.sg_list = sges;
	for (int i = 0; i < count; i++) {
		const struct rpma_sge *segment = &segments[i];
		if (segment->mr == NULL)
			return RPMAI_FAIL_NULL();
		int ret = rpmai_op_check_local(segment->mr, segment->offset, segment->len);
		if (ret)
			return ret;
		ret = rpmai_op_check_message(conn, segment->len); /* so that the total cannot wrap */
		if (ret)
			return ret;
		total += segment->len;
		if (segment->len)
			sges[req->wr.num_sge++] = rpmai_op_sge(segment->mr, segment->offset, segment->len);
	}
	*len = total;
	return rpmai_op_check_message(conn, total);
}

/* ---- receives ---- */

bool
rpmai_op_queue_is_full(int errnum)
{
	return errnum == ENOMEM || errnum == -ENOMEM || errnum == ENOSPC;
}

int
rpmai_op_posted(const char *call, int errnum)
{
	if (errnum == 0)
		return 0;
	if (errnum == ESTALE) /* the software device returns this for an object that another process made */
		return rpmai_refuse_inherited();
	/*
	 * message(post): an operation could not be posted; its name comes first, the system's text after it
	 * -> *Cannot allocate memory*: the queue is full. Else the connection has ended.
	 */
	/*
	 * message(post): the way out of *Cannot allocate memory* -> Take completions (rpma_cq_get_wc(3)),
	 * or raise rpma_conn_cfg_set_sq_size(3) or rpma_conn_cfg_set_rq_size(3).
	 */
	return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, abs(errnum),
		rpmai_op_queue_is_full(errnum)
			? "the queue is full: collect completions first, or ask for a larger queue"
			: abs(errnum) == EINVAL
			? "if the connection is not established yet, wait for the event that it is; "
			  "if it has ended, delete it"
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
				"without a memory region, give 0 as offset and length");
		return 0;
	}

	int ret = rpmai_op_check_local(dst, offset, len);
	if (ret)
		return ret;
	/* message(too-long) */
	if (len > UINT32_MAX)
		return RPMAI_FAIL(RPMA_E_INVAL, "%zu bytes: a receive takes less than 4 GiB", len);

	if (len) {
		*sge = rpmai_op_sge(dst, offset, len);
		wr->sg_list = sge;
		wr->num_sge = 1;
	}
	return 0;
}

int
rpmai_op_recv(struct rpma_conn *conn, const struct rpma_mr_local *dst, size_t offset, size_t len,
	const void *op_context)
{
	/* message(post): rpma_recv(3), rpma_conn_req_recv(3) -> As it says. */
	if (conn->srq)
		return RPMAI_FAIL(RPMA_E_INVAL,
			"the connection takes its receives from a shared queue: use rpma_srq_recv");

	struct ibv_sge sge;
	struct ibv_recv_wr wr;
	int ret = rpmai_op_prepare_recv(dst, offset, len, op_context, &sge, &wr);
	if (ret)
		return ret;

	USDT(librpma, post_receive, conn->qp_num, wr.wr_id, len);
	struct ibv_recv_wr *bad_wr;
	ret = rpmai_op_posted("ibv_post_recv()", ibv_post_recv(conn->id->qp, &wr, &bad_wr));
	if (ret == 0)
		rpmai_stats_add(&conn->stats.recvs, 1);
	return ret;
}
