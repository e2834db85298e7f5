/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* flush_native.c -- flushing by the FLUSH operation of both devices */

#include "flush.h"
#include "op.h"

/* the remote device does it before it acknowledges: nothing else must be known about the other side */
static int
check(const struct rpma_conn *conn, enum rpma_flush_type type)
{
	(void)conn;
	(void)type;
	return 0;
}

static int
post(struct rpma_conn *conn, const struct mr_descriptor *dst, size_t dst_offset, size_t len,
	enum rpma_flush_type type, int flags, const void *op_context)
{
	const uint8_t placement =
		type == RPMA_FLUSH_TYPE_PERSISTENT ? RPMAI_FLUSH_PERSISTENT : RPMAI_FLUSH_GLOBAL;
	int errnum = conn->peer->rdma->post_flush(conn->qp_ex, (uintptr_t)op_context,
		rpmai_op_send_flags(flags), dst->rkey, dst->raddr + dst_offset, len, placement);
	return rpmai_op_posted("posting a flush", errnum);
}

const struct flush_ops rpmai_flush_native = {
	.check = check,
	.post = post,
};
