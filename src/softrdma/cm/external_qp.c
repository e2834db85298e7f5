/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* external_qp.c -- queue pairs that the application creates itself and connects with the connection manager */

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/env.h"
#include "softrdma/bounds.h"
#include "softrdma/cm/datagram_id.h"
#include "softrdma/cm/external_qp.h"
#include "softrdma/cm/qp_connect.h"
#include "softrdma/verbs/gid.h"
#include "softrdma/verbs/qp.h"

#define PSN_MASK 0xffffff
#define QP_NUM_MASK 0xffffff

/* the values that the kernel's connection manager sets */
#define RETRY_COUNT 7
#define ACK_TIMEOUT_DEFAULT 14 /* 67 ms */
#define HOP_LIMIT 64

/* chooses the id's sequence number on first use; 0 or an errno value */
static int
choose_psn(struct softrdma_id *id)
{
	if (id->has_psn)
		return 0;
	int ret = softrdma_random(&id->psn, sizeof(id->psn));
	id->psn &= PSN_MASK;
	id->has_psn = ret == 0;
	return ret;
}

int
softrdma_external_qp_take(struct softrdma_id *id, uint32_t qp_num)
{
	const struct softrdma_qp_connect *qpc = softrdma_qp_connect_find(qp_num);
	if (qpc == NULL ||
		(qpc->state != SOFTRDMA_QP_CONNECT_IDLE && qpc->state != SOFTRDMA_QP_CONNECT_BY_MANAGER))
		return EINVAL;
	int ret = choose_psn(id);
	if (ret)
		return ret;
	id->link = qpc->qp->link;
	softrdma_link_get(id->link);
	id->external = true;
	return 0;
}

void
softrdma_external_qp_drop(struct softrdma_id *id)
{
	if (!id->external)
		return;
	softrdma_link_put(id->link);
	id->link = NULL;
	id->external = false;
}

/* the link's lock is held: it keeps the queue pair alive */
static bool
is_ready(const struct softrdma_id *id, bool active)
{
	const struct softrdma_link *link = id->link;
	struct ibv_qp *qp = link->qp; /* NULL: destroyed, or reset */
	if (qp == NULL)
		return false;
	const struct softrdma_qp_connect *qpc = softrdma_qp_of(qp)->by_hand;
	if (qpc->state != SOFTRDMA_QP_CONNECT_BY_MANAGER)
		return false;
	assert(link->state == SOFTRDMA_LINK_IDLE && (!link->failed || qp->state == IBV_QPS_ERR));
	if (qp->state == IBV_QPS_RTS)
		return qpc->attr.sq_psn == id->psn;
	return qp->state == IBV_QPS_RTR && !active;
}

bool
softrdma_external_qp_is_ready(const struct softrdma_id *id, bool active)
{
	struct softrdma_link *link = id->link;
	pthread_mutex_lock(&link->lock);
	const bool ready = is_ready(id, active);
	pthread_mutex_unlock(&link->lock);
	return ready;
}

bool
softrdma_external_qp_start(const struct softrdma_id *id, bool active, uint32_t peer_seq)
{
	struct softrdma_link *link = id->link;
	if (!is_ready(id, active))
		return false;
	softrdma_qp_of(link->qp)->by_hand->state = SOFTRDMA_QP_CONNECT_CONNECTED;
	/* all 32 bits of peer_seq, because a peer that is not an external queue pair uses all of them */
	softrdma_responder_start(&link->responder, peer_seq, link->responder.rd_atom_max);
	softrdma_link_open(link);
	return true;
}

/* --- attributes --- */

static void
fill_init(struct ibv_qp_attr *attr, int *mask)
{
	attr->pkey_index = 0;
	attr->port_num = 1;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
		SOFTRDMA_ACCESS_FLUSH_GLOBAL | SOFTRDMA_ACCESS_FLUSH_PERSISTENT;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

/* as the kernel's connection manager gives them for each state */
static void
fill_datagrams(struct ibv_qp_attr *attr, int *mask)
{
	attr->pkey_index = 0;
	attr->port_num = 1;
	attr->qkey = RDMA_UDP_QKEY;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
}

static uint8_t
at_most(uint8_t value, uint8_t limit)
{
	return value < limit ? value : limit;
}

/* an active id gets what it has requested, if the peer grants it; a passive id grants what the peer requests */
static uint8_t
resources(const struct softrdma_id *id, uint8_t asked, uint8_t peer)
{
	const bool active = id->asked.type == SOFTRDMA_HANDSHAKE_CONNECT;
	return at_most(active ? at_most(asked, peer) : peer, SOFTRDMA_RD_ATOM_MAX);
}

static void
fill_rtr(const struct softrdma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	memset(&attr->ah_attr, 0, sizeof(attr->ah_attr));
	attr->ah_attr.is_global = 1;
	attr->ah_attr.port_num = 1;
	attr->ah_attr.grh.hop_limit = HOP_LIMIT;
	softrdma_gid_of_manager(&attr->ah_attr.grh.dgid);
	attr->path_mtu = IBV_MTU_4096;
	attr->dest_qp_num = id->peer.qp_num & QP_NUM_MASK;
	attr->rq_psn = id->peer.seq & PSN_MASK;
	attr->max_dest_rd_atomic = resources(id, id->asked.responder_resources, id->peer.initiator_depth);
	attr->min_rnr_timer = 0;
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static void
fill_rts(const struct softrdma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->timeout = id->ack_timeout ? id->ack_timeout : ACK_TIMEOUT_DEFAULT;
	attr->retry_cnt = RETRY_COUNT;
	attr->rnr_retry = at_most(id->peer.rnr_retry, 7);
	attr->sq_psn = id->psn;
	attr->max_rd_atomic = resources(id, id->asked.initiator_depth, id->peer.responder_resources);
	*mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		IBV_QP_MAX_QP_RD_ATOMIC;
}

static int
fill_attr(struct softrdma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	int ret = choose_psn(id);
	if (ret)
		return ret;
	if (softrdma_id_is_of_datagrams(id) && id->id.verbs) {
		fill_datagrams(attr, mask);
		return 0;
	}
	if (attr->qp_state == IBV_QPS_INIT && id->id.verbs) {
		fill_init(attr, mask);
		return 0;
	}
	if (attr->qp_state == IBV_QPS_RTR && id->peer_known) {
		fill_rtr(id, attr, mask);
		return 0;
	}
	if (attr->qp_state == IBV_QPS_RTS && id->peer_known) {
		fill_rts(id, attr, mask);
		return 0;
	}
	return EINVAL;
}

int
softrdma_rdma_init_qp_attr(struct rdma_cm_id *rdma_id, struct ibv_qp_attr *attr, int *mask)
{
	SOFTRDMA_NO_CANCEL;
	if (softrdma_id_is_inherited(rdma_id, "rdma_init_qp_attr"))
		return -1;
	softrdma_cm_lock();
	int ret = fill_attr(softrdma_id_of(rdma_id), attr, mask);
	softrdma_cm_unlock();
	return softrdma_cm_result(ret);
}
