/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_srq.c -- shared receive queues */

#include "mock.h"

static char memory[64];

static void
arguments(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_srq *srq = NULL, *none = NULL;
	struct rpma_cq *rcq = NULL;
	assert_ok(rpma_srq_new(peer, NULL, &srq));
	assert_int_equal(mock.srq_attr.attr.max_wr, 20);
	assert_int_equal(mock.srq_attr.attr.max_sge, 1);
	assert_int_equal(mock.cqe[0], 20);

	assert_fails(RPMA_E_INVAL, rpma_srq_new(NULL, NULL, &none));
	assert_fails(RPMA_E_INVAL, rpma_srq_new(peer, NULL, NULL));
	assert_fails(RPMA_E_INVAL, rpma_srq_get_rcq(NULL, &rcq));
	assert_fails(RPMA_E_INVAL, rpma_srq_get_rcq(srq, NULL));
	assert_fails(RPMA_E_INVAL, rpma_srq_recv(NULL, NULL, 0, 0, NULL));
	assert_fails(RPMA_E_INVAL, rpma_srq_delete(NULL));
	assert_ok(rpma_srq_delete(&none));
	assert_ok(rpma_srq_get_rcq(srq, &rcq));
	assert_non_null(rcq);
	assert_ok(rpma_srq_delete(&srq));
	assert_null(srq);
	rpma_peer_delete(&peer);
}

static void
without_a_completion_queue(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_srq_cfg *cfg = NULL;
	struct rpma_srq *srq = NULL;
	struct rpma_cq *rcq = (struct rpma_cq *)memory;
	assert_ok(rpma_srq_cfg_new(&cfg));
	assert_ok(rpma_srq_cfg_set_rcq_size(cfg, 0));
	assert_ok(rpma_srq_cfg_set_rq_size(cfg, 3));
	assert_ok(rpma_srq_new(peer, cfg, &srq));
	assert_int_equal(mock.srq_attr.attr.max_wr, 3);
	assert_int_equal(mock.cqs, 0);
	assert_ok(rpma_srq_get_rcq(srq, &rcq));
	assert_null(rcq);
	assert_ok(rpma_srq_delete(&srq));
	rpma_srq_cfg_delete(&cfg);
	rpma_peer_delete(&peer);
}

static void
receives(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_srq *srq = NULL;
	struct rpma_mr_local *mr = NULL;
	assert_ok(rpma_srq_new(peer, NULL, &srq));
	assert_ok(rpma_mr_reg(peer, memory, sizeof(memory), RPMA_MR_USAGE_RECV, &mr));

	static const struct {
		bool has_mr;
		size_t offset, len;
		int ret;
	} table[] = {
		{ true, 0, 64, 0 },
		{ true, 63, 1, 0 },
		{ true, 64, 0, 0 },
		{ true, 0, 65, RPMA_E_INVAL },
		{ true, 65, 0, RPMA_E_INVAL },
		{ true, SIZE_MAX, 1, RPMA_E_INVAL },
		{ false, 0, 0, 0 },
		{ false, 1, 0, RPMA_E_INVAL },
		{ false, 0, 1, RPMA_E_INVAL },
	};
	int posted = 0;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int ret = rpma_srq_recv(srq, table[i].has_mr ? mr : NULL, table[i].offset, table[i].len,
			&table[i]);
		assert_int_equal(ret, table[i].ret);
		posted += ret == 0;
		assert_int_equal(mock.srq_recvs, posted);
		if (ret == 0) {
			assert_true(mock.recv_wr.wr_id == (uintptr_t)&table[i]);
			assert_int_equal(mock.recv_wr.num_sge, table[i].len > 0);
		}
	}
	mock.fail_call = "post_srq_recv";
	mock.fail_errno = ENOMEM;
	assert_fails(RPMA_E_PROVIDER, rpma_srq_recv(srq, mr, 0, 1, NULL));
	rpma_mr_dereg(&mr);
	rpma_srq_delete(&srq);
	rpma_peer_delete(&peer);
}

static void
failures(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_srq *srq = NULL;
	const int live = mock.live;
	static const char *const calls[] = { "create_srq", "create_comp_channel", "create_cq",
		"req_notify_cq" };
	for (size_t i = 0; i < 4; i++) {
		mock.fail_call = calls[i];
		mock.fail_skip = 0;
		assert_fails(RPMA_E_PROVIDER, rpma_srq_new(peer, NULL, &srq));
		assert_int_equal(mock.live, live);
	}
	for (int i = 0; i < 2; i++) {
		mock.malloc_skip = i;
		assert_fails(RPMA_E_NOMEM, rpma_srq_new(peer, NULL, &srq));
		assert_int_equal(mock.live, live);
	}
	assert_null(srq);

	static const char *const destroy[] = { "destroy_cq", "destroy_srq" };
	for (size_t i = 0; i < 2; i++) {
		assert_ok(rpma_srq_new(peer, NULL, &srq));
		mock.fail_call = destroy[i];
		mock.fail_skip = 0;
		mock.fail_errno = EBUSY;
		assert_fails(RPMA_E_PROVIDER, rpma_srq_delete(&srq));
		assert_null(srq);
		assert_int_equal(mock.live, live);
	}
	rpma_peer_delete(&peer);
}

/* on acceptance an incoming request uses its completion queue, and a connection posts to it */
static void
deleted_before_what_uses_it(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL, *other;
	struct rpma_srq *srq = NULL;
	struct rpma_ep *ep = NULL;
	struct rpma_cq *rcq = NULL, *of_conn = NULL;
	assert_ok(rpma_srq_new(peer, NULL, &srq));
	assert_ok(rpma_srq_get_rcq(srq, &rcq));
	assert_ok(rpma_conn_cfg_new(&cfg));
	assert_ok(rpma_conn_cfg_set_srq(cfg, srq));
	other = mock_conn(peer, cfg);
	assert_ok(rpma_ep_listen(peer, "0.0.0.0", "7204", &ep));
	mock_queue_event(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, NULL, 0);
	assert_ok(rpma_ep_next_conn_req(ep, cfg, &req));
	rpma_conn_cfg_delete(&cfg);

	assert_fails(RPMA_E_PROVIDER, rpma_srq_delete(&srq));
	assert_null(srq);
	assert_non_null(strstr(rpma_errormsg(), "delete them before it"));
	assert_ok(rpma_conn_delete(&other));
	assert_ok(rpma_conn_req_connect(&req, NULL, &conn));
	assert_ok(rpma_conn_get_rcq(conn, &of_conn));
	assert_ptr_equal(of_conn, rcq);
	assert_int_equal(mock_count("destroy_srq"), 0);
	assert_ok(rpma_conn_delete(&conn));
	assert_int_equal(mock_count("destroy_srq"), 1);
	assert_true(mock_last("destroy_qp") < mock_last("destroy_srq"));
	assert_ok(rpma_ep_shutdown(&ep));
	assert_ok(rpma_peer_delete(&peer));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(arguments),
		rpma_test(without_a_completion_queue),
		rpma_test(receives),
		rpma_test(failures),
		rpma_test(deleted_before_what_uses_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
