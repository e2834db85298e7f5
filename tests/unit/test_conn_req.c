/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_conn_req.c -- a connection before it is made */

#include "conn_req.h"
#include "mock.h"

static char memory[64];

/* an incoming request, as an endpoint makes it */
static struct rpma_conn_req *
passive(struct rpma_peer *peer, const struct rpma_conn_cfg *cfg, int expected)
{
	struct rpma_conn_req *req = NULL;
	struct rpma_conn_private_data pdata = { NULL, 0 };
	struct rdma_cm_id *id = NULL;
	const int skip = mock.malloc_skip;
	mock.malloc_skip = -1;
	assert_ok(rpmai_private_data_copy("hello", 5, &pdata));
	mock.malloc_skip = skip;
	mock.events_queued = mock.events_taken = mock.events_acked = 0;
	mock_queue_event(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, NULL, 0);
	id = mock.events[0].id;
	assert_int_equal(rpmai_conn_req_new_passive(peer, id, &pdata, cfg, &req), expected);
	assert_int_equal(req == NULL, expected != 0);
	mock.malloc_skip = -1;
	return req;
}

static void
arguments(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_req *req = NULL, *none = NULL;
	struct rpma_conn_private_data pdata;
	struct rpma_mr_local *mr = NULL;
	struct rpma_conn *conn = NULL;
	assert_ok(rpma_mr_reg(peer, memory, sizeof(memory), RPMA_MR_USAGE_RECV, &mr));
	assert_ok(rpma_conn_req_new(peer, "192.0.2.1", "7204", NULL, &req));

	assert_fails(RPMA_E_INVAL, rpma_conn_req_new(NULL, "192.0.2.1", "7204", NULL, &none));
	assert_fails(RPMA_E_INVAL, rpma_conn_req_new(peer, NULL, "7204", NULL, &none));
	assert_fails(RPMA_E_INVAL, rpma_conn_req_new(peer, "192.0.2.1", NULL, NULL, &none));
	assert_fails(RPMA_E_INVAL, rpma_conn_req_new(peer, "192.0.2.1", "7204", NULL, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_req_connect(NULL, NULL, &conn));
	assert_fails(RPMA_E_INVAL, rpma_conn_req_connect(&none, NULL, &conn));
	assert_fails(RPMA_E_INVAL, rpma_conn_req_get_private_data(NULL, &pdata));
	assert_fails(RPMA_E_INVAL, rpma_conn_req_get_private_data(req, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_req_delete(NULL));
	assert_ok(rpma_conn_req_delete(&none));

	assert_fails(RPMA_E_INVAL, rpma_conn_req_recv(NULL, mr, 0, 1, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_req_recv(req, NULL, 0, 0, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_req_recv(req, mr, 0, 65, NULL));
	assert_fails(RPMA_E_INVAL, rpma_conn_req_recv(req, mr, SIZE_MAX, 2, NULL));
	assert_int_equal(mock.recvs, 0);
	assert_ok(rpma_conn_req_recv(req, mr, 1, 63, &mr));
	assert_int_equal(mock.recvs, 1);
	assert_true(mock.recv_wr.wr_id == (uintptr_t)&mr && mock.recv_sge.length == 63);

	assert_ok(rpma_conn_req_get_private_data(req, &pdata));
	assert_null(pdata.ptr);
	assert_ok(rpma_conn_req_delete(&req));
	assert_null(req);
	assert_int_equal(mock_count("reject"), 0);
	rpma_mr_dereg(&mr);
	rpma_peer_delete(&peer);
}

static void
private_data_to_send(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	uint8_t bytes[255];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	const struct {
		bool is_passive;
		void *ptr;
		uint8_t len;
		int ret;
	} table[] = {
		{ false, bytes, 1, 0 },
		{ false, bytes, 56, 0 },
		{ false, bytes, 57, RPMA_E_INVAL },
		{ false, bytes, 255, RPMA_E_INVAL },
		{ false, bytes, 0, RPMA_E_INVAL },
		{ false, NULL, 5, RPMA_E_INVAL },
		{ true, bytes, 196, 0 },
		{ true, bytes, 197, RPMA_E_INVAL },
		{ true, NULL, 0, RPMA_E_INVAL },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct rpma_conn_private_data pdata = { table[i].ptr, table[i].len };
		struct rpma_conn_req *req = NULL;
		struct rpma_conn *conn = NULL;
		if (table[i].is_passive)
			req = passive(peer, NULL, 0);
		else
			assert_ok(rpma_conn_req_new(peer, "192.0.2.1", "7204", NULL, &req));
		mock.events_queued = mock.events_taken = 0;
		mock.traced = 0;
		assert_int_equal(rpma_conn_req_connect(&req, &pdata, &conn), table[i].ret);
		assert_null(req);
		assert_int_equal(conn == NULL, table[i].ret != 0);
		if (table[i].ret == 0) {
			assert_int_equal(mock.param.private_data_len, table[i].len);
			assert_memory_equal(mock.param_data, bytes, table[i].len);
			assert_int_equal(mock.param.responder_resources, RDMA_MAX_RESP_RES);
			assert_int_equal(mock.param.initiator_depth, RDMA_MAX_INIT_DEPTH);
			assert_int_equal(mock.param.retry_count, 7);
			assert_int_equal(mock.param.rnr_retry_count, 7);
			assert_int_equal(mock.param.flow_control, 1);
			assert_int_equal(mock_count("connect"), !table[i].is_passive);
			assert_int_equal(mock_count("accept"), table[i].is_passive);
		} else {
			assert_int_equal(mock_count("reject"), table[i].is_passive);
		}
		rpma_conn_delete(&conn);
	}
	mock.events_acked = 0;
	rpma_peer_delete(&peer);
}

static void
an_incoming_request(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_private_data pdata = { NULL, 0 };
	struct rpma_conn *conn = NULL;
	struct rpma_conn_req *req = passive(peer, NULL, 0);
	assert_ok(rpma_conn_req_get_private_data(req, &pdata));
	assert_int_equal(pdata.len, 5);
	assert_memory_equal(pdata.ptr, "hello", 5);

	/*
	 * Its events have moved at once: else the listening channel, which may be gone by now, would get them
	 */
	assert_int_equal(mock_count("migrate_id"), 1);
	assert_ok(rpma_conn_req_connect(&req, NULL, &conn));
	assert_int_equal(mock_count("migrate_id"), 1);
	assert_null(mock.param.private_data);
	assert_ok(rpma_conn_get_private_data(conn, &pdata));
	assert_memory_equal(pdata.ptr, "hello", 5);
	assert_ok(rpma_conn_delete(&conn));

	/* what is not accepted is rejected, and its id is not left behind */
	req = passive(peer, NULL, 0);
	assert_ok(rpma_conn_req_delete(&req));
	assert_int_equal(mock_count("reject"), 1);
	assert_in_range(mock_last("reject"), 0, mock_last("destroy_id"));

	req = passive(peer, NULL, 0);
	mock.fail_call = "reject";
	assert_fails(RPMA_E_PROVIDER, rpma_conn_req_delete(&req));
	assert_null(req);
	mock.fail_call = NULL;

	req = passive(peer, NULL, 0);
	assert_fails(RPMA_E_INVAL, rpma_conn_req_connect(&req, NULL, NULL));
	assert_null(req);
	assert_int_equal(mock_count("reject"), 3);
	mock.events_acked = mock.events_taken;
	rpma_peer_delete(&peer);
}

static void
failures_of_an_outgoing_request(void **state)
{
	(void)state;
	static const char *const calls[] = { "getaddrinfo", "create_id", "resolve_addr", "resolve_route",
		"query_port", "create_comp_channel", "create_cq", "req_notify_cq", "create_qp_ex", "reg_mr" };
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_req *req = NULL;
	const int live = mock.live;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		mock.fail_call = calls[i];
		mock.fail_skip = 0;
		mock.fail_errno = EINVAL;
		assert_fails(RPMA_E_PROVIDER, rpma_conn_req_new(peer, "192.0.2.1", "7204", NULL, &req));
		assert_int_equal(mock.live, live);
	}
	for (int i = 0; i < 5; i++) {
		mock.malloc_skip = i;
		assert_fails(RPMA_E_NOMEM, rpma_conn_req_new(peer, "192.0.2.1", "7204", NULL, &req));
		assert_int_equal(mock.live, live);
	}
	assert_null(req);
	rpma_peer_delete(&peer);
}

static void
each_call_fails_once(void **state)
{
	(void)state;
	/* the whole way to a connection with everything: the k-th call fails, until none does */
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_cfg *cfg = NULL;
	assert_ok(rpma_conn_cfg_new(&cfg));
	rpma_conn_cfg_set_rcq_size(cfg, 3);
	rpma_conn_cfg_set_compl_channel(cfg, true);
	const int live = mock.live;
	struct rpma_conn *conn = NULL;
	int k;
	for (k = 1; conn == NULL; k++) {
		assert_in_range(k, 1, 50);
		struct rpma_conn_req *req = NULL;
		mock.fallible = 0;
		mock.fail_kth = k;
		int ret = rpma_conn_req_new(peer, "192.0.2.1", "7204", cfg, &req);
		if (ret == 0)
			ret = rpma_conn_req_connect(&req, NULL, &conn);
		assert_null(req);
		assert_true(ret == 0 || ret == RPMA_E_PROVIDER || ret == RPMA_E_NOMEM);
		assert_int_equal(conn == NULL, ret != 0);
		if (ret)
			assert_int_equal(mock.live, live);
	}
	assert_in_range(k, 12, 50);
	mock.fail_kth = 0;
	assert_ok(rpma_conn_delete(&conn));
	rpma_conn_cfg_delete(&cfg);
	rpma_peer_delete(&peer);
}

static void
failures_of_an_incoming_request(void **state)
{
	(void)state;
	static const struct {
		const char *call;
		int ret;
	} calls[] = {
		{ "query_port", RPMA_E_PROVIDER },
		{ "create_comp_channel", RPMA_E_PROVIDER },
		{ "create_cq", RPMA_E_PROVIDER },
		{ "create_qp_ex", RPMA_E_PROVIDER },
		{ "mmap", RPMA_E_NOMEM },
		{ "reg_mr", RPMA_E_PROVIDER },
		{ "create_event_channel", RPMA_E_PROVIDER },
		{ "migrate_id", RPMA_E_PROVIDER },
	};
	const int n = sizeof(calls) / sizeof(calls[0]);
	struct rpma_peer *peer = mock_peer();
	const int live = mock.live;
	for (int i = 0; i < n; i++) {
		mock.traced = 0;
		mock.fail_call = calls[i].call;
		mock.fail_skip = 0;
		passive(peer, NULL, calls[i].ret);
		assert_int_equal(mock_count("reject"), 1);
		assert_int_equal(mock.live, live);
	}
	for (int i = 0; i < 5; i++) {
		mock.traced = 0;
		mock.malloc_skip = i;
		passive(peer, NULL, RPMA_E_NOMEM);
		assert_int_equal(mock_count("reject"), 1);
		assert_int_equal(mock.live, live);
	}

	struct rpma_conn_req *req = passive(peer, NULL, 0);
	struct rpma_conn *conn = NULL;
	mock.fail_call = "accept";
	mock.fail_skip = 0;
	assert_fails(RPMA_E_PROVIDER, rpma_conn_req_connect(&req, NULL, &conn));
	assert_null(req);
	assert_null(conn);
	assert_int_equal(mock.live, live);
	rpma_peer_delete(&peer);
}

static void
an_address_of_another_device(void **state)
{
	(void)state;
	struct rpma_peer *peer = NULL;
	struct rpma_conn_req *req = NULL;
	assert_ok(rpmai_peer_new(&mock_rdma, &mock.other_ctx, &peer));
	mock.fail_call = "create_qp_ex";
	mock.fail_errno = EINVAL;
	assert_fails(RPMA_E_PROVIDER, rpma_conn_req_new(peer, "192.0.2.1", "7204", NULL, &req));
	assert_non_null(strstr(mock.last_log, "another device"));
	rpma_peer_delete(&peer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(arguments),
		rpma_test(private_data_to_send),
		rpma_test(an_incoming_request),
		rpma_test(failures_of_an_outgoing_request),
		rpma_test(each_call_fails_once),
		rpma_test(failures_of_an_incoming_request),
		rpma_test(an_address_of_another_device),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
