/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * flush.c -- which way to flush, for each connection and remote region
 *
 * Native where our device and the region's have FLUSH: what the remote device acknowledges is done, whatever
 * the platform of the other side looks like. Else by reading after writing, where the device pushes writes
 * ahead of reads: visible then, and durable if the other side declared that its device writes directly to
 * persistent memory. Else not at all: a flush never completes on hope.
 */

#include "err.h"
#include "flush.h"
#include "op.h"

static const struct flush_ops *
choose(const struct rpma_conn *conn, const struct mr_descriptor *dst)
{
	/* a region that tells no capabilities is the original's, which uses FLUSH where its device has it */
	bool remote_is_native = !dst->has_caps || (dst->caps & MR_CAP_NATIVE_FLUSH);

	if (conn->qp_ex && (conn->peer->caps & PEER_CAP_NATIVE_FLUSH) && remote_is_native)
		return &rpmai_flush_native;
	if (conn->peer->rdma->read_flushes)
		return &rpmai_flush_raw;
	return NULL;
}

int
rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, size_t len,
	enum rpma_flush_type type, int flags, const void *op_context)
{
	if (conn == NULL || dst == NULL)
		return RPMAI_FAIL_NULL();
	if (type != RPMA_FLUSH_TYPE_PERSISTENT && type != RPMA_FLUSH_TYPE_VISIBILITY)
		return RPMAI_FAIL(RPMA_E_INVAL, "%d is no type of flush", (int)type);

	int ret = rpmai_op_check_flags(flags);
	if (ret)
		return ret;
	ret = rpmai_op_check_remote(dst, dst_offset, len);
	if (ret)
		return ret;

	const bool persistent = type == RPMA_FLUSH_TYPE_PERSISTENT;
	const int usage =
		persistent ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT : RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
	if ((dst->desc.usage & usage) == 0)
		return RPMAI_FAIL(RPMA_E_NOSUPP,
			"the remote region does not offer flushing to %s: its owner did not register "
			"it so, or its memory cannot be made durable",
			persistent ? "persistence" : "visibility");

	const struct flush_ops *ops = choose(conn, &dst->desc);
	if (ops == NULL)
		return RPMAI_FAIL(RPMA_E_NOSUPP,
			"the remote region's device has no flush operation, and reading does not flush "
			"on this one");
	ret = ops->check(conn, type);
	if (ret)
		return ret;

	return ops->post(conn, &dst->desc, dst_offset, len, type, flags, op_context);
}
