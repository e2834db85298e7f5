/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_conn.c -- a connection: its queues, its events, its end */

#include <limits.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mock.h"

static void
arguments(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = mock_conn(peer, NULL), *none = NULL;
	struct rpma_peer_cfg *cfg = NULL;
	struct rpma_conn_private_data pdata;
	enum rpma_conn_event event;
	struct rpma_cq *cq = NULL;
	uint32_t qp_num = 0;
	bool is_rcq;
	int fd = 0;
	assert_ok(rpma_peer_cfg_new(&cfg));

	assert_fails(RPMA_E_INVAL, rpma_conn_get_event_fd(NULL, &fd));
	assert_fails(RPMA_E_INVAL, rpma_conn_get_event_fd(conn, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_next_event(NULL, &event));
	assert_fails(RPMA_E_INVAL, rpma_conn_next_event(conn, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_get_private_data(NULL, &pdata));
	assert_fails(RPMA_E_INVAL, rpma_conn_get_private_data(conn, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_apply_remote_peer_cfg(NULL, cfg));
	assert_fails(RPMA_E_INVAL, rpma_conn_apply_remote_peer_cfg(conn, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_get_qp_num(NULL, &qp_num));
	assert_fails(RPMA_E_INVAL, rpma_conn_get_qp_num(conn, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_get_cq(NULL, &cq));
	assert_fails(RPMA_E_INVAL, rpma_conn_get_cq(conn, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_get_rcq(NULL, &cq));
	assert_fails(RPMA_E_INVAL, rpma_conn_get_rcq(conn, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_get_compl_fd(NULL, &fd));
	assert_fails(RPMA_E_INVAL, rpma_conn_get_compl_fd(conn, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_wait(NULL, 0, &cq, &is_rcq));
	assert_fails(RPMA_E_INVAL, rpma_conn_wait(conn, 0, NULL, &is_rcq));
	assert_fails(RPMA_E_INVAL, rpma_conn_wait(conn, 1 << 2, &cq, &is_rcq));
	assert_fails(RPMA_E_INVAL, rpma_conn_disconnect(NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_delete(NULL));
	assert_ok(rpma_conn_delete(&none));

	/* without a shared channel */
	assert_int_equal(rpma_conn_get_compl_fd(conn, &fd), RPMA_E_NOT_SHARED_CHNL);
	assert_int_equal(rpma_conn_wait(conn, 0, &cq, &is_rcq), RPMA_E_NOT_SHARED_CHNL);
	assert_null(cq);

	assert_ok(rpma_conn_get_event_fd(conn, &fd));
	assert_int_equal(fd, 1000);
	assert_ok(rpma_conn_get_qp_num(conn, &qp_num));
	assert_int_equal(qp_num, MOCK_QP_NUM);
	cq = (struct rpma_cq *)conn;
	assert_ok(rpma_conn_get_rcq(conn, &cq));
	assert_null(cq);
	assert_ok(rpma_conn_get_private_data(conn, &pdata));
	assert_null(pdata.ptr);
	assert_int_equal(pdata.len, 0);

	rpma_peer_cfg_delete(&cfg);
	assert_ok(rpma_conn_delete(&conn));
	assert_null(conn);
	rpma_peer_delete(&peer);
}

static void
the_queue_pair(void **state)
{
	for (int native = 0; native < 2; native++) {
		mock_setup(state);
		if (native)
			mock_native();
		struct rpma_peer *peer = mock_peer();
		struct rpma_conn_cfg *cfg = NULL;
		assert_ok(rpma_conn_cfg_new(&cfg));
		rpma_conn_cfg_set_cq_size(cfg, 11);
		rpma_conn_cfg_set_rcq_size(cfg, 12);
		rpma_conn_cfg_set_sq_size(cfg, 13);
		rpma_conn_cfg_set_rq_size(cfg, 14);
		rpma_conn_cfg_set_timeout(cfg, 15);
		struct rpma_conn *conn = mock_conn(peer, cfg);

		assert_int_equal(mock.timeout_ms, 15);
		assert_int_equal(mock.cqe[0], 11);
		assert_int_equal(mock.cqe[1], 12);
		const struct ibv_qp_init_attr_ex *attr = &mock.qp_attr;
		assert_int_equal(attr->qp_type, IBV_QPT_RC);
		assert_int_equal(attr->sq_sig_all, 0);
		assert_int_equal(attr->cap.max_send_wr, 13);
		assert_int_equal(attr->cap.max_recv_wr, 14);
		assert_int_equal(attr->cap.max_send_sge, 1);
		assert_int_equal(attr->cap.max_recv_sge, 1);
		assert_int_equal(attr->cap.max_inline_data, 8);
		assert_ptr_equal(attr->pd, peer->pd);
		assert_ptr_equal(attr->send_cq, conn->cq->ibv_cq);
		assert_ptr_equal(attr->recv_cq, conn->rcq->ibv_cq);
		assert_null(attr->srq);
		/* a provider is asked only for operations that its device offers */
		assert_int_equal(attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			native ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0);
		assert_int_equal((attr->send_ops_flags & RPMAI_QP_EX_WITH_FLUSH) != 0, native);
		assert_int_equal((attr->send_ops_flags & RPMAI_QP_EX_WITH_ATOMIC_WRITE) != 0, native);
		assert_int_equal(conn->qp_ex != NULL, native);

		/* its events have moved to its own channel before anything was sent */
		assert_in_range(mock_last("migrate_id"), 0, mock_last("connect"));

		assert_ok(rpma_conn_delete(&conn));
		assert_in_range(mock_last("destroy_qp"), 0, mock_last("destroy_cq"));
		assert_in_range(mock_last("destroy_id"), 0, mock_last("destroy_event_channel"));
		rpma_conn_cfg_delete(&cfg);
		rpma_peer_delete(&peer);
		assert_int_equal(mock.live, 0);
	}
}

static void
a_shared_receive_queue(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_srq *srq = NULL;
	struct rpma_cq *rcq = NULL, *srq_rcq = NULL;
	struct rpma_conn_req *req = NULL;
	assert_ok(rpma_srq_new(peer, NULL, &srq));
	assert_ok(rpma_srq_get_rcq(srq, &srq_rcq));
	assert_ok(rpma_conn_cfg_new(&cfg));
	rpma_conn_cfg_set_srq(cfg, srq);
	rpma_conn_cfg_set_rcq_size(cfg, 5); /* not needed: the shared queue has its own */
	struct rpma_conn *conn = mock_conn(peer, cfg);
	assert_ok(rpma_conn_get_rcq(conn, &rcq));
	assert_ptr_equal(rcq, srq_rcq);
	assert_ptr_equal(mock.qp_attr.srq, srq->ibv_srq);
	assert_ptr_equal(mock.qp_attr.recv_cq, srq_rcq->ibv_cq);
	assert_fails(RPMA_E_INVAL, rpma_recv(conn, NULL, 0, 0, NULL));
	assert_ok(rpma_conn_delete(&conn));

	rpma_conn_cfg_set_compl_channel(cfg, true);
	assert_fails(RPMA_E_INVAL, rpma_conn_req_new(peer, "192.0.2.1", "1", cfg, &req));
	assert_null(req);

	rpma_srq_delete(&srq);
	rpma_conn_cfg_delete(&cfg);
	rpma_peer_delete(&peer);
}

static void
events(void **state)
{
	(void)state;
	static const struct {
		enum rdma_cm_event_type type;
		int ret;
		enum rpma_conn_event event;
	} table[] = {
		{ RDMA_CM_EVENT_ESTABLISHED, 0, RPMA_CONN_ESTABLISHED },
		{ RDMA_CM_EVENT_CONNECT_ERROR, 0, RPMA_CONN_LOST },
		{ RDMA_CM_EVENT_DEVICE_REMOVAL, 0, RPMA_CONN_LOST },
		{ RDMA_CM_EVENT_DISCONNECTED, 0, RPMA_CONN_CLOSED },
		{ RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, RPMA_CONN_CLOSED },
		{ RDMA_CM_EVENT_REJECTED, 0, RPMA_CONN_REJECTED },
		{ RDMA_CM_EVENT_UNREACHABLE, 0, RPMA_CONN_UNREACHABLE },
		{ RDMA_CM_EVENT_ADDR_CHANGE, RPMA_E_UNKNOWN, RPMA_CONN_UNDEFINED },
		{ RDMA_CM_EVENT_MULTICAST_ERROR, RPMA_E_UNKNOWN, RPMA_CONN_UNDEFINED },
	};
	struct rpma_peer *peer = mock_peer();
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct rpma_conn *conn = mock_conn(peer, NULL);
		enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
		mock.events_queued = mock.events_taken = mock.events_acked = 0;
		mock_queue_event(table[i].type, conn->id, NULL, 0);
		assert_int_equal(rpma_conn_next_event(conn, &event), table[i].ret);
		assert_int_equal(event, table[i].event);
		assert_int_equal(mock.events_acked, 1);
		assert_ok(rpma_conn_delete(&conn));
	}
	rpma_peer_delete(&peer);
}

static void
closing_is_reported_once(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = mock_conn(peer, NULL);
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	mock_queue_event(RDMA_CM_EVENT_DISCONNECTED, conn->id, NULL, 0);
	mock_queue_event(RDMA_CM_EVENT_TIMEWAIT_EXIT, conn->id, NULL, 0);
	assert_ok(rpma_conn_next_event(conn, &event));
	assert_int_equal(event, RPMA_CONN_CLOSED);
	assert_int_equal(rpma_conn_next_event(conn, &event), RPMA_E_NO_EVENT);
	assert_int_equal(mock.events_acked, 2);

	/* events in between are not lost */
	mock_queue_event(RDMA_CM_EVENT_TIMEWAIT_EXIT, conn->id, NULL, 0);
	mock_queue_event(RDMA_CM_EVENT_DEVICE_REMOVAL, conn->id, NULL, 0);
	assert_ok(rpma_conn_next_event(conn, &event));
	assert_int_equal(event, RPMA_CONN_LOST);
	assert_ok(rpma_conn_delete(&conn));
	rpma_peer_delete(&peer);
}

static void
no_event(void **state)
{
	(void)state;
	static const struct {
		int errnum, ret;
	} table[] = {
		{ EAGAIN, RPMA_E_NO_EVENT },
		{ EINTR, RPMA_E_NO_EVENT },
		{ ENODATA, RPMA_E_NO_EVENT },
		{ EBADF, RPMA_E_PROVIDER },
	};
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = mock_conn(peer, NULL);
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mock.fail_call = "get_cm_event";
		mock.fail_skip = 0;
		mock.fail_errno = table[i].errnum;
		assert_int_equal(rpma_conn_next_event(conn, &event), table[i].ret);
	}
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], 1);

	mock_queue_event(RDMA_CM_EVENT_ESTABLISHED, conn->id, "abc", 3);
	mock.fail_call = "ack_cm_event";
	mock.fail_skip = 0;
	assert_fails(RPMA_E_PROVIDER, rpma_conn_next_event(conn, &event));

	mock_queue_event(RDMA_CM_EVENT_ESTABLISHED, conn->id, "abc", 3);
	rpmai_private_data_free(&conn->private_data);
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_conn_next_event(conn, &event));
	assert_int_equal(event, RPMA_CONN_UNDEFINED);
	assert_ok(rpma_conn_delete(&conn));
	rpma_peer_delete(&peer);
}

static void
private_data_comes_with_the_first_acceptance(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = mock_conn(peer, NULL);
	struct rpma_conn_private_data pdata = { NULL, 0 };
	enum rpma_conn_event event;
	mock_queue_event(RDMA_CM_EVENT_ESTABLISHED, conn->id, "abc", 3);
	mock_queue_event(RDMA_CM_EVENT_ESTABLISHED, conn->id, "other", 5);
	for (int i = 0; i < 2; i++) {
		assert_ok(rpma_conn_next_event(conn, &event));
		assert_ok(rpma_conn_get_private_data(conn, &pdata));
		assert_int_equal(pdata.len, 3);
		assert_memory_equal(pdata.ptr, "abc", 3);
	}
	assert_ok(rpma_conn_delete(&conn));
	rpma_peer_delete(&peer);
}

static void
messages_without_a_receive_are_soon_repeated(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	enum rpma_conn_event event;
	for (int fails = 0; fails < 2; fails++) {
		struct rpma_conn *conn = mock_conn(peer, NULL);
		mock.traced = 0;
		mock.events_queued = mock.events_taken = mock.events_acked = 0;
		mock_queue_event(RDMA_CM_EVENT_ESTABLISHED, conn->id, NULL, 0);
		mock_queue_event(RDMA_CM_EVENT_DISCONNECTED, conn->id, NULL, 0);
		mock.fail_call = fails ? "modify_qp" : NULL;
		mock.fail_skip = 0;
		assert_ok(rpma_conn_next_event(conn, &event));
		assert_int_equal(event, RPMA_CONN_ESTABLISHED);
		assert_ok(rpma_conn_next_event(conn, &event));
		assert_int_equal(mock_count("modify_qp"), 1);
		assert_int_equal(mock.modified_mask, IBV_QP_MIN_RNR_TIMER);
		/* 0 is the longest time; the others grow with the number */
		assert_in_range(mock.modified.min_rnr_timer, 1, 20);
		assert_ok(rpma_conn_delete(&conn));
	}
	rpma_peer_delete(&peer);
}

static void
waiting_on_a_shared_channel(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_cq *cq = NULL, *main_cq = NULL, *rcq = NULL;
	bool is_rcq = true;
	int fd = 0;
	assert_ok(rpma_conn_cfg_new(&cfg));
	rpma_conn_cfg_set_compl_channel(cfg, true);
	rpma_conn_cfg_set_rcq_size(cfg, 5);
	struct rpma_conn *conn = mock_conn(peer, cfg);
	assert_int_equal(mock_count("create_comp_channel"), 1);
	assert_ok(rpma_conn_get_cq(conn, &main_cq));
	assert_ok(rpma_conn_get_rcq(conn, &rcq));
	assert_ok(rpma_conn_get_compl_fd(conn, &fd));
	assert_int_equal(fd, 2000);
	assert_int_equal(rpma_cq_wait(main_cq), RPMA_E_SHARED_CHANNEL);
	assert_int_equal(rpma_conn_completion_wait(conn), RPMA_E_SHARED_CHANNEL);

	assert_int_equal(rpma_conn_wait(conn, 0, &cq, &is_rcq), RPMA_E_NO_COMPLETION);
	assert_null(cq);
	mock.notified = 0;
	mock.cq_event = main_cq->ibv_cq;
	assert_ok(rpma_conn_wait(conn, 0, &cq, &is_rcq));
	assert_ptr_equal(cq, main_cq);
	assert_false(is_rcq);
	mock.cq_event = rcq->ibv_cq;
	assert_ok(rpma_conn_wait(conn, 0, &cq, &is_rcq));
	assert_ptr_equal(cq, rcq);
	assert_true(is_rcq);
	assert_ok(rpma_conn_wait(conn, 0, &cq, NULL));
	assert_int_equal(mock.cq_events_acked, 0); /* in batches */
	assert_int_equal(mock.notified, 3);

	/* a program that arms the queue itself */
	assert_ok(rpma_conn_wait(conn, RPMA_W_NO_ARM, &cq, NULL));
	assert_int_equal(mock.notified, 3);
	assert_ok(rpma_cq_arm(cq));
	assert_int_equal(mock.notified, 4);

	/*
	 * The event is for a queue of another connection. It must still be acknowledged, or destroying that
	 * queue would hang.
	 */
	struct ibv_cq stranger = { .context = &mock.ctx };
	cq = NULL;
	mock.cq_event = &stranger;
	assert_fails(RPMA_E_UNKNOWN, rpma_conn_wait(conn, 0, &cq, &is_rcq));
	assert_int_equal(mock.cq_events_acked, 1);

	mock.cq_event = rcq->ibv_cq;
	mock.fail_call = "req_notify_cq";
	assert_fails(RPMA_E_PROVIDER, rpma_conn_wait(conn, 0, &cq, &is_rcq));
	assert_null(cq);
	assert_ok(rpma_conn_delete(&conn));
	assert_int_equal(mock.cq_events_acked, 6); /* before the queues are destroyed, which waits for it */
	rpma_conn_cfg_delete(&cfg);
	rpma_peer_delete(&peer);
}

static void
disconnecting(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = mock_conn(peer, NULL);
	enum rpma_conn_event event;
	assert_ok(rpma_conn_disconnect(conn));
	mock.fail_call = "disconnect";
	mock.fail_errno = EINVAL;
	assert_fails(RPMA_E_PROVIDER, rpma_conn_disconnect(conn));
	mock_queue_event(RDMA_CM_EVENT_DISCONNECTED, conn->id, NULL, 0);
	assert_ok(rpma_conn_next_event(conn, &event));
	mock.fail_skip = 0;
	assert_ok(rpma_conn_disconnect(conn)); /* it is closed already */
	assert_ok(rpma_conn_delete(&conn));
	rpma_peer_delete(&peer);
}

static void
deleting_goes_on_after_an_error(void **state)
{
	(void)state;
	static const char *const calls[] = { "dereg_mr", "destroy_cq", "destroy_comp_channel", "destroy_id" };
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_cfg *cfg = NULL;
	assert_ok(rpma_conn_cfg_new(&cfg));
	rpma_conn_cfg_set_rcq_size(cfg, 5);
	const int live = mock.live;
	for (int shared = 0; shared < 2; shared++) {
		rpma_conn_cfg_set_compl_channel(cfg, shared);
		for (size_t i = 0; i < 4; i++) {
			mock.fail_call = NULL;
			struct rpma_conn *conn = mock_conn(peer, cfg);
			mock.fail_call = calls[i];
			mock.fail_skip = 0;
			assert_fails(RPMA_E_PROVIDER, rpma_conn_delete(&conn));
			assert_null(conn);
			assert_int_equal(mock.live, live);
		}
	}
	rpma_conn_cfg_delete(&cfg);
	rpma_peer_delete(&peer);
}

/* the private data of a rejection is available afterwards, with its exact length */
static void
private_data_comes_with_a_rejection(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	uint8_t padded[148];
	const struct rpma_conn_private_data reason = { (void *)"no room", 7 };
	assert_int_equal(rpmai_private_data_pad(&reason, padded, sizeof(padded)), sizeof(padded));
	for (int pads = 0; pads < 2; pads++) {
		struct rpma_conn *conn = mock_conn(peer, NULL);
		struct rpma_conn_private_data pdata = { NULL, 0 };
		enum rpma_conn_event event;
		mock.events_queued = mock.events_taken = mock.events_acked = 0;
		if (pads)
			mock_queue_event(RDMA_CM_EVENT_REJECTED, conn->id, padded, sizeof(padded));
		else
			mock_queue_event(RDMA_CM_EVENT_REJECTED, conn->id, "no room", 7);
		assert_ok(rpma_conn_next_event(conn, &event));
		assert_int_equal(event, RPMA_CONN_REJECTED);
		assert_ok(rpma_conn_get_private_data(conn, &pdata));
		assert_int_equal(pdata.len, 7);
		assert_memory_equal(pdata.ptr, "no room", 7);
		assert_int_equal(mock_count("modify_qp"), 0);
		assert_ok(rpma_conn_delete(&conn));
	}

	struct rpma_conn *conn = mock_conn(peer, NULL);
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	mock_queue_event(RDMA_CM_EVENT_REJECTED, conn->id, "no room", 7);
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_conn_next_event(conn, &event));
	assert_int_equal(event, RPMA_CONN_UNDEFINED);
	assert_ok(rpma_conn_delete(&conn));
	rpma_peer_delete(&peer);
}

static void
events_in_time(void **state)
{
	(void)state;
	int channel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	mock.channel_fd = channel;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = mock_conn(peer, NULL);
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	assert_fails(RPMA_E_INVAL, rpma_conn_next_event_timed(NULL, 0, &event));
	assert_fails(RPMA_E_INVAL, rpma_conn_next_event_timed(conn, 0, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_next_event_timed(conn, -2, &event));
	assert_fails(RPMA_E_INVAL, rpma_conn_next_event_timed(conn, INT_MIN, &event));

	/* no event comes: the channel, which would block, is not read */
	assert_int_equal(rpma_conn_next_event_timed(conn, 0, &event), RPMA_E_NO_EVENT);
	assert_int_equal(rpma_conn_next_event_timed(conn, 1, &event), RPMA_E_NO_EVENT);
	assert_int_equal(mock_count("get_cm_event"), 0);
	assert_int_equal(event, RPMA_CONN_UNDEFINED);

	assert_int_equal(eventfd_write(channel, 1), 0);
	mock_queue_event(RDMA_CM_EVENT_ESTABLISHED, conn->id, NULL, 0);
	mock_queue_event(RDMA_CM_EVENT_DISCONNECTED, conn->id, NULL, 0);
	mock_queue_event(RDMA_CM_EVENT_TIMEWAIT_EXIT, conn->id, NULL, 0);
	mock_queue_event(RDMA_CM_EVENT_ADDR_CHANGE, conn->id, NULL, 0);
	assert_ok(rpma_conn_next_event_timed(conn, -1, &event));
	assert_int_equal(event, RPMA_CONN_ESTABLISHED);
	assert_ok(rpma_conn_next_event_timed(conn, INT_MAX, &event));
	assert_int_equal(event, RPMA_CONN_CLOSED);
	/* the end is reported only once: the next event of the queue follows */
	assert_int_equal(rpma_conn_next_event_timed(conn, 1, &event), RPMA_E_UNKNOWN);
	assert_int_equal(mock.events_acked, 4);
	assert_int_equal(rpma_conn_next_event_timed(conn, 0, &event), RPMA_E_NO_EVENT);
	assert_ok(rpma_conn_delete(&conn));
	rpma_peer_delete(&peer);
	close(channel);
}

static void
waiting_on_a_shared_channel_for_a_time(void **state)
{
	(void)state;
	int channel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	mock.channel_fd = channel;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_cq *cq = NULL, *main_cq = NULL;
	bool is_rcq = true;
	assert_ok(rpma_conn_cfg_new(&cfg));
	struct rpma_conn *conn = mock_conn(peer, cfg);
	assert_int_equal(rpma_conn_wait_timed(conn, 0, 0, &cq, &is_rcq), RPMA_E_NOT_SHARED_CHNL);
	assert_ok(rpma_conn_delete(&conn));

	assert_ok(rpma_conn_cfg_set_compl_channel(cfg, true));
	conn = mock_conn(peer, cfg);
	assert_ok(rpma_conn_get_cq(conn, &main_cq));
	mock.cq_event = main_cq->ibv_cq;
	mock.notified = 0;
	assert_fails(RPMA_E_INVAL, rpma_conn_wait_timed(NULL, 0, 0, &cq, &is_rcq));
	assert_fails(RPMA_E_INVAL, rpma_conn_wait_timed(conn, 0, 0, NULL, &is_rcq));
	assert_fails(RPMA_E_INVAL, rpma_conn_wait_timed(conn, 1 << 2, 0, &cq, &is_rcq));
	assert_fails(RPMA_E_INVAL, rpma_conn_wait_timed(conn, 0, -2, &cq, &is_rcq));
	assert_int_equal(rpma_conn_wait_timed(conn, 0, 0, &cq, &is_rcq), RPMA_E_NO_COMPLETION);
	assert_int_equal(rpma_conn_wait_timed(conn, 0, 1, &cq, &is_rcq), RPMA_E_NO_COMPLETION);
	assert_int_equal(mock_count("get_cq_event"), 0);
	assert_null(cq);

	assert_int_equal(eventfd_write(channel, 1), 0);
	assert_ok(rpma_conn_wait_timed(conn, RPMA_W_WAIT_FOR_COMPLETION, -1, &cq, &is_rcq));
	assert_ptr_equal(cq, main_cq);
	assert_false(is_rcq);
	assert_int_equal(mock.notified, 1);
	assert_ok(rpma_conn_wait_timed(conn, RPMA_W_NO_ARM, INT_MAX, &cq, NULL));
	assert_int_equal(mock.notified, 1);
	assert_ok(rpma_cq_set_auto_arm(cq, false));
	assert_ok(rpma_conn_wait_timed(conn, 0, 0, &cq, NULL));
	assert_int_equal(mock.notified, 1);

	/* another thread is waiting, for longer */
	assert_true(rpmai_turn_take(&main_cq->timed, DEADLINE_NEVER));
	assert_int_equal(rpma_conn_wait_timed(conn, 0, 1, &cq, NULL), RPMA_E_NO_COMPLETION);
	rpmai_turn_give(&main_cq->timed);
	assert_ok(rpma_conn_wait_timed(conn, 0, 0, &cq, NULL));
	assert_ok(rpma_conn_delete(&conn));
	assert_int_equal(mock.cq_events_acked, 4);
	assert_ok(rpma_conn_cfg_delete(&cfg));
	rpma_peer_delete(&peer);
	close(channel);
}

/* a connection requests the extended operations that it will use, and none that its device lacks */
static void
extended_operations_asked_for(void **state)
{
	const uint64_t usual = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
		IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	const uint64_t atomics = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	const uint64_t flush = RPMAI_CAP_FLUSH_GLOBAL | RPMAI_CAP_FLUSH_PERSISTENT;
	const struct {
		uint64_t device;
		enum ibv_atomic_cap atomic_cap;
		uint64_t ops;
	} table[] = {
		{ 0, IBV_ATOMIC_NONE, 0 },
		{ 0, IBV_ATOMIC_HCA, 0 },
		{ flush, IBV_ATOMIC_NONE, RPMAI_QP_EX_WITH_FLUSH | usual },
		{ RPMAI_CAP_ATOMIC_WRITE, IBV_ATOMIC_NONE, RPMAI_QP_EX_WITH_ATOMIC_WRITE | usual },
		{ flush | RPMAI_CAP_ATOMIC_WRITE, IBV_ATOMIC_GLOB,
			RPMAI_QP_EX_WITH_FLUSH | RPMAI_QP_EX_WITH_ATOMIC_WRITE | usual | atomics },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mock_setup(state);
		mock.attr.device_cap_flags_ex = table[i].device;
		mock.attr.orig_attr.atomic_cap = table[i].atomic_cap;
		struct rpma_peer *peer = mock_peer();
		struct rpma_conn *conn = mock_conn(peer, NULL);
		assert_true(mock.qp_attr.send_ops_flags == table[i].ops);
		assert_int_equal((mock.qp_attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0,
			table[i].ops != 0);
		assert_int_equal(conn->qp_ex != NULL, table[i].ops != 0);
		assert_ok(rpma_conn_delete(&conn));
		rpma_peer_delete(&peer);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(arguments),
		rpma_test(the_queue_pair),
		rpma_test(a_shared_receive_queue),
		rpma_test(events),
		rpma_test(closing_is_reported_once),
		rpma_test(no_event),
		rpma_test(private_data_comes_with_the_first_acceptance),
		rpma_test(messages_without_a_receive_are_soon_repeated),
		rpma_test(waiting_on_a_shared_channel),
		rpma_test(disconnecting),
		rpma_test(deleting_goes_on_after_an_error),
		rpma_test(private_data_comes_with_a_rejection),
		rpma_test(events_in_time),
		rpma_test(waiting_on_a_shared_channel_for_a_time),
		rpma_test(extended_operations_asked_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
