/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* flush_native.c -- flushing by the FLUSH operation, if both devices have it */

#include "err.h"
#include "flush.h"
#include "op.h"

/* the remote device flushes before it acknowledges, so nothing else must be known about the other side */
static int
check(const struct rpma_conn *conn, enum rpma_flush_type type, size_t len)
{
	(void)type;
	/* message(arguments-of-flush) */
	if (len > conn->peer->rdma->flush_max)
		return RPMAI_FAIL(RPMA_E_INVAL,
			"%zu bytes: the device flushes less than 4 GiB at once: split the flush", len);
	return 0;
}

static void
build(const struct rpma_conn *conn, struct work_request *req, const struct mr_descriptor *dst,
	size_t dst_offset, size_t len, enum rpma_flush_type type, int flags, const void *op_context)
{
	(void)conn;
	rpmai_op_init(req, RPMAI_WR_FLUSH, flags, op_context);
	req->wr.wr.rdma.rkey = dst->rkey;
	req->wr.wr.rdma.remote_addr = dst->raddr + dst_offset;
	req->flush_len = len;
	req->flush_type = type == RPMA_FLUSH_TYPE_PERSISTENT ? RPMAI_FLUSH_PERSISTENT : RPMAI_FLUSH_GLOBAL;
}

const struct flush_ops rpmai_flush_native = {
	.check = check,
	.build = build,
};
