/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * op.h -- code shared by the calls that post operations
 *
 * rpmai_op_init begins a work request; other calls add its remote range and its local memory; then it is
 * posted. The ranges are checked here for two reasons. A remote access error would break the connection, and
 * truncating a length to the 32 bits of verbs would silently lose data.
 *
 * The code that every operation runs through is inline: a device may need only a microsecond, so the library
 * may cost a few dozen instructions. The code that reports why an operation is refused is not inline.
 */

#ifndef RPMAI_OP_H
#define RPMAI_OP_H

#include "conn.h"
#include "mr.h"
#include "post.h"
#include "usdt.h"

/* for the few functions between a call of the program and its post, which have many arguments */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* each reports why an operation is refused and returns RPMA_E_INVAL */
int rpmai_op_refuse_flags(int flags) __attribute__((cold));
int rpmai_op_refuse_remote(const struct rpma_mr_remote *mr, size_t offset, size_t len) __attribute__((cold));
int rpmai_op_refuse_local(const struct rpma_mr_local *mr, size_t offset, size_t len) __attribute__((cold));
int rpmai_op_refuse_message(const struct rpma_conn *conn, size_t len) __attribute__((cold));
int rpmai_op_refuse_inline(const struct rpma_conn *conn, size_t len) __attribute__((cold));

/* checks that flags has an RPMA_F_COMPLETION_* bit and no unknown bit. RPMA_E_INVAL */
static inline int
rpmai_op_check_flags(int flags)
{
	if ((flags & RPMA_F_COMPLETION_ALWAYS) == 0 ||
		(flags & ~(RPMA_F_COMPLETION_ALWAYS | RPMA_F_MORE | RPMA_F_FENCE)))
		return rpmai_op_refuse_flags(flags);
	return 0;
}

/* begins a work request without memory; the (checked) flags become verbs flags */
static inline void
rpmai_op_init(struct work_request *req, int opcode, int flags, const void *op_context)
{
	const int always = RPMA_F_COMPLETION_ALWAYS & ~RPMA_F_COMPLETION_ON_ERROR;

	/* only the members that the device reads: zeroing all of it would take longer than the rest */
	req->wr.wr_id = (uintptr_t)op_context;
	req->wr.next = NULL;
	req->wr.num_sge = 0;
	req->wr.opcode = (enum ibv_wr_opcode)opcode;
	req->wr.send_flags =
		((flags & always) ? IBV_SEND_SIGNALED : 0) | ((flags & RPMA_F_FENCE) ? IBV_SEND_FENCE : 0);
}

/* checks that the range is inside the remote region. RPMA_E_INVAL */
static inline int
rpmai_op_check_remote(const struct rpma_mr_remote *mr, size_t offset, size_t len)
{
	if (!rpmai_range_ok(mr->desc.size, offset, len))
		return rpmai_op_refuse_remote(mr, offset, len);
	return 0;
}

/* sets the range on the other side. RPMA_E_INVAL: not inside the region */
static inline int
rpmai_op_add_remote(struct work_request *req, const struct rpma_mr_remote *mr, size_t offset, size_t len)
{
	int ret = rpmai_op_check_remote(mr, offset, len);
	if (ret)
		return ret;

	req->wr.wr.rdma.remote_addr = mr->desc.raddr + offset;
	req->wr.wr.rdma.rkey = mr->desc.rkey;
	return 0;
}

/* checks that the range is inside the local region. RPMA_E_INVAL */
static inline int
rpmai_op_check_local(const struct rpma_mr_local *mr, size_t offset, size_t len)
{
	if (!rpmai_range_ok(mr->ibv_mr->length, offset, len))
		return rpmai_op_refuse_local(mr, offset, len);
	return 0;
}

/* checks that the port transfers len bytes in one message. RPMA_E_INVAL */
static inline int
rpmai_op_check_message(const struct rpma_conn *conn, size_t len)
{
	return len > conn->max_msg_size ? rpmai_op_refuse_message(conn, len) : 0;
}

/* an SGE for part of a local region; range and length are already checked */
static inline struct ibv_sge
rpmai_op_sge(const struct rpma_mr_local *mr, size_t offset, size_t len)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)mr->ibv_mr->addr + offset,
		.length = (uint32_t)len,
		.lkey = mr->ibv_mr->lkey,
	};
}

/*
 * Sets the memory of this side, one registered range. RPMA_E_INVAL: the range is not inside the region, or it
 * is more than the port transfers in one message
 */
static inline int
rpmai_op_add_local(const struct rpma_conn *conn, struct work_request *req, const struct rpma_mr_local *mr,
	size_t offset, size_t len)
{
	int ret = rpmai_op_check_local(mr, offset, len);
	if (ret)
		return ret;
	ret = rpmai_op_check_message(conn, len);
	if (ret)
		return ret;

	/* no SGE for 0 bytes: to some devices, an SGE of length 0 means 2 GiB */
	if (__builtin_expect(len != 0, 1)) {
		req->sge = rpmai_op_sge(mr, offset, len);
		req->wr.sg_list = &req->sge;
		req->wr.num_sge = 1;
	}
	return 0;
}

/*
 * The same with several segments. Their SGEs go to sges, which has room for the connection's max_sge. *len
 * becomes the sum of their lengths. RPMA_E_INVAL: also if there are too many segments
 */
int rpmai_op_add_sges(const struct rpma_conn *conn, struct work_request *req, struct ibv_sge *sges,
	const struct rpma_sge *segments, int count, size_t *len);

/* adds data that is copied when it is posted. RPMA_E_INVAL: more than the connection's inline size */
static inline int
rpmai_op_add_inline(const struct rpma_conn *conn, struct work_request *req, const void *src, size_t len)
{
	if (len > conn->inline_size)
		return rpmai_op_refuse_inline(conn, len);

	req->wr.send_flags |= IBV_SEND_INLINE;
	if (len) {
		req->sge = (struct ibv_sge){ .addr = (uintptr_t)src, .length = (uint32_t)len };
		req->wr.sg_list = &req->sge;
		req->wr.num_sge = 1;
	}
	return 0;
}

/* true for what a verbs call returns if the queue is full: ENOMEM; SoftRoCE returns -ENOMEM, or ENOSPC */
bool rpmai_op_queue_is_full(int errnum) __attribute__((cold));
/* turns the result of a verbs call that posts into 0, or into RPMA_E_PROVIDER with a sentence */
int rpmai_op_posted(const char *call, int errnum) __attribute__((cold));

/* for tracers: a request for len bytes is about to be posted */
ALWAYS_INLINE void
rpmai_op_trace(const struct rpma_conn *conn, const struct work_request *req, size_t len)
{
	USDT(librpma, post, conn->qp_num, req->wr.wr_id, (int)req->wr.opcode, len);
}

/* as rpmai_post of one plain verbs request; goes straight to the device if no posts are held back */
static inline int
rpmai_op_post(struct rpma_conn *conn, struct work_request *req, int flags)
{
	const int held = atomic_load_explicit(&conn->held.count, memory_order_acquire);
	if (__builtin_expect((flags & RPMA_F_MORE) || held, 0))
		return rpmai_post(conn, req, 1, flags);

	struct ibv_send_wr *rest;
	int errnum = ibv_post_send(conn->id->qp, &req->wr, &rest);
	return errnum ? rpmai_op_posted("posting to the send queue", errnum) : 0;
}

/*
 * Fills in wr, whose SGE is *sge, for a receive into [offset, offset + len) of dst. For an empty message dst
 * is NULL, and offset and len are 0. RPMA_E_INVAL
 */
int rpmai_op_prepare_recv(const struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context,
	struct ibv_sge *sge, struct ibv_recv_wr *wr);

/* posts a receive on a connection or on a connection request. RPMA_E_INVAL, RPMA_E_PROVIDER */
int rpmai_op_recv(struct rpma_conn *conn, const struct rpma_mr_local *dst, size_t offset, size_t len,
	const void *op_context);

#endif /* RPMAI_OP_H */
