/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_refusals.c -- calls that share their code fail in the same way, each under its own name
 *
 * The device can refuse the posting calls, memory for a batch can be missing, and a batch can be full. Waits
 * with a timeout fail like those without.
 */

#include <sys/eventfd.h>
#include <unistd.h>

#include "posting.h"

/* ---- posting ---- */

typedef int post(int flags);

static const char eight[8] = { 1 };

static int
p_read(int flags)
{
	return rpma_read(f.conn, f.mr, 0, f.remote, 0, 8, flags, ctx(1));
}

static int
p_write(int flags)
{
	return rpma_write(f.conn, f.remote, 0, f.mr, 0, 8, flags, ctx(1));
}

static int
p_write_with_imm(int flags)
{
	return rpma_write_with_imm(f.conn, f.remote, 0, f.mr, 0, 8, flags, IMM, ctx(1));
}

static int
p_readv(int flags)
{
	return rpma_readv(f.conn, &(struct rpma_sge){ f.mr, 0, 8 }, 1, f.remote, 0, flags, ctx(1));
}

static int
p_writev(int flags)
{
	return rpma_writev(f.conn, f.remote, 0, &(struct rpma_sge){ f.mr, 0, 8 }, 1, flags, ctx(1));
}

static int
p_write_inline(int flags)
{
	return rpma_write_inline(f.conn, f.remote, 0, eight, 8, flags, ctx(1));
}

static int
p_write_inline_with_imm(int flags)
{
	return rpma_write_inline_with_imm(f.conn, f.remote, 0, eight, 8, flags, IMM, ctx(1));
}

static int
p_atomic_write(int flags)
{
	return rpma_atomic_write(f.conn, f.remote, 0, eight, flags, ctx(1));
}

static int
p_write_atomic(int flags)
{
	return rpma_write_atomic(f.conn, f.remote, 0, f.mr, 0, flags, ctx(1));
}

static int
p_compare_and_swap(int flags)
{
	return rpma_compare_and_swap(f.conn, f.mr, 0, f.remote, 0, 1, 2, flags, ctx(1));
}

static int
p_fetch_and_add(int flags)
{
	return rpma_fetch_and_add(f.conn, f.mr, 0, f.remote, 0, 1, flags, ctx(1));
}

static int
p_flush(int flags)
{
	return rpma_flush(f.conn, f.remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, flags, ctx(1));
}

static int
p_write_flush(int flags)
{
	return rpma_write_flush(f.conn, f.remote, 0, f.mr, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, flags, ctx(1));
}

static int
p_send(int flags)
{
	return rpma_send(f.conn, f.mr, 0, 8, flags, ctx(1));
}

static int
p_send_with_imm(int flags)
{
	return rpma_send_with_imm(f.conn, f.mr, 0, 8, flags, IMM, ctx(1));
}

static int
p_send_inline(int flags)
{
	return rpma_send_inline(f.conn, eight, 8, flags, ctx(1));
}

static post *const posts[] = { p_read, p_write, p_write_with_imm, p_readv, p_writev, p_write_inline,
	p_write_inline_with_imm, p_atomic_write, p_write_atomic, p_compare_and_swap, p_fetch_and_add, p_flush,
	p_write_flush, p_send, p_send_with_imm, p_send_inline };

static void
the_device_refuses(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(posts); i++) {
		static const char *const calls[] = { "post_send", "wr_complete" };
		int failed = 0;
		for (int c = 0; c < 2; c++) {
			forget_posts();
			fail_next(calls[c], ENOMEM);
			int ret = posts[i](ALWAYS);
			assert_true(ret == 0 || ret == RPMA_E_PROVIDER);
			assert_int_equal(mock.chained > 0, ret == 0);
			failed += ret == RPMA_E_PROVIDER;
		}
		assert_int_equal(failed, 1); /* it is posted in one of the two ways */
	}
}

static void
no_memory_to_hold_back(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(posts); i++) {
		rpma_conn_delete(&f.conn);
		f.conn = conn_of_sq_size(SQ_SIZE);
		forget_posts();
		mock.malloc_skip = 0;
		assert_fails(RPMA_E_NOMEM, posts[i](ALWAYS | MORE));
		mock.malloc_skip = -1;
		assert_ok(rpma_conn_submit(f.conn));
		assert_int_equal(mock.chained, 0);
	}
}

static void
no_room_to_hold_back(void **state)
{
	(void)state;
	for (int i = 0; i < SQ_SIZE; i++)
		assert_ok(p_send(ALWAYS | MORE));
	for (size_t i = 0; i < ROWS(posts); i++) {
		const int errors = mock.logged[RPMA_LOG_LEVEL_ERROR];
		fail_next("post_send", ENOMEM);
		assert_int_equal(posts[i](ALWAYS | MORE), RPMA_E_AGAIN);
		assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], errors);
	}
	mock.fail_call = NULL;
	assert_ok(rpma_conn_submit(f.conn));
	assert_int_equal(mock.chained, SQ_SIZE);
}

/* ---- waits with a timeout ---- */

static void
events_in_time_that_fail(void **state)
{
	(void)state;
	int channel = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	mock.channel_fd = channel;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = mock_conn(peer, NULL);
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	mock.events_queued = mock.events_taken = mock.events_acked = 0;
	fail_next("get_cm_event", EBADF);
	assert_fails(RPMA_E_PROVIDER, rpma_conn_next_event_timed(conn, 0, &event));
	mock_queue_event(RDMA_CM_EVENT_ESTABLISHED, conn->id, "abc", 3);
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_conn_next_event_timed(conn, 0, &event));
	assert_int_equal(event, RPMA_CONN_UNDEFINED);
	assert_ok(rpma_conn_delete(&conn));

	struct rpma_ep *ep = NULL;
	struct rpma_conn_req *req = NULL;
	struct rpma_conn_cfg *cfg = NULL;
	assert_ok(rpma_conn_cfg_new(&cfg));
	assert_ok(rpma_conn_cfg_set_max_sge(cfg, 64));
	assert_ok(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep));
	fail_next("get_cm_event", EBADF);
	assert_fails(RPMA_E_PROVIDER, rpma_ep_next_conn_req_timed(ep, NULL, 0, &req));
	mock.events_queued = mock.events_taken = mock.events_acked = 0;
	mock_queue_event(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, "abc", 3);
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_ep_next_conn_req_timed(ep, NULL, 0, &req));
	mock.malloc_skip = -1;
	mock_queue_event(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, NULL, 0);
	assert_fails(RPMA_E_NOSUPP, rpma_ep_next_conn_req_timed(ep, cfg, 0, &req));
	mock_queue_event(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, NULL, 0);
	assert_fails(RPMA_E_NOSUPP, rpma_ep_next_conn_req(ep, cfg, &req));
	assert_null(req);
	assert_int_equal(mock_count("reject"), 3);
	assert_ok(rpma_ep_shutdown(&ep));
	assert_ok(rpma_conn_cfg_delete(&cfg));
	rpma_peer_delete(&peer);
	close(channel);
}

static void
completions_in_time_that_fail(void **state)
{
	(void)state;
	int channel = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	mock.channel_fd = channel;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_cq *cq = NULL;
	struct ibv_cq stranger = { .context = &mock.ctx };
	assert_ok(rpma_conn_cfg_new(&cfg));
	assert_ok(rpma_conn_cfg_set_compl_channel(cfg, true));
	struct rpma_conn *conn = mock_conn(peer, cfg);
	fail_next("get_cq_event", EBADF);
	assert_fails(RPMA_E_PROVIDER, rpma_conn_wait_timed(conn, 0, 0, &cq, NULL));
	mock.cq_event = &stranger;
	assert_fails(RPMA_E_UNKNOWN, rpma_conn_wait_timed(conn, 0, 0, &cq, NULL));
	assert_null(cq);
	assert_ok(rpma_conn_delete(&conn));
	assert_ok(rpma_conn_cfg_delete(&cfg));
	rpma_peer_delete(&peer);
	close(channel);
}

/* An error is not a timeout: a caller that waits again would do so for ever. */
static void
nothing_is_found_out(void **state)
{
	(void)state;
	int channel = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	mock.channel_fd = channel;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_ep *ep = NULL;
	struct rpma_conn_req *req = NULL;
	struct rpma_cq *cq = NULL;
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	assert_ok(rpma_conn_cfg_new(&cfg));
	assert_ok(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep));
	fail_next("poll", ENOMEM);
	assert_fails(RPMA_E_PROVIDER, rpma_ep_next_conn_req_timed(ep, NULL, 0, &req));
	for (int bounded = 0; bounded < 2; bounded++) {
		assert_ok(rpma_conn_cfg_set_connect_timeout(cfg, bounded ? 60000 : -1));
		for (int shared = 0; shared < 2; shared++) {
			assert_ok(rpma_conn_cfg_set_compl_channel(cfg, shared));
			struct rpma_conn *conn = mock_conn(peer, cfg);
			assert_ok(rpma_conn_get_cq(conn, &cq));
			fail_next("poll", ENOMEM);
			assert_fails(RPMA_E_PROVIDER, rpma_conn_next_event_timed(conn, 0, &event));
			mock.fail_skip = 1; /* the channel, after the timer */
			assert_int_equal(rpma_conn_next_event_timed(conn, 0, &event),
				bounded ? RPMA_E_PROVIDER : RPMA_E_NO_EVENT);
			fail_next("poll", ENOMEM);
			if (shared)
				assert_fails(RPMA_E_PROVIDER, rpma_conn_wait_timed(conn, 0, 0, &cq, NULL));
			else
				assert_fails(RPMA_E_PROVIDER, rpma_cq_wait_timed(cq, 0));
			fail_next("poll", EINTR);
			assert_int_equal(rpma_conn_next_event_timed(conn, 0, &event), RPMA_E_NO_EVENT);
			mock.fail_call = NULL;
			assert_ok(rpma_conn_delete(&conn));
		}
	}
	assert_int_equal(event, RPMA_CONN_UNDEFINED);
	assert_ok(rpma_ep_shutdown(&ep));
	assert_ok(rpma_conn_cfg_delete(&cfg));
	rpma_peer_delete(&peer);
	close(channel);
}

/* ---- an incoming request whose queues the device cannot create ---- */

static void
too_much_inline_for_an_incoming_request(void **state)
{
	(void)state;
	int channel = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	mock.channel_fd = channel;
	struct rpma_peer *peer = mock_peer();
	struct rpma_ep *ep = NULL;
	struct rpma_mr_local *mr = NULL;
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;
	assert_ok(rpma_mr_reg(peer, memory, sizeof(memory), RPMA_MR_USAGE_RECV, &mr));
	assert_ok(rpma_conn_cfg_new(&cfg));
	assert_ok(rpma_conn_cfg_set_inline_size(cfg, 1 << 20));
	assert_ok(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep));
	mock_queue_event(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, NULL, 0);
	assert_ok(rpma_ep_next_conn_req(ep, cfg, &req));
	fail_next("create_qp_ex", EINVAL);
	assert_fails(RPMA_E_NOSUPP, rpma_conn_req_recv(req, mr, 0, 8, NULL));
	fail_next("create_qp_ex", EINVAL);
	assert_fails(RPMA_E_NOSUPP, rpma_conn_req_connect(&req, NULL, &conn));
	assert_null(req);
	assert_null(conn);
	assert_int_equal(mock_count("reject"), 1);
	assert_ok(rpma_ep_shutdown(&ep));
	assert_ok(rpma_conn_cfg_delete(&cfg));
	assert_ok(rpma_mr_dereg(&mr));
	rpma_peer_delete(&peer);
	close(channel);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		native_test(the_device_refuses),
		native_test(no_memory_to_hold_back),
		native_test(no_room_to_hold_back),
		rpma_test(events_in_time_that_fail),
		rpma_test(completions_in_time_that_fail),
		rpma_test(nothing_is_found_out),
		rpma_test(too_much_inline_for_an_incoming_request),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
