/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_conn_req.c -- a connection before it is established */

#include "conn_req.h"
#include "mock.h"

static char memory[64];

/* an incoming request, as an endpoint creates it */
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
	mock.fail_call = "post_recv";
	assert_fails(RPMA_E_PROVIDER, rpma_conn_req_recv(req, mr, 0, 64, NULL));

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
			/* 7 means for ever on SoftRoCE */
			assert_int_equal(mock.param.retry_count, 6);
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
	 * Its events have moved at once. Otherwise the listening channel, which may be gone by now, would get
	 * them.
	 */
	assert_int_equal(mock_count("migrate_id"), 1);
	assert_ok(rpma_conn_req_connect(&req, NULL, &conn));
	assert_int_equal(mock_count("migrate_id"), 1);
	assert_null(mock.param.private_data);
	assert_ok(rpma_conn_get_private_data(conn, &pdata));
	assert_memory_equal(pdata.ptr, "hello", 5);
	assert_ok(rpma_conn_delete(&conn));

	/* a request that is not accepted is rejected, and its id is destroyed */
	req = passive(peer, NULL, 0);
	assert_ok(rpma_conn_req_delete(&req));
	assert_int_equal(mock_count("reject"), 1);
	assert_in_range(mock_last("reject"), 0, mock_last("destroy_id"));

	req = passive(peer, NULL, 0);
	mock.fail_call = "reject";
	assert_fails(RPMA_E_PROVIDER, rpma_conn_req_delete(&req));
	assert_null(req);

	/* a client that has given up meanwhile needs no response */
	req = passive(peer, NULL, 0);
	mock.fail_skip = 0;
	mock.fail_errno = EINVAL;
	assert_ok(rpma_conn_req_delete(&req));
	assert_null(req);
	mock.fail_call = NULL;

	req = passive(peer, NULL, 0);
	assert_fails(RPMA_E_INVAL, rpma_conn_req_connect(&req, NULL, NULL));
	assert_null(req);
	assert_int_equal(mock_count("reject"), 4);
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
	for (int i = 0; i < 7; i++) {
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
	/* the whole way to a connection with all options: the k-th call fails, until none does */
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
	static const char *const calls[] = { "create_event_channel", "migrate_id" };
	struct rpma_peer *peer = mock_peer();
	const int live = mock.live;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		mock.traced = 0;
		mock.fail_call = calls[i];
		mock.fail_skip = 0;
		passive(peer, NULL, RPMA_E_PROVIDER);
		assert_int_equal(mock_count("reject"), 1);
		assert_int_equal(mock.live, live);
	}
	for (int i = 0; i < 2; i++) {
		mock.traced = 0;
		mock.malloc_skip = i;
		passive(peer, NULL, RPMA_E_NOMEM);
		assert_int_equal(mock_count("reject"), 1);
		assert_int_equal(mock.live, live);
	}
	rpma_peer_delete(&peer);
}

static void
failures_of_an_acceptance(void **state)
{
	(void)state;
	static const struct {
		const char *call;
		int ret;
		int rejected; /* a failed acceptance cannot be followed by a rejection */
	} calls[] = {
		{ "query_port", RPMA_E_PROVIDER, 1 },
		{ "create_comp_channel", RPMA_E_PROVIDER, 1 },
		{ "create_cq", RPMA_E_PROVIDER, 1 },
		{ "req_notify_cq", RPMA_E_PROVIDER, 1 },
		{ "create_qp_ex", RPMA_E_PROVIDER, 1 },
		{ "mmap", RPMA_E_NOMEM, 1 },
		{ "reg_mr", RPMA_E_PROVIDER, 1 },
		{ "accept", RPMA_E_PROVIDER, 0 },
	};
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = NULL;
	const int live = mock.live;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct rpma_conn_req *req = passive(peer, NULL, 0);
		mock.traced = 0;
		mock.fail_call = calls[i].call;
		mock.fail_skip = 0;
		mock.fail_errno = EIO;
		assert_fails(calls[i].ret, rpma_conn_req_connect(&req, NULL, &conn));
		assert_null(req);
		assert_null(conn);
		assert_int_equal(mock_count("reject"), calls[i].rejected);
		assert_int_equal(mock.live, live);
	}
	for (int i = 0; i < 5; i++) {
		struct rpma_conn_req *req = passive(peer, NULL, 0);
		mock.traced = 0;
		mock.malloc_skip = i;
		assert_fails(RPMA_E_NOMEM, rpma_conn_req_connect(&req, NULL, &conn));
		mock.malloc_skip = -1;
		assert_int_equal(mock_count("reject"), 1);
		assert_int_equal(mock.live, live);
	}
	rpma_peer_delete(&peer);
}

static void
queues_of_an_incoming_request(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_mr_local *mr = NULL;
	struct rpma_conn *conn = NULL;
	assert_ok(rpma_mr_reg(peer, memory, sizeof(memory), RPMA_MR_USAGE_RECV, &mr));

	/*
	 * A request without receives has no queues yet. The configuration at the time of the call counts,
	 * even if it is deleted before they are made.
	 */
	struct rpma_conn_cfg *cfg = NULL;
	assert_ok(rpma_conn_cfg_new(&cfg));
	assert_ok(rpma_conn_cfg_set_sq_size(cfg, 33));
	struct rpma_conn_req *req = passive(peer, cfg, 0);
	assert_int_equal(mock_count("create_qp_ex") + mock_count("create_cq"), 0);
	assert_ok(rpma_conn_cfg_delete(&cfg));
	assert_ok(rpma_conn_req_connect(&req, NULL, &conn));
	assert_int_equal(mock_count("create_qp_ex"), 1);
	assert_int_equal(mock.qp_attr.cap.max_send_wr, 33);
	assert_ok(rpma_conn_delete(&conn));

	/* a receive needs the queues; a failure leaves the request unchanged, and they are made only once */
	req = passive(peer, NULL, 0);
	mock.traced = 0;
	mock.fail_call = "create_qp_ex";
	mock.fail_skip = 0;
	mock.fail_errno = EINVAL;
	const int live = mock.live;
	assert_fails(RPMA_E_PROVIDER, rpma_conn_req_recv(req, mr, 0, 64, NULL));
	assert_non_null(strstr(mock.last_log, "given up"));
	assert_int_equal(mock.live, live);
	mock.fail_call = NULL;
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_conn_req_recv(req, mr, 0, 64, NULL));
	mock.malloc_skip = -1;
	assert_int_equal(mock.live, live);
	assert_ok(rpma_conn_req_recv(req, mr, 0, 64, NULL));
	assert_ok(rpma_conn_req_recv(req, mr, 0, 64, NULL));
	assert_ok(rpma_conn_req_connect(&req, NULL, &conn));
	assert_int_equal(mock_count("create_qp_ex"), 2);
	assert_ok(rpma_conn_delete(&conn));

	assert_ok(rpma_mr_dereg(&mr));
	mock.events_acked = mock.events_taken;
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

/* ---- rejecting ---- */

static void
rejecting(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	uint8_t bytes[255];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i + 1);
	const struct {
		void *ptr;
		uint8_t len;
		int ret;
	} table[] = {
		{ bytes, 1, 0 },
		{ bytes, 142, 0 },
		{ bytes, 148, 0 },
		{ bytes, 149, RPMA_E_INVAL },
		{ bytes, 255, RPMA_E_INVAL },
		{ bytes, 0, RPMA_E_INVAL },
		{ NULL, 5, RPMA_E_INVAL },
		{ NULL, 0, RPMA_E_INVAL },
	};
	for (int pads = 0; pads < 2; pads++) {
		mock_rdma.pads_private_data = pads;
		for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
			const struct rpma_conn_private_data pdata = { table[i].ptr, table[i].len };
			const int live = mock.live;
			struct rpma_conn_req *req = passive(peer, NULL, 0);
			mock.traced = 0;
			memset(mock.param_data, 0, sizeof(mock.param_data));
			if (table[i].ret)
				assert_fails(table[i].ret, rpma_conn_req_reject(&req, &pdata));
			else
				assert_ok(rpma_conn_req_reject(&req, &pdata));

			/* consumed and rejected in any case, and its id is destroyed */
			assert_null(req);
			assert_int_equal(mock_count("reject"), 1);
			assert_in_range(mock_last("reject"), 0, mock_last("destroy_id"));
			assert_int_equal(mock.live, live);

			struct rpma_conn_private_data got = { NULL, 0 };
			const uint8_t len = table[i].ret ? 0 : table[i].len;
			assert_int_equal(mock.param_data_len, pads && len <= 142 ? 148 : len);
			assert_ok(rpmai_private_data_copy(mock.param_data, mock.param_data_len, &got));
			assert_int_equal(got.len, len);
			if (len)
				assert_memory_equal(got.ptr, bytes, len);
			rpmai_private_data_free(&got);
		}

		/* without private data */
		struct rpma_conn_req *req = passive(peer, NULL, 0);
		assert_ok(rpma_conn_req_reject(&req, NULL));
		assert_null(req);
		assert_int_equal(mock.param_data_len, pads ? 148 : 0);
	}
	mock.events_acked = mock.events_taken;
	rpma_peer_delete(&peer);
}

static void
what_is_not_there_to_be_rejected(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_req *req = NULL;
	struct rpma_conn_private_data pdata = { memory, 4 };
	assert_fails(RPMA_E_INVAL, rpma_conn_req_reject(NULL, &pdata));
	assert_fails(RPMA_E_INVAL, rpma_conn_req_reject(&req, &pdata));

	/* an outgoing request: it is consumed too */
	const int live = mock.live;
	assert_ok(rpma_conn_req_new(peer, "192.0.2.1", "7204", NULL, &req));
	assert_fails(RPMA_E_INVAL, rpma_conn_req_reject(&req, NULL));
	assert_null(req);
	assert_int_equal(mock_count("reject"), 0);
	assert_int_equal(mock.live, live);

	req = passive(peer, NULL, 0);
	mock.fail_call = "reject";
	assert_fails(RPMA_E_PROVIDER, rpma_conn_req_reject(&req, &pdata));
	assert_null(req);
	assert_int_equal(mock.live, live);
	mock.events_acked = mock.events_taken;
	rpma_peer_delete(&peer);
}

/* a device that always sends the longest buffer: the buffer says how much of it is meant */
static void
padded_private_data(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	mock_rdma.pads_private_data = true;
	for (int is_passive = 0; is_passive < 2; is_passive++) {
		const int max = is_passive ? 196 : 56;
		for (int len = 0; len <= max; len++) {
			uint8_t bytes[196];
			memset(bytes, len + 1, sizeof(bytes));
			struct rpma_conn_private_data pdata = { bytes, (uint8_t)len }, got = { NULL, 0 };
			struct rpma_conn_req *req = NULL;
			struct rpma_conn *conn = NULL;
			mock.traced = 0;
			if (is_passive)
				req = passive(peer, NULL, 0);
			else
				assert_ok(rpma_conn_req_new(peer, "192.0.2.1", "7204", NULL, &req));
			assert_ok(rpma_conn_req_connect(&req, len ? &pdata : NULL, &conn));
			const bool fits = len + PRIVATE_DATA_TRAILER <= max;
			assert_int_equal(mock.param.private_data_len, fits ? max : len);
			assert_memory_equal(mock.param_data, bytes, (size_t)len);
			assert_ok(
				rpmai_private_data_copy(mock.param_data, mock.param.private_data_len, &got));
			assert_int_equal(got.len, len);
			rpmai_private_data_free(&got);
			assert_ok(rpma_conn_delete(&conn));
		}
	}
	mock.events_acked = mock.events_taken;
	rpma_peer_delete(&peer);
}

/* ---- limits of the device ---- */

static void
more_than_the_device_can_do(void **state)
{
	(void)state;
	static const struct {
		int device;
		uint32_t asked;
		int ret;
	} table[] = {
		{ 0, 1, 0 }, /* a device that does not report it */
		{ 0, 2, RPMA_E_NOSUPP },
		{ 1, 1, 0 },
		{ 4, 4, 0 },
		{ 4, 5, RPMA_E_NOSUPP },
		{ 4, UINT32_MAX, RPMA_E_NOSUPP },
		{ 1000, 64, 0 },
		{ 1000, 65, RPMA_E_NOSUPP },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mock.attr.orig_attr.max_sge = table[i].device;
		struct rpma_peer *peer = mock_peer();
		struct rpma_conn_cfg *cfg = NULL;
		struct rpma_conn_req *req = NULL;
		assert_ok(rpma_conn_cfg_new(&cfg));
		assert_ok(rpma_conn_cfg_set_max_sge(cfg, table[i].asked));
		const int live = mock.live;
		mock.traced = 0;
		if (table[i].ret) {
			assert_fails(RPMA_E_NOSUPP, rpma_conn_req_new(peer, "192.0.2.1", "7204", cfg, &req));
			assert_non_null(strstr(rpma_errormsg(), "rpma_conn_cfg_set_max_sge"));
			assert_int_equal(mock_count("create_qp_ex") + mock_count("create_cq"), 0);
			assert_int_equal(mock.live, live);
			/* an incoming request is rejected */
			passive(peer, cfg, RPMA_E_NOSUPP);
			assert_int_equal(mock_count("reject"), 1);
			assert_int_equal(mock.live, live);
		} else {
			assert_ok(rpma_conn_req_new(peer, "192.0.2.1", "7204", cfg, &req));
			assert_int_equal(mock.qp_attr.cap.max_send_sge, table[i].asked);
			assert_ok(rpma_conn_req_delete(&req));
		}
		assert_ok(rpma_conn_cfg_delete(&cfg));
		mock.events_acked = mock.events_taken;
		rpma_peer_delete(&peer);
	}
}

/* devices do not report their limit for inline data: they refuse the queue pair */
static void
more_inline_than_the_device_takes(void **state)
{
	(void)state;
	static const struct {
		uint32_t inline_size;
		int errnum, ret;
		int again; /* it is refused with less inline data as well */
		int tries;
	} table[] = {
		{ 9, EINVAL, RPMA_E_NOSUPP, 0, 2 },
		{ 4096, ENOMEM, RPMA_E_NOSUPP, 0, 2 },
		{ 4096, EINVAL, RPMA_E_PROVIDER, 1, 2 },
		{ 4096, ENOMEM, RPMA_E_PROVIDER, 1, 2 },
		{ 4096, EIO, RPMA_E_PROVIDER, 0, 1 },
		{ 8, EINVAL, RPMA_E_PROVIDER, 0, 1 },
		{ 0, ENOMEM, RPMA_E_PROVIDER, 0, 1 },
	};
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_conn_req *req = NULL;
	assert_ok(rpma_conn_cfg_new(&cfg));
	const int live = mock.live;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		assert_ok(rpma_conn_cfg_set_inline_size(cfg, table[i].inline_size));
		mock.fail_call = "create_qp_ex";
		mock.fail_skip = 0;
		mock.fail_again = table[i].again;
		mock.fail_errno = table[i].errnum;
		mock.traced = 0;
		assert_fails(table[i].ret, rpma_conn_req_new(peer, "192.0.2.1", "7204", cfg, &req));
		assert_int_equal(mock_count("create_qp_ex"), table[i].tries);
		assert_int_equal(strstr(rpma_errormsg(), "rpma_conn_cfg_set_inline_size") != NULL,
			table[i].ret == RPMA_E_NOSUPP);
		assert_null(req);
		assert_int_equal(mock.live, live);
	}
	assert_ok(rpma_conn_cfg_delete(&cfg));
	rpma_peer_delete(&peer);
}

/* a connection that does not fit into the table of connections is not established */
static void
no_memory_to_be_found(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;
	const int live = mock.live;
	assert_ok(rpma_conn_req_new(peer, "192.0.2.1", "7204", NULL, &req));
	mock.fail_call = "tsearch";
	mock.fail_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_conn_req_connect(&req, NULL, &conn));
	assert_null(req);
	assert_null(conn);
	assert_int_equal(mock_count("connect"), 0);
	assert_int_equal(mock.live, live);
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
		rpma_test(failures_of_an_acceptance),
		rpma_test(queues_of_an_incoming_request),
		rpma_test(an_address_of_another_device),
		rpma_test(rejecting),
		rpma_test(what_is_not_there_to_be_rejected),
		rpma_test(padded_private_data),
		rpma_test(more_than_the_device_can_do),
		rpma_test(more_inline_than_the_device_takes),
		rpma_test(no_memory_to_be_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
