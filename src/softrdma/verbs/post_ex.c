/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * post_ex.c -- posting work requests to a queue pair by single calls, ibv_wr_start to ibv_wr_complete (batched
 * posts with one doorbell)
 *
 * The send queue is locked from start to complete or abort: ibv_wr_start(3) lets no other thread post
 * meanwhile. The link is not: the program may post receives, poll, deregister memory, and connect in between. The
 * call that names an operation fills the slot of the ring that comes after the last request, and further calls set
 * its data. ibv_wr_complete checks the requests and posts them together. It posts none if a call has noted an error,
 * and returns the first one.
 */

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "softrdma/base/fork.h"
#include "softrdma/base/missing.h"
#include "softrdma/engine/connection.h"
#include "softrdma/verbs/post.h"

/* the member has a name since rdma-core 45; by the ABI it is placed directly after wr_atomic_write */
#define WR_FLUSH_OFFSET (offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void (*)(void)))
#define FLUSH_RANGE 0 /* enum ibv_selectivity_level */

static_assert(WR_FLUSH_OFFSET + sizeof(void (*)(void)) <= SOFTRDMA_QP_EX_ROOM, "it has room");

typedef void wr_flush_function(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
	uint8_t type, uint8_t level);

static struct softrdma_qp *
qp_of(struct ibv_qp_ex *qp)
{
	return softrdma_qp_of(&qp->qp_base);
}

static void
note(struct softrdma_qp *qp, int errnum)
{
	if (qp->batch.errnum == 0)
		qp->batch.errnum = errnum;
}

/* looks how many requests the batch may have, and returns whether it may have any; under the link's lock */
static bool
look_for_room(struct softrdma_qp *qp)
{
	const struct softrdma_requester *req = &qp->batch.link->requester;
	const bool allowed = softrdma_post_is_allowed(qp->batch.link);
	if (qp->batch.count == 0)
		qp->batch.first = req->ring.head;
	qp->batch.room = allowed ? softrdma_send_ring_room(&req->ring) : 0;
	return allowed;
}

/* looks again: requests may have completed since, or the queue pair may have been connected; 0 or an errno value */
static int
look_again(struct softrdma_qp *qp)
{
	pthread_mutex_lock(&qp->batch.link->lock);
	const bool allowed = look_for_room(qp);
	pthread_mutex_unlock(&qp->batch.link->lock);
	if (!allowed)
		return EINVAL;
	return qp->batch.count < qp->batch.room ? 0 : ENOMEM;
}

/* fills the next slot of the ring; NULL after an error */
static struct softrdma_send *
begin(struct ibv_qp_ex *ex, uint8_t opcode, uint32_t rkey, uint64_t remote_addr)
{
	struct softrdma_qp *qp = qp_of(ex);
	qp->batch.current = NULL;
	if (qp->batch.errnum == 0 && qp->batch.count >= qp->batch.room)
		note(qp, look_again(qp));
	if (qp->batch.errnum)
		return NULL;

	struct softrdma_send *send = softrdma_send_ring_clear_slot(&qp->batch.link->requester.ring,
		qp->batch.first + qp->batch.count);
	send->wr_id = ex->wr_id;
	send->opcode = opcode;
	send->key = rkey;
	send->remote_addr = remote_addr;
	softrdma_post_take_flags(qp, send, ex->wr_flags & ~(unsigned)IBV_SEND_INLINE);
	qp->batch.current = send;
	qp->batch.count++;
	return send;
}

/* ---- requests ---- */

static void
wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	begin(qp, SOFTRDMA_OP_WRITE, rkey, remote_addr);
}

static void
wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, __be32 imm_data)
{
	struct softrdma_send *send = begin(qp, SOFTRDMA_OP_WRITE, rkey, remote_addr);
	if (send) {
		send->has_imm = true;
		send->imm = imm_data;
	}
}

static void
wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	begin(qp, SOFTRDMA_OP_READ, rkey, remote_addr);
}

static void
wr_send(struct ibv_qp_ex *qp)
{
	begin(qp, SOFTRDMA_OP_SEND, 0, 0);
}

static void
wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
{
	struct softrdma_send *send = begin(qp, SOFTRDMA_OP_SEND, 0, 0);
	if (send) {
		send->has_imm = true;
		send->imm = imm_data;
	}
}

static void
wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t compare, uint64_t swap)
{
	struct softrdma_send *send = begin(qp, SOFTRDMA_OP_COMPARE_SWAP, rkey, remote_addr);
	if (send) {
		send->operand[0] = compare;
		send->operand[1] = swap;
	}
}

static void
wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
	struct softrdma_send *send = begin(qp, SOFTRDMA_OP_FETCH_ADD, rkey, remote_addr);
	if (send)
		send->operand[0] = add;
}

static void
wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, const void *atomic_wr)
{
	struct softrdma_send *send = begin(qp, SOFTRDMA_OP_ATOMIC_WRITE, rkey, remote_addr);
	if (send) {
		send->length = 8;
		memcpy(send->operand, atomic_wr, 8);
	}
}

static void
wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type, uint8_t level)
{
	if ((type != SOFTRDMA_FLUSH_GLOBAL && type != SOFTRDMA_FLUSH_PERSISTENT) || level != FLUSH_RANGE) {
		note(qp_of(qp), EINVAL);
		return;
	}
	struct softrdma_send *send = begin(qp, SOFTRDMA_OP_FLUSH, rkey, remote_addr);
	if (send) {
		send->length = len;
		send->flush_type = type;
	}
}

void
softrdma_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type)
{
	wr_flush(qp, rkey, remote_addr, len, type, FLUSH_RANGE);
}

/* operations that reliable connections, or this device, do not support */

static void
wr_unsupported_key(struct ibv_qp_ex *qp, uint32_t rkey)
{
	(void)rkey;
	note(qp_of(qp),
		softrdma_missing("ibv_wr_local_inv", ", ibv_wr_send_inv() or ibv_wr_set_xrc_srqn()",
			SOFTRDMA_SEE_MANUAL));
}

static void
wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	(void)mw;
	(void)rkey;
	(void)info;
	note(qp_of(qp), softrdma_missing("ibv_wr_bind_mw", "", SOFTRDMA_SEE_MANUAL));
}

static void
wr_send_tso(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	(void)hdr;
	(void)hdr_sz;
	(void)mss;
	note(qp_of(qp), softrdma_missing("ibv_wr_send_tso", "", SOFTRDMA_SEE_MANUAL));
}

static void
wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct softrdma_send *send = qp_of(qp)->batch.current;
	note(qp_of(qp),
		send ? softrdma_post_take_destination(qp_of(qp), send, ah, remote_qpn, remote_qkey) : EINVAL);
}

/* ---- their data ---- */

/* the request whose data is being set; NULL: no request was begun, or its operation takes no data */
static struct softrdma_send *
current_send(struct softrdma_qp *qp)
{
	struct softrdma_send *send = qp->batch.current;
	if (send && softrdma_send_has_sges(send))
		return send;
	note(qp, EINVAL);
	return NULL;
}

static void
wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct softrdma_qp *qp = qp_of(ex);
	struct softrdma_send *send = current_send(qp);
	if (send == NULL)
		return;
	send->is_inline = false;
	note(qp, softrdma_post_take_sges(qp, send, sg_list, num_sge));
}

static void
wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };
	wr_set_sge_list(qp, 1, &sge);
}

static void
wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf, const struct ibv_data_buf *buf_list)
{
	struct softrdma_qp *qp = qp_of(ex);
	struct softrdma_send *send = current_send(qp);
	if (send == NULL)
		return;
	send->is_inline = true;
	send->length = 0;
	int ret = 0;
	for (size_t i = 0; i < num_buf && ret == 0; i++)
		ret = softrdma_post_append_inline(qp, send, buf_list[i].addr, buf_list[i].length);
	note(qp, ret);
}

static void
wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	const struct ibv_data_buf buf = { .addr = addr, .length = length };
	wr_set_inline_data_list(qp, 1, &buf);
}

/* ---- batches ---- */

static void
wr_start(struct ibv_qp_ex *ex)
{
	struct softrdma_qp *qp = qp_of(ex);
	if (softrdma_is_inherited(qp->qp.context)) {
		qp->batch.errnum = softrdma_fork_refuse("ibv_wr_start");
		qp->batch.current = NULL;
		return;
	}
	pthread_mutex_lock(&qp->sq_lock);
	qp->batch.count = 0;
	qp->batch.errnum = 0;
	qp->batch.current = NULL;
	struct softrdma_link *link = softrdma_qp_lock_link(qp);
	softrdma_link_get(link);
	qp->batch.link = link;
	look_for_room(qp);
	pthread_mutex_unlock(&link->lock);
}

static void
close_batch(struct softrdma_qp *qp)
{
	struct softrdma_link *link = qp->batch.link;
	pthread_mutex_unlock(&qp->sq_lock);
	softrdma_link_put(link);
}

static void
wr_abort(struct ibv_qp_ex *ex)
{
	struct softrdma_qp *qp = qp_of(ex);
	if (softrdma_is_inherited(qp->qp.context))
		return; /* wr_start has locked nothing in this process */
	close_batch(qp);
}

/* checks all requests of the batch; 0 or an errno value */
static int
check(const struct softrdma_qp *qp)
{
	struct softrdma_requester *req = &qp->batch.link->requester;
	if (qp->batch.count == 0)
		return 0;
	if (!softrdma_post_is_allowed(qp->batch.link))
		return EINVAL;
	assert(req->ring.head == qp->batch.first);
	int ret = 0;
	for (uint32_t i = 0; i < qp->batch.count && ret == 0; i++)
		ret = softrdma_post_check(qp, softrdma_send_ring_slot_at(&req->ring, qp->batch.first + i));
	return ret;
}

static int
wr_complete(struct ibv_qp_ex *ex)
{
	struct softrdma_qp *qp = qp_of(ex);
	if (softrdma_is_inherited(qp->qp.context)) {
		if (qp->batch.errnum == 0) /* forked since the start */
			note(qp, softrdma_fork_refuse("ibv_wr_complete"));
		return qp->batch.errnum;
	}
	struct softrdma_link *link = qp->batch.link;
	pthread_mutex_lock(&link->lock);
	if (qp->batch.errnum == 0)
		note(qp, check(qp));
	const int ret = qp->batch.errnum;
	if (ret == 0) {
		for (uint32_t i = 0; i < qp->batch.count; i++)
			softrdma_post_accepted(link, softrdma_send_ring_commit(&link->requester.ring));
		softrdma_post_ring(link, qp->batch.first);
	}
	pthread_mutex_unlock(&link->lock);
	close_batch(qp);
	return ret;
}

void
softrdma_post_ex_init(struct ibv_qp_ex *qp)
{
	wr_flush_function *flush = wr_flush;
	memcpy((char *)qp + WR_FLUSH_OFFSET, &flush, sizeof(flush));

	qp->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	qp->wr_atomic_fetch_add = wr_atomic_fetch_add;
	qp->wr_atomic_write = wr_atomic_write;
	qp->wr_bind_mw = wr_bind_mw;
	qp->wr_local_inv = wr_unsupported_key;
	qp->wr_rdma_read = wr_rdma_read;
	qp->wr_rdma_write = wr_rdma_write;
	qp->wr_rdma_write_imm = wr_rdma_write_imm;
	qp->wr_send = wr_send;
	qp->wr_send_imm = wr_send_imm;
	qp->wr_send_inv = wr_unsupported_key;
	qp->wr_send_tso = wr_send_tso;
	qp->wr_set_ud_addr = wr_set_ud_addr;
	qp->wr_set_xrc_srqn = wr_unsupported_key;
	qp->wr_set_inline_data = wr_set_inline_data;
	qp->wr_set_inline_data_list = wr_set_inline_data_list;
	qp->wr_set_sge = wr_set_sge;
	qp->wr_set_sge_list = wr_set_sge_list;
	qp->wr_start = wr_start;
	qp->wr_complete = wr_complete;
	qp->wr_abort = wr_abort;
}
