/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* atomic.c -- operations on 8 bytes of remote memory: atomic writes, compare-and-swap, fetch-and-add */

#include <assert.h>

#include "conn.h"
#include "err.h"
#include "op.h"

#define ATOMIC_SIZE 8

static_assert(ATOMIC_SIZE == RPMA_ATOMIC_WRITE_ALIGNMENT, "verbs have one size of atomics");

static int
check_alignment(uint64_t offset)
{
	/* message(post, alignment): atomics -> They have 8 bytes, at offsets that are multiples of 8. */
	if (offset % ATOMIC_SIZE)
		return RPMAI_FAIL(RPMA_E_INVAL, "offset %llu is no multiple of %d",
			(unsigned long long)offset, ATOMIC_SIZE);
	return 0;
}

static int
count_atomic(struct rpma_conn *conn, int ret)
{
	if (ret == 0)
		rpmai_stats_add(&conn->stats.atomics, 1);
	return ret;
}

/* ---- atomic writes ---- */

/*
 * The pointer that an atomic write moves must not become visible before the data it points to. The fence
 * holds the write back until the flush before it, or the READ that serves as one, has completed.
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
	ret = check_alignment(dst_offset);
	if (ret)
		return ret;

	const bool native = conn->qp_ex && (conn->peer->caps & RPMA_CAP_NATIVE_ATOMIC_WRITE) &&
		(dst->desc.caps & MR_CAP_NATIVE_ATOMIC_WRITE);
	struct work_request req;
	rpmai_op_init(&req, native ? RPMAI_WR_ATOMIC_WRITE : IBV_WR_RDMA_WRITE, flags | RPMA_F_FENCE,
		op_context);
	ret = rpmai_op_add_remote(&req, dst, dst_offset, ATOMIC_SIZE);
	if (ret)
		return ret;
	/* copied from src before the call returns, so src needs no registration */
	ret = rpmai_op_add_inline(conn, &req, src, ATOMIC_SIZE);
	assert(ret == 0); /* the inline size is at least this for every connection */
	rpmai_op_trace(conn, &req, ATOMIC_SIZE);
	return count_atomic(conn, rpmai_post(conn, &req, 1, flags));
}

int
rpma_write_atomic(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, int flags, const void *op_context)
{
	if (conn == NULL || dst == NULL || src == NULL)
		return RPMAI_FAIL_NULL();

	int ret = rpmai_op_check_flags(flags);
	if (ret)
		return ret;
	ret = check_alignment(dst_offset);
	if (ret)
		return ret;

	struct work_request req;
	rpmai_op_init(&req, IBV_WR_RDMA_WRITE, flags | RPMA_F_FENCE, op_context);
	ret = rpmai_op_add_remote(&req, dst, dst_offset, ATOMIC_SIZE);
	if (ret)
		return ret;
	ret = rpmai_op_add_local(conn, &req, src, src_offset, ATOMIC_SIZE);
	if (ret)
		return ret;
	rpmai_op_trace(conn, &req, ATOMIC_SIZE);
	return count_atomic(conn, rpmai_op_post(conn, &req, flags));
}

/* ---- read, modify and write ---- */

static int
post_fetching(struct rpma_conn *conn, enum ibv_wr_opcode opcode, const struct rpma_mr_local *result,
	size_t result_offset, const struct rpma_mr_remote *dst, size_t dst_offset, uint64_t compare_add,
	uint64_t swap, int flags, const void *op_context)
{
	if (conn == NULL || result == NULL || dst == NULL)
		return RPMAI_FAIL_NULL();

	int ret = rpmai_op_check_flags(flags);
	if (ret)
		return ret;
	/* the address counts, but is not told: a log holds no addresses of memory */
	/* message(alignment) */
	if ((dst->desc.raddr + dst_offset) % ATOMIC_SIZE)
		return RPMAI_FAIL(RPMA_E_INVAL,
			"offset %zu of the remote region has an address that is no multiple of %d",
			dst_offset, ATOMIC_SIZE);
	/*
	 * message(post, no-atomics): rpma_compare_and_swap(3), rpma_fetch_and_add(3) -> Register the region
	 * so; look at rpma_peer_get_caps(3).
	 */
	if (!(conn->peer->caps & RPMA_CAP_ATOMICS))
		return RPMAI_FAIL(RPMA_E_NOSUPP, "the device has no remote atomics");
	/* message(no-atomics) */
	if (!dst->desc.has_caps || !(dst->desc.caps & MR_CAP_REMOTE_ATOMICS))
		return RPMAI_FAIL(RPMA_E_NOSUPP,
			"the remote region does not allow atomics: its owner's device has none, or it was not "
			"registered as READ_SRC and WRITE_DST");

	struct work_request req;
	rpmai_op_init(&req, (int)opcode, flags, op_context);
	ret = rpmai_op_add_remote(&req, dst, dst_offset, ATOMIC_SIZE);
	if (ret)
		return ret;
	ret = rpmai_op_add_local(conn, &req, result, result_offset, ATOMIC_SIZE);
	if (ret)
		return ret;
	req.wr.wr.atomic.remote_addr = dst->desc.raddr + dst_offset;
	req.wr.wr.atomic.rkey = dst->desc.rkey;
	req.wr.wr.atomic.compare_add = compare_add;
	req.wr.wr.atomic.swap = swap;
	rpmai_op_trace(conn, &req, ATOMIC_SIZE);
	return count_atomic(conn, rpmai_op_post(conn, &req, flags));
}

int
rpma_compare_and_swap(struct rpma_conn *conn, struct rpma_mr_local *result, size_t result_offset,
	struct rpma_mr_remote *dst, size_t dst_offset, uint64_t expected, uint64_t desired, int flags,
	const void *op_context)
{
	return post_fetching(conn, IBV_WR_ATOMIC_CMP_AND_SWP, result, result_offset, dst, dst_offset,
		expected, desired, flags, op_context);
}

int
rpma_fetch_and_add(struct rpma_conn *conn, struct rpma_mr_local *result, size_t result_offset,
	struct rpma_mr_remote *dst, size_t dst_offset, uint64_t addend, int flags, const void *op_context)
{
	return post_fetching(conn, IBV_WR_ATOMIC_FETCH_AND_ADD, result, result_offset, dst, dst_offset,
		addend, 0, flags, op_context);
}
