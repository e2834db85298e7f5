/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* by_hand_qp.c -- queue pairs of reliable connections that the application connects, without a connection manager */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/cm/by_hand_qp.h"
#include "softrdma/cm/qp_connect.h"
#include "softrdma/cm/transitions.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/threads.h"
#include "softrdma/samehost/shm_path.h"
#include "softrdma/verbs/post.h"

#define PSN_MASK 0xffffff
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
		{ IBV_QP_DEST_QPN, attr->dest_qp_num, 0, SOFTRDMA_QP_NUM_MAX },
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
	softrdma_qp_fail(qp);
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
	ret = softrdma_transition_check(IBV_QPT_RC, from, to, attr, mask);
	if (ret)
		return ret;
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
		ret = softrdma_gid_find_route(&attr->ah_attr.grh.dgid, NULL);
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
	.type = IBV_QPT_RC,
	.resets = true,
	.new_link = softrdma_connection_new,
	.modify = modify_by_hand,
	.destroy = destroy_by_hand,
	.query = query_by_hand,
};

/* 0 or an errno value */
int
softrdma_by_hand_qp_new(struct ibv_qp_init_attr_ex *attr, struct ibv_qp **qp)
{
	uint32_t qp_num;
	struct softrdma_qp_connect *qpc = calloc(1, sizeof(*qpc));
	if (qpc == NULL)
		return ENOMEM;
	int ret = softrdma_gid_take_qp_num(&qp_num);
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
	*qp = &qpc->qp->qp;
	return 0;

err_put_qp_num:
	softrdma_gid_put_qp_num(qp_num);
err_free:
	free(qpc);
	return ret;
}
