/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conn.c -- a connection: its queues, its events, its end
 *
 * The life of the rdma_cm_id: a request creates it as a synchronous id (active) or takes it from a
 * CONNECT_REQUEST event (passive). rpmai_conn_make_queues makes its queue pair. rpmai_conn_open_events moves
 * it to an event channel of its own, so that ESTABLISHED and all later events arrive only there.
 * rpma_conn_delete destroys it.
 *
 * The events DISCONNECTED and TIMEWAIT_EXIT both mean that the connection is closed, which is reported once.
 */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "conn.h"
#include "conn_cfg.h"
#include "conn_table.h"
#include "connect_timer.h"
#include "err.h"
#include "flush.h"
#include "inherited.h"
#include "log.h"
#include "usdt.h"
#include "timeout.h"
#include "write_flush.h"

#define MIN_INLINE_DATA RPMA_ATOMIC_WRITE_ALIGNMENT /* for atomic writes on devices without native ones */

/* ---- queues ---- */

/* only the extended operations that the connection will use: a provider might refuse others */
static uint64_t
extended_ops(const struct rpma_peer *peer)
{
	uint64_t ops = 0;
	if (peer->caps & RPMA_CAP_NATIVE_FLUSH)
		ops |= RPMAI_QP_EX_WITH_FLUSH;
	if (peer->caps & RPMA_CAP_NATIVE_ATOMIC_WRITE)
		ops |= RPMAI_QP_EX_WITH_ATOMIC_WRITE;
	if (ops)
		ops |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	if (ops && (peer->caps & RPMA_CAP_ATOMICS))
		ops |= IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	return ops;
}

/*
 * True if the device makes the queue pair with less inline data. Devices do not report how many bytes they take, and
 * their error is the same for queues that are too long, and for a client that has given up.
 */
static bool
refuses_inline_only(struct rpma_conn *conn, struct ibv_qp_init_attr_ex attr)
{
	if (attr.cap.max_inline_data <= MIN_INLINE_DATA)
		return false;
	attr.cap.max_inline_data = MIN_INLINE_DATA;
	if (conn->peer->rdma->create_qp_ex(conn->id, &attr))
		return false;
	conn->peer->rdma->destroy_qp(conn->id);
	return true;
}

static int
create_qp(struct rpma_conn *conn, const struct conn_params *params, bool is_passive)
{
	const struct rpma_peer *peer = conn->peer;
	struct rpma_cq *recv_cq = conn->rcq ? conn->rcq : conn->cq;
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = conn->cq->ibv_cq,
		.recv_cq = recv_cq->ibv_cq,
		.srq = conn->srq ? conn->srq->ibv_srq : NULL,
		.cap = {
			.max_send_wr = params->sq_size,
			.max_recv_wr = params->rq_size,
			.max_send_sge = conn->max_sge,
			.max_recv_sge = 1,
			.max_inline_data = conn->inline_size,
		},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = peer->pd,
		.send_ops_flags = extended_ops(peer),
	};
	if (attr.send_ops_flags)
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	const struct ibv_qp_init_attr_ex wanted = attr;
	if (peer->rdma->create_qp_ex(conn->id, &attr)) {
		const int errnum = errno;
		const char *way_out = NULL;
		/* message(post): the connection asks for more inline than the device has -> Set fewer. */
		if ((errnum == EINVAL || errnum == ENOMEM) && refuses_inline_only(conn, wanted))
			return RPMAI_FAIL_ERRNO(RPMA_E_NOSUPP, errnum,
				"the device refuses this number of bytes: set fewer "
				"(rpma_conn_cfg_set_inline_size), or none",
				"rdma_create_qp_ex() with %u bytes inline", conn->inline_size);
		if (errnum == EINVAL && conn->id->verbs != peer->pd->context)
			way_out = "the connection's address belongs to another device than the peer";
		else if (errnum == EINVAL && is_passive)
			way_out =
				"the client may have given up, or the queues are too long for the device: set shorter ones";
		else if (errnum == EINVAL || errnum == ENOMEM)
			way_out = "the queues may be too long for the device: set shorter ones";
		/*
		 * message(system, queues-made): queues are made -> *Invalid argument*: fewer entries
		 * (`rpma-info` shows the limits).
		 */
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, way_out,
			"rdma_create_qp_ex() of %u + %u entries", params->sq_size, params->rq_size);
	}

	conn->qp_num = conn->id->qp->qp_num;
	conn->sq_size = attr.cap.max_send_wr;
	if (attr.send_ops_flags)
		conn->qp_ex = peer->rdma->qp_to_qp_ex(conn->id->qp);
	return rpmai_write_parts_new(conn->sq_size, &conn->cq->write_parts);
}

static int
query_max_msg_size(struct rpma_conn *conn)
{
	struct ibv_port_attr attr = { 0 };
	int errnum = conn->peer->rdma->query_port(conn->id->verbs, conn->id->port_num, &attr);
	/* message(queues-made) */
	if (errnum)
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL, "ibv_query_port()");
	conn->max_msg_size = attr.max_msg_sz;
	return 0;
}

static int
create_queues(struct rpma_conn *conn, const struct conn_params *params, bool is_passive)
{
	struct rpma_peer *peer = conn->peer;
	struct ibv_context *ctx = conn->id->verbs;
	int ret;

	ret = query_max_msg_size(conn);
	if (ret)
		return ret;

	if (params->shared_channel) {
		conn->shared_channel = peer->rdma->create_comp_channel(ctx);
		/* message(queues-made) */
		if (conn->shared_channel == NULL)
			return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "ibv_create_comp_channel()");
	}

	ret = rpmai_cq_new(peer, ctx, params->cqe, conn->shared_channel, &conn->cq);
	if (ret)
		return ret;

	if (conn->srq && conn->srq->rcq) {
		conn->rcq = conn->srq->rcq;
		conn->rcq_is_borrowed = true;
	} else if (params->rcqe > 0) {
		ret = rpmai_cq_new(peer, ctx, params->rcqe, conn->shared_channel, &conn->rcq);
		if (ret)
			return ret;
	}

	if (peer->rdma->read_flushes) {
		ret = rpmai_flush_scratch_new(peer, &conn->flush_scratch);
		if (ret)
			return ret;
	}

	return create_qp(conn, params, is_passive);
}

/* destroys the queues that exist; the queue pair first, since it uses all the others */
static int
destroy_queues(struct rpma_conn *conn)
{
	const struct rdma_api *rdma = conn->peer->rdma;
	int ret = 0;

	if (conn->id->qp) {
		rpmai_conn_table_remove(conn->peer->conns, conn);
		rdma->destroy_qp(conn->id);
	}
	conn->qp_ex = NULL;
	ret = rpmai_first_error(ret, rpmai_flush_scratch_delete(&conn->flush_scratch));
	if (!conn->rcq_is_borrowed)
		ret = rpmai_first_error(ret, rpmai_cq_delete(&conn->rcq));
	conn->rcq = NULL;
	conn->rcq_is_borrowed = false;
	ret = rpmai_first_error(ret, rpmai_cq_delete(&conn->cq));
	if (conn->shared_channel) {
		int errnum = rdma->destroy_comp_channel(conn->shared_channel);
		/*
		 * message(system, queues-deleted): queues are deleted -> Report it, with the log at
		 * `RPMA_LOG_LEVEL=debug`.
		 */
		if (errnum)
			ret = rpmai_first_error(ret,
				RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL,
					"ibv_destroy_comp_channel()"));
		conn->shared_channel = NULL;
	}
	return ret;
}

int
rpmai_conn_make_queues(struct rpma_conn *conn, const struct conn_params *params, bool is_passive)
{
	int ret = create_queues(conn, params, is_passive);
	if (ret)
		(void)destroy_queues(conn);
	return ret;
}

/* ---- life ---- */

int
rpmai_conn_new(struct rpma_peer *peer, struct rdma_cm_id *id, const struct conn_params *params,
	struct rpma_conn **conn_ptr)
{
	/* message(post): the configuration of a connection -> Leave one of them out. */
	if (params->shared_channel && params->srq && params->srq->rcq)
		return RPMAI_FAIL(RPMA_E_INVAL,
			"a shared completion channel and a shared receive queue with a completion "
			"queue of its own exclude each other");
	const uint32_t max_sge = peer->max_sge < MAX_SGE ? peer->max_sge : MAX_SGE;
	/*
	 * message(post, more-than-configured): more than the connection was made for -> Set a larger value
	 * before connecting, or send less at once.
	 */
	if (params->max_sge > max_sge)
		return RPMAI_FAIL(RPMA_E_NOSUPP,
			"%u segments in one operation: at most %u are possible (rpma_conn_cfg_set_max_sge)",
			params->max_sge, max_sge);

	struct rpma_conn *conn = calloc(1, sizeof(*conn));
	if (conn == NULL)
		return RPMAI_FAIL_NOMEM();

	rpmai_peer_use(peer);
	conn->peer = peer;
	conn->id = id;
	conn->srq = params->srq;
	if (conn->srq)
		rpmai_srq_use(conn->srq);
	conn->max_sge = params->max_sge;
	conn->inline_size = params->inline_size > MIN_INLINE_DATA ? params->inline_size : MIN_INLINE_DATA;
	rpmai_post_init(conn);
	atomic_init(&conn->direct_write_to_pmem, false);
	atomic_init(&conn->is_closed, false);
	pthread_mutex_init(&conn->lock, NULL);

	*conn_ptr = conn;
	return 0;
}

int
rpmai_conn_open_events(struct rpma_conn *conn, int connect_timeout_ms)
{
	const struct rdma_api *rdma = conn->peer->rdma;
	assert(conn->event_channel == NULL);

	/* after a failure the caller deletes the connection, and with it what was made here */
	conn->event_channel = rdma->create_event_channel();
	/*
	 * message(system, endpoint-made): an endpoint or connection is made -> *No such device* over
	 * hardware: load the modules (`rdma_ucm`, `ib_uverbs`).
	 */
	if (conn->event_channel == NULL)
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "rdma_create_event_channel()");
	/* message(endpoint-made) */
	if (rdma->migrate_id(conn->id, conn->event_channel))
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "rdma_migrate_id()");
	if (connect_timeout_ms >= 0)
		return rpmai_connect_timer_new(conn->event_channel->fd, connect_timeout_ms,
			&conn->connect_timer);
	return 0;
}

int
rpma_conn_disconnect(struct rpma_conn *conn)
{
	if (conn == NULL)
		return RPMAI_FAIL_NULL();
	if (rpmai_peer_is_inherited(conn->peer))
		return rpmai_refuse_inherited();

	rpmai_post_drop(conn);
	if (conn->peer->rdma->disconnect(conn->id)) {
		if (errno == EINVAL && atomic_load(&conn->is_closed))
			return 0; /* there is nothing left to disconnect */
		/*
		 * message(system, connection-begins): a connection begins or ends -> *Invalid argument*
		 * after a line about TLS: that line has the reason. Else the other side has gone.
		 */
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno,
			errno == EINVAL
				? "a connection that is not established is not disconnected, but deleted"
				: NULL,
			"rdma_disconnect()");
	}
	return 0;
}

int
rpma_conn_delete(struct rpma_conn **conn_ptr)
{
	if (conn_ptr == NULL)
		return RPMAI_FAIL_NULL();

	struct rpma_conn *conn = *conn_ptr;
	if (conn == NULL)
		return 0;
	*conn_ptr = NULL;
	if (rpmai_peer_is_inherited(conn->peer))
		return rpmai_bury_inherited(conn);

	const struct rdma_api *rdma = conn->peer->rdma;
	rpmai_post_drop(conn);
	int ret = destroy_queues(conn);
	/*
	 * message(find): WARNING or ERROR: librdmacm could not undo a step -> Report it, with the log at
	 * `RPMA_LOG_LEVEL=debug`.
	 */
	if (rdma->destroy_id(conn->id))
		ret = rpmai_first_error(ret,
			RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "rdma_destroy_id()"));
	rpmai_connect_timer_delete(conn->connect_timer);
	if (conn->event_channel)
		rdma->destroy_event_channel(conn->event_channel);
	rpmai_post_fini(conn);
	rpmai_private_data_free(&conn->private_data);
	pthread_mutex_destroy(&conn->lock);
	if (conn->srq)
		ret = rpmai_first_error(ret, rpmai_srq_unuse(conn->srq));
	ret = rpmai_first_error(ret, rpmai_peer_unuse(conn->peer));
	free(conn);
	return ret;
}

/* ---- events ---- */

/*
 * The pause (RNR timer) that the other side makes when its message found no receive posted. The connection
 * manager leaves the longest, 655.36 ms. A thousandth of it hardly loads the wire (values: IBTA 9.7.5.2.8,
 * table 45).
 */
#define MIN_RNR_TIMER 12 /* 0.64 ms */

/* only for speed: if the device does not allow the change, it is used as it is */
static void
shorten_rnr_pause(struct rpma_conn *conn)
{
	struct ibv_qp_attr attr = { .min_rnr_timer = MIN_RNR_TIMER };
	int errnum = conn->peer->rdma->modify_qp(conn->id->qp, &attr, IBV_QP_MIN_RNR_TIMER);
	if (errnum)
		RPMAI_LOG(INFO, "ibv_modify_qp() of the receiver-not-ready timer failed: error %d", errnum);
}

/* keeps the private data of the response to a request; an incoming request already has its own */
static int
keep_private_data(struct rpma_conn *conn, const struct rdma_cm_event *event)
{
	int ret = 0;
	pthread_mutex_lock(&conn->lock);
	if (conn->private_data.ptr == NULL)
		ret = rpmai_private_data_copy(event->param.conn.private_data,
			event->param.conn.private_data_len, &conn->private_data);
	pthread_mutex_unlock(&conn->lock);
	return ret;
}

static enum rpma_conn_event
translate(enum rdma_cm_event_type type)
{
	switch (type) {
	case RDMA_CM_EVENT_ESTABLISHED:
		return RPMA_CONN_ESTABLISHED;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return RPMA_CONN_CLOSED;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return RPMA_CONN_LOST;
	case RDMA_CM_EVENT_REJECTED:
		return RPMA_CONN_REJECTED;
	case RDMA_CM_EVENT_UNREACHABLE:
		return RPMA_CONN_UNREACHABLE;
	default:
		return RPMA_CONN_UNDEFINED;
	}
}

/* takes, translates and acknowledges one event */
static int
take_event(struct rpma_conn *conn, enum rpma_conn_event *event_ptr)
{
	const struct rdma_api *rdma = conn->peer->rdma;
	struct rdma_cm_event *cm_event;

	if (rdma->get_cm_event(conn->event_channel, &cm_event)) {
		if (errno == EAGAIN || errno == EINTR || errno == ENODATA)
			return RPMA_E_NO_EVENT;
		/* message(system, waiting): waiting for an event -> The system's text says why. */
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "rdma_get_cm_event()");
	}

	int ret = 0;
	const int type = (int)cm_event->event;
	const int status = cm_event->status;
	enum rpma_conn_event event = translate(cm_event->event);
	/* now: the event counts as taken even if what follows fails */
	if (conn->connect_timer)
		rpmai_connect_timer_stop(conn->connect_timer);
	if (event == RPMA_CONN_ESTABLISHED || event == RPMA_CONN_REJECTED)
		ret = keep_private_data(conn, cm_event);
	if (event == RPMA_CONN_ESTABLISHED)
		shorten_rnr_pause(conn);

	if (event == RPMA_CONN_ESTABLISHED)
		atomic_store(&conn->stats.established, 1);
	USDT(librpma, event, conn->qp_num, (int)event, status);
	/* message(waiting) */
	if (rdma->ack_cm_event(cm_event))
		return rpmai_first_error(ret,
			RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "rdma_ack_cm_event()"));
	if (ret)
		return ret;

	if (event == RPMA_CONN_UNDEFINED) {
		/*
		 * message(connect, unknown-event): librdmacm is newer than librpma, or hardware was removed
		 * -> Look at the kernel's log. Install a newer librpma.
		 */
		RPMAI_LOG(WARNING,
			"event %d (status %d) of the connection manager is unknown to this version", type,
			status);
		/* message(unknown-event) */
		return rpmai_refuse(RPMA_E_UNKNOWN,
			"the connection manager sent an event that is unknown to this version");
	}
	RPMAI_LOG(INFO, "%s (status %d)", rpma_utils_conn_event_2str(event), status);
	*event_ptr = event;
	return 0;
}

/* the connection was not established in time: from now on its events are not reported */
static int
give_up(struct rpma_conn *conn, enum rpma_conn_event *event)
{
	conn->has_timed_out = true;
	RPMAI_LOG(INFO,
		"%s: the connection was not established in the time of rpma_conn_cfg_set_connect_timeout",
		rpma_utils_conn_event_2str(RPMA_CONN_UNREACHABLE));
	*event = RPMA_CONN_UNREACHABLE;
	return 0;
}

/* true if the event is reported to the program */
static bool
concerns_user(struct rpma_conn *conn, enum rpma_conn_event event)
{
	if (conn->has_timed_out) {
		if (event == RPMA_CONN_ESTABLISHED)
			(void)conn->peer->rdma->disconnect(conn->id);
		return false;
	}
	return event != RPMA_CONN_CLOSED || !atomic_exchange(&conn->is_closed, true);
}

/* waits for an event until the deadline, then takes it */
static int
next_event_until(struct rpma_conn *conn, uint64_t deadline, enum rpma_conn_event *event)
{
	enum rpma_conn_event taken = RPMA_CONN_UNDEFINED;
	int ret;
	do {
		if (conn->connect_timer) {
			switch (rpmai_connect_timer_wait(conn->connect_timer, deadline)) {
			case CONNECT_TIMER_NOTHING:
				return RPMA_E_NO_EVENT;
			case CONNECT_TIMER_FAILED:
				return RPMA_E_PROVIDER;
			case CONNECT_TIMER_OVER:
				return give_up(conn, event);
			case CONNECT_TIMER_CHANNEL:
				break;
			}
		} else {
			ret = rpmai_timeout_readable(conn->event_channel->fd, deadline);
			if (ret <= 0)
				return ret ? ret : RPMA_E_NO_EVENT;
		}
		ret = take_event(conn, &taken);
		if (ret)
			return ret;
	} while (!concerns_user(conn, taken));

	*event = taken;
	return 0;
}

int
rpma_conn_next_event_timed(struct rpma_conn *conn, int timeout_ms, enum rpma_conn_event *event)
{
	if (conn == NULL || event == NULL)
		return RPMAI_FAIL_NULL();
	if (rpmai_peer_is_inherited(conn->peer))
		return rpmai_refuse_inherited();
	int ret = rpmai_timeout_check(timeout_ms);
	if (ret)
		return ret;

	return next_event_until(conn, rpmai_timeout_deadline(timeout_ms), event);
}

int
rpma_conn_next_event(struct rpma_conn *conn, enum rpma_conn_event *event)
{
	if (conn == NULL || event == NULL)
		return RPMAI_FAIL_NULL();
	if (rpmai_peer_is_inherited(conn->peer))
		return rpmai_refuse_inherited();
	if (conn->connect_timer) {
		const int flags = fcntl(rpmai_connect_timer_fd(conn->connect_timer), F_GETFL);
		return next_event_until(conn, rpmai_timeout_deadline((flags & O_NONBLOCK) ? 0 : -1), event);
	}

	enum rpma_conn_event taken = RPMA_CONN_UNDEFINED;
	do {
		int ret = take_event(conn, &taken);
		if (ret)
			return ret;
	} while (!concerns_user(conn, taken));

	*event = taken;
	return 0;
}

/* ---- completions of a shared channel ---- */

static int
refuse_not_shared(void)
{
	/* message(post, wrong-wait): the wrong kind of wait; not in the log -> As they say. */
	return rpmai_refuse(RPMA_E_NOT_SHARED_CHNL,
		"the completion queues have channels of their own: use rpma_cq_wait");
}

static int
check_wait(struct rpma_conn *conn, int flags, struct rpma_cq **cq)
{
	if (conn == NULL || cq == NULL)
		return RPMAI_FAIL_NULL();
	if (rpmai_peer_is_inherited(conn->peer))
		return rpmai_refuse_inherited();
	/* message(arguments): rpma_conn_wait(3) -> As it says. */
	if (flags & ~(RPMA_W_WAIT_FOR_COMPLETION | RPMA_W_NO_ARM))
		return RPMAI_FAIL(RPMA_E_INVAL, "flags 0x%x: give 0 or RPMA_W_NO_ARM", (unsigned)flags);
	if (conn->shared_channel == NULL)
		return refuse_not_shared();
	return 0;
}

static int
take_shared_event(struct rpma_conn *conn, int flags, struct rpma_cq **cq, bool *is_rcq)
{
	const struct rdma_api *rdma = conn->peer->rdma;
	struct ibv_cq *ibv_cq;
	int ret = rpmai_cq_take_event(rdma, conn->shared_channel, &ibv_cq);
	if (ret)
		return ret;

	struct rpma_cq *found;
	if (ibv_cq == conn->cq->ibv_cq) {
		found = conn->cq;
	} else if (conn->rcq && ibv_cq == conn->rcq->ibv_cq) {
		found = conn->rcq;
	} else {
		rdma->ack_cq_events(ibv_cq, 1);
		/*
		 * message(post): rpma_conn_wait(3): the shared receive queue's -> Wait for it by
		 * rpma_cq_wait(3).
		 */
		return RPMAI_FAIL(RPMA_E_UNKNOWN,
			"the shared channel reported a completion queue that does not belong to the connection");
	}

	rpmai_cq_ack(found);
	if (!(flags & RPMA_W_NO_ARM)) {
		ret = rpmai_cq_auto_arm(found);
		if (ret)
			return ret;
	}

	*cq = found;
	if (is_rcq)
		*is_rcq = found == conn->rcq;
	return 0;
}

int
rpma_conn_wait(struct rpma_conn *conn, int flags, struct rpma_cq **cq, bool *is_rcq)
{
	int ret = check_wait(conn, flags, cq);
	return ret ? ret : take_shared_event(conn, flags, cq, is_rcq);
}

int
rpma_conn_wait_timed(struct rpma_conn *conn, int flags, int timeout_ms, struct rpma_cq **cq, bool *is_rcq)
{
	int ret = check_wait(conn, flags, cq);
	if (ret)
		return ret;
	ret = rpmai_timeout_check(timeout_ms);
	if (ret)
		return ret;

	/* one thread at a time: otherwise another thread might take the event that this one has seen */
	struct turn *turn = &conn->cq->timed;
	const uint64_t deadline = rpmai_timeout_deadline(timeout_ms);
	if (!rpmai_turn_take(turn, deadline))
		return RPMA_E_NO_COMPLETION;
	pthread_cleanup_push(rpmai_turn_give, turn);
	ret = rpmai_timeout_readable(conn->shared_channel->fd, deadline);
	if (ret >= 0)
		ret = ret ? take_shared_event(conn, flags, cq, is_rcq) : RPMA_E_NO_COMPLETION;
	pthread_cleanup_pop(1);
	return ret;
}

/* ---- getters ---- */

int
rpma_conn_get_event_fd(const struct rpma_conn *conn, int *fd)
{
	if (conn == NULL || fd == NULL)
		return RPMAI_FAIL_NULL();

	*fd = conn->connect_timer ? rpmai_connect_timer_fd(conn->connect_timer) : conn->event_channel->fd;
	return 0;
}

int
rpma_conn_get_private_data(const struct rpma_conn *conn, struct rpma_conn_private_data *pdata)
{
	if (conn == NULL || pdata == NULL)
		return RPMAI_FAIL_NULL();
	if (rpmai_peer_is_inherited(conn->peer))
		return rpmai_refuse_inherited();

	/* taking the lock does not change what const protects */
	pthread_mutex_t *lock = (pthread_mutex_t *)&conn->lock;
	pthread_mutex_lock(lock);
	*pdata = conn->private_data;
	pthread_mutex_unlock(lock);
	return 0;
}

int
rpma_conn_apply_remote_peer_cfg(struct rpma_conn *conn, const struct rpma_peer_cfg *pcfg)
{
	if (conn == NULL || pcfg == NULL)
		return RPMAI_FAIL_NULL();

	bool supported;
	int ret = rpma_peer_cfg_get_direct_write_to_pmem(pcfg, &supported);
	assert(ret == 0);
	atomic_store(&conn->direct_write_to_pmem, supported);
	return ret;
}

int
rpma_conn_get_qp_num(const struct rpma_conn *conn, uint32_t *qp_num)
{
	if (conn == NULL || qp_num == NULL)
		return RPMAI_FAIL_NULL();

	*qp_num = conn->qp_num;
	return 0;
}

int
rpma_conn_get_cq(const struct rpma_conn *conn, struct rpma_cq **cq_ptr)
{
	if (conn == NULL || cq_ptr == NULL)
		return RPMAI_FAIL_NULL();

	*cq_ptr = conn->cq;
	return 0;
}

int
rpma_conn_get_rcq(const struct rpma_conn *conn, struct rpma_cq **rcq_ptr)
{
	if (conn == NULL || rcq_ptr == NULL)
		return RPMAI_FAIL_NULL();

	*rcq_ptr = conn->rcq;
	return 0;
}

int
rpma_conn_get_compl_fd(const struct rpma_conn *conn, int *fd)
{
	if (conn == NULL || fd == NULL)
		return RPMAI_FAIL_NULL();
	if (conn->shared_channel == NULL)
		return refuse_not_shared();

	*fd = conn->shared_channel->fd;
	return 0;
}
