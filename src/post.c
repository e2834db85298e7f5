/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * post.c -- posting work requests to the device: at once, or held back until one doorbell rings for all
 * (doorbell batching)
 *
 * The usual request goes straight to ibv_post_send. Requests with RPMA_F_MORE are held back: they are copied,
 * with their SGEs and inline data, into a list that the connection has as long as it holds anything. The next post
 * without that flag posts the list, and so does a full list. If the device does not take the request of such a post,
 * the request leaves the list again: a post that fails has posted nothing, and holds nothing back. A chain with operations that only extended verbs have is
 * posted by ibv_wr_*, which takes all or nothing. Any other chain is posted by ibv_post_send, which may take
 * only the first part.
 */

#include <assert.h>
#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "err.h"
#include "inherited.h"
#include "log.h"
#include "op.h"
#include "post.h"

#define CAPACITY_MAX 256 /* one doorbell for more would delay requests that could be under way */

/* the next one follows after the SGEs and the inline data */
struct held_post {
	struct work_request req;
	struct ibv_sge sges[]; /* room for the max_sge of the connection; room for its inline size follows */
};

void
rpmai_post_init(struct rpma_conn *conn)
{
	struct held_posts *held = &conn->held;
	pthread_mutex_init(&held->lock, NULL);
	atomic_init(&held->count, 0);
	held->list = NULL;
}

void
rpmai_post_fini(struct rpma_conn *conn)
{
	assert(conn->held.list == NULL);
	pthread_mutex_destroy(&conn->held.lock);
}

/* ---- to the device ---- */

static bool
is_extended(const struct ibv_send_wr *wr)
{
	return (int)wr->opcode == RPMAI_WR_FLUSH || (int)wr->opcode == RPMAI_WR_ATOMIC_WRITE;
}

static void
set_sges(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	if (wr->num_sge == 0)
		return;
	if (wr->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(qp, (void *)(uintptr_t)wr->sg_list[0].addr, wr->sg_list[0].length);
	else
		ibv_wr_set_sge_list(qp, (size_t)wr->num_sge, wr->sg_list);
}

static void
build_extended(const struct rdma_api *rdma, struct ibv_qp_ex *qp, const struct work_request *req)
{
	const struct ibv_send_wr *wr = &req->wr;
	const uint32_t rkey = wr->wr.rdma.rkey;
	const uint64_t raddr = wr->wr.rdma.remote_addr;

	qp->wr_id = wr->wr_id;
	/*
	 * ibv_wr_set_inline_data() implies the flag, but the provider of SoftRoCE looks only at the flag. The
	 * data of an atomic write is part of its request in any case.
	 */
	qp->wr_flags = wr->send_flags;
	if ((int)wr->opcode == RPMAI_WR_ATOMIC_WRITE)
		qp->wr_flags &= ~(unsigned)IBV_SEND_INLINE;
	switch ((int)wr->opcode) {
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(qp, rkey, raddr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(qp, rkey, raddr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qp, rkey, raddr);
		break;
	case IBV_WR_SEND:
		ibv_wr_send(qp);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(qp, wr->imm_data);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
			wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
			wr->wr.atomic.compare_add);
		break;
	case RPMAI_WR_ATOMIC_WRITE:
		ibv_wr_atomic_write(qp, rkey, raddr, (const void *)(uintptr_t)wr->sg_list[0].addr);
		return;
	default:
		assert((int)wr->opcode == RPMAI_WR_FLUSH);
		rdma->wr_flush(qp, rkey, raddr, req->flush_len, req->flush_type);
		return;
	}
	set_sges(qp, wr);
}

/*
 * Posts a chain; *rest becomes the first request that the device did not take, or NULL. 0 or an errno value
 */
static int
ring(const struct rpma_conn *conn, struct work_request *first, struct ibv_send_wr **rest)
{
	bool extended = false;
	for (const struct ibv_send_wr *wr = &first->wr; wr; wr = wr->next)
		extended |= is_extended(wr);

	*rest = NULL;
	if (!extended)
		return ibv_post_send(conn->id->qp, &first->wr, rest);

	ibv_wr_start(conn->qp_ex);
	for (const struct ibv_send_wr *wr = &first->wr; wr; wr = wr->next)
		build_extended(conn->peer->rdma, conn->qp_ex, (const struct work_request *)(const void *)wr);
	int errnum = ibv_wr_complete(conn->qp_ex);
	if (errnum)
		*rest = &first->wr;
	return errnum;
}

/* ---- posts held back ---- */

/* requests that the connection can hold back */
static int
capacity_of(const struct rpma_conn *conn)
{
	return conn->sq_size < CAPACITY_MAX ? (int)conn->sq_size : CAPACITY_MAX;
}

/* bytes of one request in the list */
static size_t
size_of_one(const struct rpma_conn *conn)
{
	const size_t align = alignof(struct held_post);
	const size_t size =
		sizeof(struct held_post) + conn->max_sge * sizeof(struct ibv_sge) + conn->inline_size;
	return (size + align - 1) / align * align;
}

static struct held_post *
post_at(const struct rpma_conn *conn, int i)
{
	return (struct held_post *)(void *)(conn->held.list + (size_t)i * size_of_one(conn));
}

/* the request's pointers are to its own SGEs and inline data */
static void
point_to_own(const struct rpma_conn *conn, struct held_post *post)
{
	struct ibv_send_wr *wr = &post->req.wr;
	wr->sg_list = post->sges;
	if ((wr->send_flags & IBV_SEND_INLINE) && wr->num_sge)
		post->sges[0].addr = (uintptr_t)(post->sges + conn->max_sge);
}

/* appends a copy of a request to the list, which has room */
static void
hold(struct rpma_conn *conn, const struct work_request *req)
{
	const int count = atomic_load_explicit(&conn->held.count, memory_order_relaxed);
	assert(count < capacity_of(conn));

	const struct ibv_send_wr *wr = &req->wr;
	struct held_post *post = post_at(conn, count);
	post->req = *req;
	assert((uint32_t)wr->num_sge <= conn->max_sge);
	if (wr->num_sge)
		memcpy(post->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*post->sges));
	if ((wr->send_flags & IBV_SEND_INLINE) && wr->num_sge) {
		assert(post->sges[0].length <= conn->inline_size);
		memcpy(post->sges + conn->max_sge, (const void *)(uintptr_t)post->sges[0].addr,
			post->sges[0].length);
	}
	point_to_own(conn, post);
	atomic_store_explicit(&conn->held.count, count + 1, memory_order_release);
}

static void
free_empty_list(struct rpma_conn *conn)
{
	if (atomic_load_explicit(&conn->held.count, memory_order_relaxed) > 0)
		return;
	free(conn->held.list);
	conn->held.list = NULL;
}

/* moves the requests that the device did not take to the front of the list */
static void
keep_from(struct rpma_conn *conn, const struct ibv_send_wr *rest)
{
	const int count = atomic_load_explicit(&conn->held.count, memory_order_relaxed);
	int taken = 0;
	while (taken < count && &post_at(conn, taken)->req.wr != rest)
		taken++;
	for (int i = taken; i < count && taken > 0; i++) {
		struct held_post *post = post_at(conn, i - taken);
		memcpy(post, post_at(conn, i), size_of_one(conn));
		point_to_own(conn, post);
	}
	atomic_store_explicit(&conn->held.count, count - taken, memory_order_release);
}

/* posts the list; requests that the device does not take stay in it. 0 or the device's errno value */
static int
ring_held(struct rpma_conn *conn)
{
	const int count = atomic_load_explicit(&conn->held.count, memory_order_relaxed);
	if (count == 0)
		return 0;

	for (int i = 0; i < count; i++)
		post_at(conn, i)->req.wr.next = i + 1 < count ? &post_at(conn, i + 1)->req.wr : NULL;
	struct ibv_send_wr *rest;
	int errnum = ring(conn, &post_at(conn, 0)->req, &rest);
	keep_from(conn, errnum ? rest : NULL);
	return errnum;
}

/*
 * takes back the last requests, at most this number of those that the device did not take. Returns how many
 */
static int
take_back(struct rpma_conn *conn, int count)
{
	const int held = atomic_load_explicit(&conn->held.count, memory_order_relaxed);
	if (count > held)
		count = held;
	atomic_store_explicit(&conn->held.count, held - count, memory_order_release);
	return count;
}

static int
report(int errnum)
{
	return rpmai_op_posted("posting to the send queue", errnum);
}

/* the same after ring_held(), for a call that has a request of its own, or has none */
static int
report_held(const struct rpma_conn *conn, bool has_own, int errnum)
{
	if (errnum == 0)
		return 0;
	char call[96];
	/*
	 * message(post): a post without `RPMA_F_MORE`, while operations are held back; the way out follows
	 * -> Post it again after the way out. It takes the others with it, as rpma_conn_submit(3) does.
	 */
	/* message(post): rpma_conn_submit(3); the way out follows -> Call it again after the way out. */
	(void)snprintf(call, sizeof(call),
		has_own ? "posting to the send queue (this operation is not posted; still held back: %d)"
			: "posting to the send queue (still held back: %d)",
		atomic_load_explicit(&conn->held.count, memory_order_relaxed));
	return rpmai_op_posted(call, errnum);
}

/* RPMA_E_AGAIN instead of the error of the held posts: these requests are not held */
static int
refuse_more(int errnum)
{
	/* message(post): `RPMA_F_MORE`; RPMA_E_AGAIN, not in the log -> As it says. */
	if (rpmai_op_queue_is_full(errnum))
		return rpmai_refuse(RPMA_E_AGAIN,
			"the connection cannot hold back more operations, and the send queue is full: collect "
			"completions, then post this one again");
	/* message(post): `RPMA_F_MORE` before the connection is established -> As it says. */
	return RPMAI_FAIL_ERRNO(RPMA_E_AGAIN, abs(errnum),
		"the connection cannot hold back more operations: wait until it is established, or disconnect",
		"posting the operations that are held back");
}

static int
post_now(struct rpma_conn *conn, struct work_request *reqs, int count, int *taken)
{
	assert(count == 1 || count == 2);

	struct ibv_send_wr *rest;
	if (count == 2)
		reqs[0].wr.next = &reqs[1].wr;
	reqs[count - 1].wr.next = NULL;
	int errnum = ring(conn, reqs, &rest);
	*taken = errnum == 0 ? count : rest != &reqs[0].wr;
	return report(errnum);
}

/* requests for which the list has room */
static int
room(const struct rpma_conn *conn)
{
	return capacity_of(conn) - atomic_load_explicit(&conn->held.count, memory_order_relaxed);
}

/* rpmai_post_locked(), which may leave an empty list */
static int
post_or_hold(struct rpma_conn *conn, struct work_request *reqs, int count, int flags, int *taken)
{
	struct held_posts *held = &conn->held;
	const bool more = flags & RPMA_F_MORE;

	*taken = 0;
	if (!more && atomic_load_explicit(&held->count, memory_order_relaxed) == 0)
		return post_now(conn, reqs, count, taken);

	if (room(conn) < count) {
		int errnum = ring_held(conn);
		if (errnum && room(conn) < count)
			return refuse_more(errnum);
	}
	if (capacity_of(conn) < count)
		return post_now(conn, reqs, count, taken);

	if (held->list == NULL) {
		held->list = malloc((size_t)capacity_of(conn) * size_of_one(conn));
		if (held->list == NULL)
			return RPMAI_FAIL_NOMEM();
	}
	for (int i = 0; i < count; i++)
		hold(conn, &reqs[i]);
	*taken = count;
	if (more)
		return 0;

	/* an error means that the request is not posted, so it does not wait with those of other threads */
	int errnum = ring_held(conn);
	if (errnum)
		*taken -= take_back(conn, count);
	return report_held(conn, true, errnum);
}

int
rpmai_post_locked(struct rpma_conn *conn, struct work_request *reqs, int count, int flags, int *taken)
{
	int ret = post_or_hold(conn, reqs, count, flags, taken);
	free_empty_list(conn);
	return ret;
}

int
rpmai_post(struct rpma_conn *conn, struct work_request *reqs, int count, int flags)
{
	struct held_posts *held = &conn->held;
	int taken;
	if (!(flags & RPMA_F_MORE) && atomic_load_explicit(&held->count, memory_order_acquire) == 0)
		return post_now(conn, reqs, count, &taken);
	if (rpmai_peer_is_inherited(conn->peer))
		return rpmai_refuse_inherited();

	pthread_mutex_lock(&held->lock);
	int ret = rpmai_post_locked(conn, reqs, count, flags, &taken);
	pthread_mutex_unlock(&held->lock);
	return ret;
}

int
rpma_conn_submit(struct rpma_conn *conn)
{
	if (conn == NULL)
		return RPMAI_FAIL_NULL();
	if (rpmai_peer_is_inherited(conn->peer))
		return rpmai_refuse_inherited();

	pthread_mutex_lock(&conn->held.lock);
	int ret = report_held(conn, false, ring_held(conn));
	free_empty_list(conn);
	pthread_mutex_unlock(&conn->held.lock);
	return ret;
}

void
rpmai_post_drop(struct rpma_conn *conn)
{
	struct held_posts *held = &conn->held;
	pthread_mutex_lock(&held->lock);
	int count = atomic_exchange(&held->count, 0);
	free_empty_list(conn);
	pthread_mutex_unlock(&held->lock);
	if (count)
		RPMAI_LOG(NOTICE, "%d operations that were held back (RPMA_F_MORE) are dropped", count);
}
