/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_ep.c -- endpoints */

#include <limits.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "conn_req.h"
#include "mock.h"

struct rpma_ep_view { /* its members, for the id of the events */
	const struct rpma_peer *peer;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
};

static struct rdma_cm_id *
id_of(struct rpma_ep *ep)
{
	return ((struct rpma_ep_view *)(void *)ep)->id;
}

static void
arguments(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_ep *ep = NULL, *none = NULL;
	struct rpma_conn_req *req = NULL;
	int fd = 0;
	assert_ok(rpma_ep_listen(peer, "0.0.0.0", "7204", &ep));
	assert_fails(RPMA_E_INVAL, rpma_ep_listen(NULL, "0.0.0.0", "7204", &none));
	assert_fails(RPMA_E_INVAL, rpma_ep_listen(peer, NULL, "7204", &none));
	assert_fails(RPMA_E_INVAL, rpma_ep_listen(peer, "0.0.0.0", NULL, &none));
	assert_fails(RPMA_E_INVAL, rpma_ep_listen(peer, "0.0.0.0", "7204", NULL));
	assert_fails(RPMA_E_INVAL, rpma_ep_get_fd(NULL, &fd));
	assert_fails(RPMA_E_INVAL, rpma_ep_get_fd(ep, NULL));
	assert_fails(RPMA_E_INVAL, rpma_ep_next_conn_req(NULL, NULL, &req));
	assert_fails(RPMA_E_INVAL, rpma_ep_next_conn_req(ep, NULL, NULL));
	assert_fails(RPMA_E_INVAL, rpma_ep_shutdown(NULL));
	assert_ok(rpma_ep_shutdown(&none));
	assert_ok(rpma_ep_get_fd(ep, &fd));
	assert_int_equal(fd, 1000);
	assert_ok(rpma_ep_shutdown(&ep));
	assert_null(ep);
	rpma_peer_delete(&peer);
}

static void
failures_of_listening(void **state)
{
	(void)state;
	static const char *const calls[] = { "create_event_channel", "create_id", "getaddrinfo", "bind_addr",
		"listen" };
	struct rpma_peer *peer = mock_peer();
	struct rpma_ep *ep = NULL;
	const int live = mock.live;
	for (size_t i = 0; i < 5; i++) {
		mock.fail_call = calls[i];
		mock.fail_skip = 0;
		assert_fails(RPMA_E_PROVIDER, rpma_ep_listen(peer, "192.0.2.1", "7204", &ep));
		assert_int_equal(mock.live, live);
	}
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_ep_listen(peer, "192.0.2.1", "7204", &ep));
	assert_null(ep);

	assert_ok(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep));
	mock.fail_call = "destroy_id";
	mock.fail_skip = 0;
	assert_fails(RPMA_E_PROVIDER, rpma_ep_shutdown(&ep));
	assert_null(ep);
	rpma_peer_delete(&peer);
}

static void
a_request_comes(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_ep *ep = NULL;
	struct rpma_conn_req *req = NULL;
	struct rpma_conn_private_data pdata;
	assert_ok(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep));
	assert_int_equal(rpma_ep_next_conn_req(ep, NULL, &req), RPMA_E_NO_EVENT);
	mock_queue_event(RDMA_CM_EVENT_CONNECT_REQUEST, id_of(ep), "abc", 3);
	assert_ok(rpma_ep_next_conn_req(ep, NULL, &req));
	assert_int_equal(mock.events_acked, 1);
	assert_ok(rpma_conn_req_get_private_data(req, &pdata));
	assert_int_equal(pdata.len, 3);
	assert_memory_equal(pdata.ptr, "abc", 3);
	assert_ok(rpma_conn_req_delete(&req));
	assert_ok(rpma_ep_shutdown(&ep));
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
	struct rpma_ep *ep = NULL;
	struct rpma_conn_req *req = NULL;
	assert_ok(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep));
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mock.fail_call = "get_cm_event";
		mock.fail_skip = 0;
		mock.fail_errno = table[i].errnum;
		assert_int_equal(rpma_ep_next_conn_req(ep, NULL, &req), table[i].ret);
	}
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], 1);
	assert_null(req);
	assert_ok(rpma_ep_shutdown(&ep));
	rpma_peer_delete(&peer);
}

static void
other_events(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_ep *ep = NULL;
	struct rpma_conn_req *req = NULL;
	struct rdma_cm_id client = { 0 };
	assert_ok(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep));

	/* an event of the endpoint itself */
	mock_queue_event(RDMA_CM_EVENT_DEVICE_REMOVAL, id_of(ep), NULL, 0);
	assert_fails(RPMA_E_INVAL, rpma_ep_next_conn_req(ep, NULL, &req));
	assert_int_equal(mock.events_acked, 1);

	/* an event of a client that gave up: the service must go on with the next client */
	mock_queue_event(RDMA_CM_EVENT_REJECTED, &client, NULL, 0);
	mock_queue_event(RDMA_CM_EVENT_CONNECT_REQUEST, id_of(ep), NULL, 0);
	assert_ok(rpma_ep_next_conn_req(ep, NULL, &req));
	assert_int_equal(mock.events_acked, 3);
	assert_ok(rpma_conn_req_delete(&req));
	assert_ok(rpma_ep_shutdown(&ep));
	rpma_peer_delete(&peer);
}

static void
a_client_that_cannot_be_kept_is_rejected(void **state)
{
	(void)state;
	static const char *const calls[] = { "ack_cm_event", "create_event_channel", "migrate_id" };
	struct rpma_peer *peer = mock_peer();
	struct rpma_ep *ep = NULL;
	struct rpma_conn_req *req = NULL;
	assert_ok(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep));
	const int live = mock.live;
	int rejected = 0;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		mock.events_queued = mock.events_taken = mock.events_acked = 0;
		mock_queue_event(RDMA_CM_EVENT_CONNECT_REQUEST, id_of(ep), "abc", 3);
		mock.fail_call = calls[i];
		mock.fail_skip = 0;
		assert_fails(RPMA_E_PROVIDER, rpma_ep_next_conn_req(ep, NULL, &req));
		assert_int_equal(mock.events_acked, 1);
		assert_int_equal(mock_count("reject"), ++rejected);
		assert_int_equal(mock.live, live);
	}
	for (int i = 0; i < 3; i++) {
		mock.events_queued = mock.events_taken = mock.events_acked = 0;
		mock_queue_event(RDMA_CM_EVENT_CONNECT_REQUEST, id_of(ep), "abc", 3);
		mock.malloc_skip = i;
		assert_fails(RPMA_E_NOMEM, rpma_ep_next_conn_req(ep, NULL, &req));
		assert_int_equal(mock.events_acked, 1);
		assert_int_equal(mock_count("reject"), ++rejected);
		assert_int_equal(mock.live, live);
	}
	assert_null(req);
	assert_ok(rpma_ep_shutdown(&ep));
	rpma_peer_delete(&peer);
}

static void
a_request_in_time(void **state)
{
	(void)state;
	int channel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	mock.channel_fd = channel;
	struct rpma_peer *peer = mock_peer();
	struct rpma_ep *ep = NULL;
	struct rpma_conn_req *req = NULL;
	struct rdma_cm_id client = { 0 };
	assert_ok(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep));
	assert_fails(RPMA_E_INVAL, rpma_ep_next_conn_req_timed(NULL, NULL, 0, &req));
	assert_fails(RPMA_E_INVAL, rpma_ep_next_conn_req_timed(ep, NULL, 0, NULL));
	assert_fails(RPMA_E_INVAL, rpma_ep_next_conn_req_timed(ep, NULL, -2, &req));
	assert_fails(RPMA_E_INVAL, rpma_ep_next_conn_req_timed(ep, NULL, INT_MIN, &req));

	/* no event comes: the channel, which would block, is not read */
	assert_int_equal(rpma_ep_next_conn_req_timed(ep, NULL, 0, &req), RPMA_E_NO_EVENT);
	assert_int_equal(rpma_ep_next_conn_req_timed(ep, NULL, 1, &req), RPMA_E_NO_EVENT);
	assert_int_equal(mock_count("get_cm_event"), 0);
	assert_int_equal(eventfd_write(channel, 1), 0);
	assert_int_equal(rpma_ep_next_conn_req_timed(ep, NULL, -1, &req), RPMA_E_NO_EVENT); /* another's */
	assert_null(req);

	static const int timeouts[] = { -1, 0, 1, INT_MAX };
	for (size_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
		struct rpma_conn_private_data pdata;
		mock.events_queued = mock.events_taken = mock.events_acked = 0;
		mock_queue_event(RDMA_CM_EVENT_REJECTED, &client, NULL, 0); /* of a client that gave up */
		mock_queue_event(RDMA_CM_EVENT_CONNECT_REQUEST, id_of(ep), "abc", 3);
		assert_ok(rpma_ep_next_conn_req_timed(ep, NULL, timeouts[i], &req));
		assert_int_equal(mock.events_acked, 2);
		assert_ok(rpma_conn_req_get_private_data(req, &pdata));
		assert_int_equal(pdata.len, 3);
		assert_ok(rpma_conn_req_delete(&req));
	}

	mock_queue_event(RDMA_CM_EVENT_DEVICE_REMOVAL, id_of(ep), NULL, 0);
	assert_fails(RPMA_E_INVAL, rpma_ep_next_conn_req_timed(ep, NULL, -1, &req));
	assert_null(req);
	assert_ok(rpma_ep_shutdown(&ep));
	rpma_peer_delete(&peer);
	close(channel);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(arguments),
		rpma_test(failures_of_listening),
		rpma_test(a_request_comes),
		rpma_test(no_event),
		rpma_test(other_events),
		rpma_test(a_client_that_cannot_be_kept_is_rejected),
		rpma_test(a_request_in_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
