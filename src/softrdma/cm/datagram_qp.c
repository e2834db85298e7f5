/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* datagram_qp.c -- queue pairs of unreliable datagrams (UD): made, moved through their states, destroyed */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include <rdma/rdma_cma.h>

#include "softrdma/base/fork.h"
#include "softrdma/cm/cm.h"
#include "softrdma/cm/datagram_qp.h"
#include "softrdma/cm/transitions.h"
#include "softrdma/engine/datagram_socket.h"
#include "softrdma/engine/threads.h"
#include "softrdma/verbs/gid.h"
#include "softrdma/verbs/qp.h"

#define PSN_MASK 0xffffff

struct softrdma_datagram_qp {
	struct ibv_qp_attr attr; /* all that ibv_modify_qp has set */
	int fd;                  /* keeps the port; the connection has a copy, from RTR to RESET */
	bool io_user;            /* counts as a user of the progress thread */
};

static const struct softrdma_datagram_calls calls = {
	.is_own_gid = softrdma_gid_is_own,
	.is_from = softrdma_gid_is_from,
};

/* --- transitions; the caller holds the connection manager's lock --- */

static bool
check_values(const struct ibv_qp_attr *attr, int mask)
{
	return !((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index > 0) &&
		!((mask & IBV_QP_PORT) && attr->port_num != 1);
}

static void
take_values(struct ibv_qp_attr *known, const struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_PKEY_INDEX)
		known->pkey_index = attr->pkey_index;
	if (mask & IBV_QP_PORT)
		known->port_num = attr->port_num;
	if (mask & IBV_QP_QKEY)
		known->qkey = attr->qkey;
	if (mask & IBV_QP_SQ_PSN)
		known->sq_psn = attr->sq_psn & PSN_MASK;
}

/* 0 or an errno value */
static int
receive_from_here_on(struct softrdma_qp *qp, struct softrdma_link *link)
{
	const int fd = softrdma_fork_owned(fcntl(qp->datagrams->fd, F_DUPFD_CLOEXEC, 3));
	if (fd < 0)
		return errno;
	const int ret = softrdma_datagram_socket_attach(link, fd, &calls);
	if (ret)
		softrdma_datagram_socket_pause(qp->datagrams->fd);
	return ret;
}

/* 0 or an errno value */
static int
set_state(struct softrdma_qp *qp, enum ibv_qp_state state)
{
	const struct ibv_qp_attr *attr = &qp->datagrams->attr;
	struct softrdma_link *link = softrdma_qp_lock_link(qp);
	int ret = 0;
	if (qp->qp.state != state && !link->failed) {
		if (state == IBV_QPS_RTR)
			ret = receive_from_here_on(qp, link);
		else if (state == IBV_QPS_RTS)
			softrdma_requester_start(&link->requester, attr->sq_psn, 0);
		if (ret == 0)
			qp->qp.state = state;
	}
	if (ret == 0)
		link->qkey = attr->qkey;
	pthread_mutex_unlock(&link->lock);
	return ret;
}

static int
move(struct softrdma_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct softrdma_link *link = softrdma_qp_lock_link(qp);
	const enum ibv_qp_state from = qp->qp.state;
	pthread_mutex_unlock(&link->lock);
	const enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
	int ret = softrdma_transition_check(IBV_QPT_UD, from, to, attr, mask);
	if (ret)
		return ret;
	if (!check_values(attr, mask))
		return EINVAL;
	if (to == IBV_QPS_RESET)
		return 0; /* reset() does the rest, which cannot be done under this lock */
	if (to == IBV_QPS_ERR) {
		softrdma_qp_fail(qp);
		return 0;
	}
	const struct ibv_qp_attr before = qp->datagrams->attr;
	take_values(&qp->datagrams->attr, attr, mask);
	ret = set_state(qp, to);
	if (ret)
		qp->datagrams->attr = before;
	return ret;
}

/*
 * If there is no memory, the queue pair goes to ERR, and the application may try again. The socket comes first: after the
 * other call the posted work requests are gone, and ERR would flush none of them.
 */
static int
reset(struct softrdma_qp *qp)
{
	int ret = softrdma_datagram_socket_pause(qp->datagrams->fd);
	if (ret == 0)
		ret = softrdma_qp_reset(qp);
	softrdma_cm_lock();
	if (ret)
		softrdma_qp_fail(qp);
	else
		qp->datagrams->attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET };
	softrdma_cm_unlock();
	return ret;
}

/* the queue pair needs the progress thread from the first transition on, until it is destroyed */
static int
modify(struct softrdma_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	int ret = 0;
	pthread_mutex_lock(&qp->qp.mutex); /* one transition at a time */
	if (!qp->datagrams->io_user)
		ret = softrdma_threads_start();
	if (ret == 0) {
		qp->datagrams->io_user = true;
		softrdma_cm_lock();
		ret = move(qp, attr, mask);
		softrdma_cm_unlock();
	}
	if (ret == 0 && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
		ret = reset(qp);
	pthread_mutex_unlock(&qp->qp.mutex);
	return ret;
}

static void
query(const struct softrdma_qp *qp, struct ibv_qp_attr *attr)
{
	*attr = qp->datagrams->attr;
}

static void
destroy(struct softrdma_qp *qp)
{
	struct softrdma_datagram_qp *datagrams = qp->datagrams;
	softrdma_qp_delete(qp);
	if (datagrams->io_user)
		softrdma_threads_stop();
	softrdma_fork_close(datagrams->fd);
	free(datagrams);
}

static int
prepare(struct softrdma_link *link)
{
	return softrdma_send_ring_add_destinations(&link->requester.ring);
}

static int
check(const struct softrdma_send *send)
{
	const bool has_destination = send->to->address.sin6_family != AF_UNSPEC;
	return send->opcode == SOFTRDMA_OP_SEND && has_destination ? 0 : EINVAL;
}

static const struct softrdma_qp_kind kind = {
	.type = IBV_QPT_UD,
	.resets = true,
	.new_link = softrdma_datagram_socket_new_link,
	.prepare = prepare,
	.check = check,
	.modify = modify,
	.destroy = destroy,
	.query = query,
};

int
softrdma_datagram_qp_new(struct ibv_qp_init_attr_ex *attr, struct ibv_qp **qp_ptr)
{
	uint32_t qp_num;
	struct softrdma_datagram_qp *datagrams = calloc(1, sizeof(*datagrams));
	if (datagrams == NULL)
		return ENOMEM;
	int ret = softrdma_gid_take_datagram_num(&qp_num, &datagrams->fd);
	if (ret)
		goto err_free;
	struct softrdma_qp *qp = softrdma_qp_new(attr->pd, attr, &kind, qp_num);
	if (qp == NULL) {
		ret = errno;
		goto err_close;
	}
	qp->datagrams = datagrams;
	*qp_ptr = &qp->qp;
	return 0;

err_close:
	softrdma_fork_close(datagrams->fd);
err_free:
	free(datagrams);
	return ret;
}

int
softrdma_datagram_qp_make_ready(struct ibv_qp *qp)
{
	static const struct {
		enum ibv_qp_state state;
		int mask;
	} steps[] = {
		{ IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY },
		{ IBV_QPS_RTR, IBV_QP_STATE },
		{ IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN },
	};
	struct ibv_qp_attr attr = { .port_num = 1, .qkey = RDMA_UDP_QKEY };
	int ret = 0;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && ret == 0; i++) {
		attr.qp_state = steps[i].state;
		ret = modify(softrdma_qp_of(qp), &attr, steps[i].mask);
	}
	return ret;
}
