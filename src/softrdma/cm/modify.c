/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * modify.c -- queue pairs that applications create, move through their states, query and destroy
 *
 * The table of transitions has the required and optional attributes of the InfiniBand specification (vol. 1,
 * 11.2.5.2) for reliable connections, as in ibv_modify_qp(3). The device refuses what the specification allows
 * and it does not support (send queue draining, alternate paths, rates).
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/missing.h"
#include "softrdma/cm/qp_connect.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/threads.h"
#include "softrdma/samehost/shm_path.h"
#include "softrdma/verbs/device.h"
#include "softrdma/verbs/post.h"

#define PSN_MASK 0xffffff
#define QP_NUM_MAX 0xffffff
#define TIMER_MAX 31 /* timeout and min_rnr_timer have five bits */
#define RETRY_MAX 7  /* retry_cnt and rnr_retry have three bits */

/* the timer of ibv_modify_qp(3) runs for 4.096 us * 2^timeout; a device may use four times that (IBTA) */
#define TIMEOUT_UNIT_NS 4096u
#define TIMEOUT_SLACK 4u

#define REMOTE_RIGHTS \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
		SOFTRDMA_ACCESS_FLUSH_GLOBAL | SOFTRDMA_ACCESS_FLUSH_PERSISTENT)
/* the access rights accepted for a queue pair; those for local writes and memory windows have no effect */
#define ACCESS_KNOWN (REMOTE_RIGHTS | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)

#define SEND_OPS_KNOWN \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
		IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | \
		IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | SEND_OPS_NEW)
/* IBV_QP_EX_WITH_FLUSH and _ATOMIC_WRITE, which older headers do not name */
#define SEND_OPS_NEW (3ULL << 11)

#define PLACE (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define MIGRATION (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)
#define UNSUPPORTED (MIGRATION | IBV_QP_RATE_LIMIT | IBV_QP_EN_SQD_ASYNC_NOTIFY)

static const struct transition {
	enum ibv_qp_state from, to;
	int required, optional;
} transitions[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, PLACE, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, PLACE },
	{ IBV_QPS_INIT, IBV_QPS_RTR,
		IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			IBV_QP_MIN_RNR_TIMER,
		IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_RTR, IBV_QPS_RTS,
		IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			IBV_QP_MAX_QP_RD_ATOMIC,
		IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | MIGRATION |
			IBV_QP_RATE_LIMIT },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0,
		IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | MIGRATION |
			IBV_QP_RATE_LIMIT },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_RESET, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_INIT, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_RTR, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_RTS, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_ERR, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_INIT, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPS_RTR, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPS_RTS, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPS_ERR, IBV_QPS_ERR, 0, 0 },
};

static const struct transition *
find_transition(enum ibv_qp_state from, enum ibv_qp_state to)
{
	for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		if (transitions[i].from == from && transitions[i].to == to)
			return &transitions[i];
	}
	return NULL;
}

static bool
check_mask(enum ibv_qp_state from, enum ibv_qp_state to, const struct ibv_qp_attr *attr, int mask)
{
	const struct transition *transition = find_transition(from, to);
	if (transition == NULL || (mask & transition->required) != transition->required)
		return false;
	if (mask & ~(transition->required | transition->optional | IBV_QP_STATE))
		return false;
	return !(mask & IBV_QP_CUR_STATE) || attr->cur_qp_state == from;
}

/* an address on Ethernet is a GID, reached from one of the port's own GIDs */
static bool
check_address(const struct ibv_ah_attr *ah, uint32_t dest_qp_num)
{
	union softrdma_address where;
	if (!ah->is_global || ah->port_num != 1)
		return false;
	if (softrdma_gid_is_of_manager(&ah->grh.dgid))
		return true;
	return ah->grh.sgid_index < softrdma_gid_count() &&
		softrdma_gid_locate(&ah->grh.dgid, dest_qp_num, &where);
}

/* a value and its limits, which are checked if the mask has the bit */
struct bounded {
	int bit;
	uint32_t value, min, max;
};

static bool
check_values(const struct ibv_qp_attr *attr, int mask)
{
	const struct bounded values[] = {
		{ IBV_QP_PKEY_INDEX, attr->pkey_index, 0, 0 },
		{ IBV_QP_PORT, attr->port_num, 1, 1 },
		{ IBV_QP_PATH_MTU, attr->path_mtu, IBV_MTU_256, IBV_MTU_4096 },
		{ IBV_QP_DEST_QPN, attr->dest_qp_num, 0, QP_NUM_MAX },
		{ IBV_QP_MAX_DEST_RD_ATOMIC, attr->max_dest_rd_atomic, 0, SOFTRDMA_RD_ATOM_MAX },
		{ IBV_QP_MAX_QP_RD_ATOMIC, attr->max_rd_atomic, 0, SOFTRDMA_RD_ATOM_MAX },
		{ IBV_QP_MIN_RNR_TIMER, attr->min_rnr_timer, 0, TIMER_MAX },
		{ IBV_QP_TIMEOUT, attr->timeout, 0, TIMER_MAX },
		{ IBV_QP_RETRY_CNT, attr->retry_cnt, 0, RETRY_MAX },
		{ IBV_QP_RNR_RETRY, attr->rnr_retry, 0, RETRY_MAX },
	};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		const struct bounded *v = &values[i];
		if ((mask & v->bit) && (v->value < v->min || v->value > v->max))
			return false;
	}
	if ((mask & IBV_QP_ACCESS_FLAGS) && (attr->qp_access_flags & ~(unsigned)ACCESS_KNOWN))
		return false;
	return !(mask & IBV_QP_AV) || check_address(&attr->ah_attr, attr->dest_qp_num);
}

/* copies the attributes of the mask; the caller has refused attributes that the transition does not have */
static void
take_values(struct ibv_qp_attr *known, const struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_PKEY_INDEX)
		known->pkey_index = attr->pkey_index;
	if (mask & IBV_QP_PORT)
		known->port_num = attr->port_num;
	if (mask & IBV_QP_ACCESS_FLAGS)
		known->qp_access_flags = attr->qp_access_flags;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		known->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IBV_QP_AV) { /* the mask then has all attributes that RTR requires */
		known->ah_attr = attr->ah_attr;
		known->path_mtu = attr->path_mtu;
		known->dest_qp_num = attr->dest_qp_num;
		known->rq_psn = attr->rq_psn & PSN_MASK;
		known->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	}
	if (mask & IBV_QP_TIMEOUT) { /* the mask then has all attributes that RTS requires */
		known->timeout = attr->timeout;
		known->retry_cnt = attr->retry_cnt;
		known->rnr_retry = attr->rnr_retry;
		known->sq_psn = attr->sq_psn & PSN_MASK;
		known->max_rd_atomic = attr->max_rd_atomic;
	}
}

/* how long requests wait for an absent peer, in milliseconds; 0: without limit */
static unsigned
absence_ms(const struct ibv_qp_attr *attr)
{
	if (attr->timeout == 0)
		return 0;
	uint64_t timeout_ns = (uint64_t)TIMEOUT_UNIT_NS << attr->timeout;
	uint64_t ms = timeout_ns * TIMEOUT_SLACK * (attr->retry_cnt + 1u) / SOFTRDMA_NS_PER_MS;
	if (ms < SOFTRDMA_ABSENCE_MIN_MS)
		return SOFTRDMA_ABSENCE_MIN_MS;
	return ms < SOFTRDMA_ABSENCE_MAX_MS ? (unsigned)ms : SOFTRDMA_ABSENCE_MAX_MS;
}

/* --- transitions; the caller holds the connection manager's lock --- */

static void
set_state(struct softrdma_qp *qp, enum ibv_qp_state state)
{
	const struct ibv_qp_attr *attr = &qp->by_hand->attr;
	struct softrdma_link *link = softrdma_qp_lock_link(qp);
	link->responder.withheld = REMOTE_RIGHTS & ~(int)attr->qp_access_flags;
	if (link->responder.withheld)
		softrdma_shm_path_shut(link); /* a local peer does not check the rights of the queue pair */
	if (qp->qp.state != state && !link->failed) {
		if (state == IBV_QPS_RTR) {
			softrdma_responder_start(&link->responder, attr->rq_psn, attr->max_dest_rd_atomic);
		} else if (state == IBV_QPS_RTS) {
			link->seq = attr->sq_psn;
			softrdma_connection_of(link)->rnr_retry = attr->rnr_retry;
			softrdma_connection_of(link)->absence_ms = absence_ms(attr);
			softrdma_requester_start(&link->requester, attr->sq_psn, attr->max_rd_atomic);
		}
		qp->qp.state = state;
	}
	pthread_mutex_unlock(&link->lock);
}

static int
to_rtr(struct softrdma_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct softrdma_qp_connect *qpc = qp->by_hand;
	const struct ibv_qp_attr before = qpc->attr;
	take_values(&qpc->attr, attr, mask);
	int ret = softrdma_qp_connect_listen(qpc);
	if (ret) {
		qpc->attr = before;
		return ret;
	}
	set_state(qp, IBV_QPS_RTR);
	softrdma_qp_connect_accept(qpc);
	return 0;
}

static void
to_error(struct softrdma_qp *qp)
{
	struct softrdma_link *link = softrdma_qp_lock_link(qp);
	softrdma_connection_collect(link);
	softrdma_link_fail(link, IBV_WC_WR_FLUSH_ERR);
	softrdma_connection_send(link);
	pthread_mutex_unlock(&link->lock);
	if (qp->by_hand)
		softrdma_qp_connect_end(qp->by_hand, SOFTRDMA_QP_CONNECT_FAILED);
}

static int
move(struct softrdma_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct softrdma_link *link = softrdma_qp_lock_link(qp);
	const enum ibv_qp_state from = qp->qp.state;
	pthread_mutex_unlock(&link->lock);
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
	int ret;
	if (!check_mask(from, to, attr, mask))
		return EINVAL;
	if (to == IBV_QPS_SQD || (mask & UNSUPPORTED))
		return softrdma_missing("ibv_modify_qp", " to SQD, or with another path",
			SOFTRDMA_SEE_MANUAL);
	if (!check_values(attr, mask))
		return EINVAL;
	switch (to) {
	case IBV_QPS_RESET:
		softrdma_qp_connect_end(qp->by_hand, SOFTRDMA_QP_CONNECT_FAILED);
		return 0; /* finish_reset() does the rest, which cannot be done under this lock */
	case IBV_QPS_ERR:
		to_error(qp);
		return 0;
	case IBV_QPS_RTR:
		if (softrdma_gid_is_of_manager(&attr->ah_attr.grh.dgid)) {
			take_values(&qp->by_hand->attr, attr, mask);
			set_state(qp, IBV_QPS_RTR);
			qp->by_hand->state = SOFTRDMA_QP_CONNECT_BY_MANAGER;
			return 0;
		}
		ret = softrdma_gid_find_route(&attr->ah_attr.grh.dgid);
		return ret ? ret : to_rtr(qp, attr, mask);
	default:
		take_values(&qp->by_hand->attr, attr, mask);
		set_state(qp, to);
		if (to == IBV_QPS_RTS)
			softrdma_qp_connect_start(qp->by_hand);
		return 0;
	}
}

/*
 * Completes a RESET when peers can no longer reach the queue pair. If there is no memory, the queue pair goes to
 * ERR, and the application may try again.
 */
static int
finish_reset(struct softrdma_qp *qp)
{
	struct softrdma_qp_connect *qpc = qp->by_hand;
	int ret = softrdma_qp_reset(qp);
	softrdma_cm_lock();
	if (ret) {
		to_error(qp);
	} else {
		memset(&qpc->attr, 0, sizeof(qpc->attr));
		softrdma_qp_connect_end(qpc, SOFTRDMA_QP_CONNECT_IDLE);
	}
	softrdma_cm_unlock();
	return ret;
}

/* the queue pair needs the progress thread as long as peers can connect to it, or it is connected */
static int
modify_by_hand(struct softrdma_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct softrdma_qp_connect *qpc = qp->by_hand;
	int ret = softrdma_threads_start();
	if (ret)
		return ret;
	pthread_mutex_lock(&qp->qp.mutex); /* one transition at a time */
	softrdma_cm_lock();
	ret = move(qp, attr, mask);
	bool needs = qpc->state != SOFTRDMA_QP_CONNECT_IDLE && qpc->state != SOFTRDMA_QP_CONNECT_FAILED;
	bool had = qpc->io_user;
	qpc->io_user = needs || had;
	softrdma_cm_unlock();
	if (ret == 0 && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
		ret = finish_reset(qp);
	else if (ret == 0 && (mask & IBV_QP_ACCESS_FLAGS))
		softrdma_shm_path_wait(); /* a local peer may still be using a right that is withheld now */
	pthread_mutex_unlock(&qp->qp.mutex);
	if (had || !needs)
		softrdma_threads_stop();
	return ret;
}

static void
query_by_hand(const struct softrdma_qp *qp, struct ibv_qp_attr *attr)
{
	*attr = qp->by_hand->attr;
}

static void
destroy_by_hand(struct softrdma_qp *qp)
{
	struct softrdma_qp_connect *qpc = qp->by_hand;
	const uint32_t qp_num = qp->qp.qp_num;
	softrdma_cm_lock();
	softrdma_qp_connect_remove(qpc);
	softrdma_cm_unlock();
	softrdma_qp_delete(qp);
	if (qpc->io_user)
		softrdma_threads_stop();
	softrdma_gid_put_qp_num(qp_num);
	free(qpc);
}

static const struct softrdma_qp_kind by_hand = {
	.resets = true,
	.new_link = softrdma_connection_new,
	.modify = modify_by_hand,
	.destroy = destroy_by_hand,
	.query = query_by_hand,
};

/* --- queue pairs of the connection manager --- */

/* the connection manager moves its queue pairs itself; an application may only move them to ERR */
static int
modify_managed(struct softrdma_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	if (mask == IBV_QP_MIN_RNR_TIMER)
		return 0; /* no effect: RNR_READY is sent as soon as a receive is posted, without a timer */
	if (mask != IBV_QP_STATE || attr->qp_state != IBV_QPS_ERR)
		return softrdma_missing("ibv_modify_qp",
			" of a queue pair of rdma_create_qp(), other than to ERR,",
			"the connection manager moves it");
	to_error(qp);
	return 0;
}

static void
query_managed(const struct softrdma_qp *qp, struct ibv_qp_attr *attr)
{
	attr->max_rd_atomic = (uint8_t)qp->link->requester.rd_atom_max;
	attr->max_dest_rd_atomic = (uint8_t)qp->link->responder.rd_atom_max;
	attr->path_mtu = IBV_MTU_4096;
	attr->port_num = 1;
	attr->timeout = qp->ack_timeout;
}

const struct softrdma_qp_kind softrdma_managed_qp = {
	.new_link = softrdma_connection_new,
	.modify = modify_managed,
	.destroy = softrdma_qp_delete,
	.query = query_managed,
};

/* --- the interface for applications --- */

int
softrdma_ibv_modify_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int attr_mask)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_qp *qp = softrdma_qp_of(ibv_qp);
	if (softrdma_is_inherited(ibv_qp->context))
		return softrdma_fork_refuse("ibv_modify_qp");
	return qp->kind->modify(qp, attr, attr_mask);
}

int
softrdma_ibv_query_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int attr_mask,
	struct ibv_qp_init_attr *init_attr)
{
	SOFTRDMA_NO_CANCEL;
	(void)attr_mask;
	struct softrdma_qp *qp = softrdma_qp_of(ibv_qp);
	if (softrdma_is_inherited(ibv_qp->context))
		return softrdma_fork_refuse("ibv_query_qp");
	memset(attr, 0, sizeof(*attr));
	memset(init_attr, 0, sizeof(*init_attr));
	softrdma_cm_lock();
	struct softrdma_link *link = softrdma_qp_lock_link(qp);
	qp->kind->query(qp, attr);
	attr->qp_state = attr->cur_qp_state = ibv_qp->state;
	pthread_mutex_unlock(&link->lock);
	softrdma_cm_unlock();
	attr->cap = qp->cap;
	init_attr->qp_context = ibv_qp->qp_context;
	init_attr->send_cq = ibv_qp->send_cq;
	init_attr->recv_cq = ibv_qp->recv_cq;
	init_attr->srq = ibv_qp->srq;
	init_attr->cap = qp->cap;
	init_attr->qp_type = ibv_qp->qp_type;
	init_attr->sq_sig_all = qp->sq_sig_all;
	return 0;
}

static bool
asks_for_what_is_known(const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known =
		IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	if (attr->comp_mask & ~known)
		return false;
	/* no flag is supported, but programs may pass 0 */
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags)
		return false;
	return !(attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ||
		!(attr->send_ops_flags & ~SEND_OPS_KNOWN);
}

struct ibv_qp *
softrdma_ibv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	SOFTRDMA_NO_CANCEL;
	int ret = softrdma_qp_check_type("ibv_create_qp", attr->qp_type);
	if (ret == 0 && !asks_for_what_is_known(attr))
		ret = softrdma_missing("ibv_create_qp_ex", " with these attributes", SOFTRDMA_SEE_MANUAL);
	if (ret)
		goto err_errno;
	ret = EINVAL;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !softrdma_owns(context) ||
		!softrdma_owns(attr->pd->context))
		goto err_errno;
	struct softrdma_qp_connect *qpc = calloc(1, sizeof(*qpc));
	if (qpc == NULL) {
		ret = ENOMEM;
		goto err_errno;
	}
	uint32_t qp_num;
	ret = softrdma_gid_take_qp_num(&qp_num);
	if (ret)
		goto err_free;
	qpc->qp = softrdma_qp_new(attr->pd, attr, &by_hand, qp_num);
	if (qpc->qp == NULL) {
		ret = errno;
		goto err_put_qp_num;
	}
	qpc->qp->by_hand = qpc;
	softrdma_cm_lock();
	softrdma_qp_connect_add(qpc);
	softrdma_cm_unlock();
	return &qpc->qp->qp;

err_put_qp_num:
	softrdma_gid_put_qp_num(qp_num);
err_free:
	free(qpc);
err_errno:
	errno = ret;
	return NULL;
}

__attribute__((constructor)) static void
make_qps_of_contexts(void)
{
	softrdma_device_makes_qps(softrdma_ibv_create_qp_ex);
}

struct ibv_qp *
softrdma_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init_attr)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = init_attr->qp_context,
		.send_cq = init_attr->send_cq,
		.recv_cq = init_attr->recv_cq,
		.srq = init_attr->srq,
		.cap = init_attr->cap,
		.qp_type = init_attr->qp_type,
		.sq_sig_all = init_attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp = softrdma_ibv_create_qp_ex(pd->context, &attr);
	if (qp)
		init_attr->cap = attr.cap; /* what was granted */
	return qp;
}

int
softrdma_ibv_destroy_qp(struct ibv_qp *ibv_qp)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_qp *qp = softrdma_qp_of(ibv_qp);
	if (softrdma_is_inherited(ibv_qp->context))
		return softrdma_fork_refuse("ibv_destroy_qp");
	qp->kind->destroy(qp);
	return 0;
}
