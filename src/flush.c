/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * flush.c -- choosing how to flush, for each connection and remote region
 *
 * Native, if this device and the region's device both have FLUSH: what the remote device acknowledges is
 * done, whatever the platform of the other side.
 *
 * Else, to make writes visible where executed ones are (the software device), by a READ of no bytes.
 *
 * Else by a READ after the writes, if the device pushes writes ahead of reads. The writes are then visible.
 * They are also durable if the other side declared that its device writes directly to persistent memory.
 *
 * Else not at all: a flush never completes on hope.
 */

#include "err.h"
#include "flush.h"
#include "op.h"

/* true if the region may be read, and reading it does this flush */
static bool
reading_will_do(const struct rpma_conn *conn, const struct mr_descriptor *dst, enum rpma_flush_type type)
{
	return conn->peer->rdma->read_flushes && (dst->usage & RPMA_MR_USAGE_READ_SRC) &&
		(type == RPMA_FLUSH_TYPE_VISIBILITY || atomic_load(&conn->direct_write_to_pmem));
}

static const struct flush_ops *
choose(const struct rpma_conn *conn, const struct mr_descriptor *dst, enum rpma_flush_type type)
{
	bool remote_is_native = dst->caps & MR_CAP_NATIVE_FLUSH;

	/*
	 * A region without capabilities was made by the original library. Its owner may allow FLUSH, or may
	 * only let it be read, depending on how the original was built. So use FLUSH only for what a READ
	 * cannot do; if FLUSH is not allowed, the operation fails with an error.
	 */
	if (!dst->has_caps && type == RPMA_FLUSH_TYPE_VISIBILITY && conn->peer->rdma->writes_are_visible)
		return &rpmai_flush_order;
	if (!dst->has_caps)
		remote_is_native = !reading_will_do(conn, dst, type);

	if (conn->qp_ex && (conn->peer->caps & RPMA_CAP_NATIVE_FLUSH) && remote_is_native)
		return &rpmai_flush_native;
	if (conn->peer->rdma->read_flushes)
		return &rpmai_flush_raw;
	return NULL;
}

int
rpmai_flush_prepare(const struct rpma_conn *conn, struct work_request *req, const struct rpma_mr_remote *dst,
	size_t dst_offset, size_t len, enum rpma_flush_type type, int flags, const void *op_context)
{
	/* message(memory, arguments-of-flush): arguments of rpma_flush(3) -> As they say. */
	if (type != RPMA_FLUSH_TYPE_PERSISTENT && type != RPMA_FLUSH_TYPE_VISIBILITY)
		return RPMAI_FAIL(RPMA_E_INVAL,
			"flush type %d: give RPMA_FLUSH_TYPE_PERSISTENT or RPMA_FLUSH_TYPE_VISIBILITY",
			(int)type);

	int ret = rpmai_op_check_remote(dst, dst_offset, len);
	if (ret)
		return ret;

	const bool persistent = type == RPMA_FLUSH_TYPE_PERSISTENT;
	const int usage =
		persistent ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT : RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
	const bool is_offered = dst->desc.usage & usage;
	/*
	 * message(memory, not-offered): rpma_flush(3) -> The owner must register with
	 * `RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT` or `_VISIBILITY`; its log says if the memory cannot.
	 */
	if (!is_offered && persistent)
		return RPMAI_FAIL(RPMA_E_NOSUPP,
			"the remote region does not offer flushing to persistence: its owner did not register it so, "
			"or its memory cannot be made durable");
	/* message(not-offered) */
	if (!is_offered)
		return RPMAI_FAIL(RPMA_E_NOSUPP,
			"the remote region does not offer flushing to visibility: its owner did not register it so");

	const struct flush_ops *ops = choose(conn, &dst->desc, type);
	/*
	 * message(memory, cannot-flush): rpma_flush(3) over hardware without flush -> Exchange the peer
	 * configurations, if writes bypass the caches there; else let the other program flush (example 09).
	 */
	if (ops == NULL)
		return RPMAI_FAIL(RPMA_E_NOSUPP,
			"one of the two devices has no flush operation, and a read does not flush with this "
			"device");
	ret = ops->check(conn, type, len);
	if (ret)
		return ret;

	ops->build(conn, req, &dst->desc, dst_offset, len, type, flags, op_context);
	return 0;
}

int
rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, size_t len,
	enum rpma_flush_type type, int flags, const void *op_context)
{
	if (conn == NULL || dst == NULL)
		return RPMAI_FAIL_NULL();

	int ret = rpmai_op_check_flags(flags);
	if (ret)
		return ret;

	struct work_request req;
	ret = rpmai_flush_prepare(conn, &req, dst, dst_offset, len, type, flags, op_context);
	if (ret)
		return ret;
	rpmai_op_trace(conn, &req, len);
	ret = rpmai_post(conn, &req, 1, flags);
	if (ret)
		return ret;

	rpmai_stats_add(&conn->stats.flushes, 1);
	return 0;
}
