/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_connect_timer.c -- the time limit for establishing a connection: the timer, and its effect on the user
 */

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "conn_req.h"
#include "connect_timer.h"
#include "mock.h"
#include "standard.h"
#include "timeout.h"

#define PATIENCE_MS 20000

static int channel; /* used as the event channel's descriptor */

static int
setup(void **state)
{
	mock_setup(state);
	channel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	mock.channel_fd = channel;
	return channel < 0;
}

static int
teardown(void **state)
{
	close(channel);
	return mock_teardown(state);
}

#define timer_test(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

static bool
is_readable(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	return poll(&pfd, 1, timeout_ms) == 1;
}

static void
open_channel(void)
{
	assert_int_equal(eventfd_write(channel, 1), 0);
}

static void
empty_channel(void)
{
	eventfd_t value;
	assert_int_equal(eventfd_read(channel, &value), 0);
}

/* ---- the timer ---- */

static void
it_fires_once(void **state)
{
	(void)state;
	static const int timeouts[] = { 0, 1 };
	for (size_t i = 0; i < 2; i++) {
		struct connect_timer *timer = NULL;
		assert_ok(rpmai_connect_timer_new(channel, timeouts[i], &timer));
		const int fd = rpmai_connect_timer_fd(timer);
		assert_false(is_readable(fd, 0)); /* it does not run yet */
		assert_int_equal(rpmai_connect_timer_wait(timer, 0), CONNECT_TIMER_NOTHING);
		assert_ok(rpmai_connect_timer_start(timer));
		assert_true(is_readable(fd, PATIENCE_MS));
		assert_int_equal(rpmai_connect_timer_wait(timer, DEADLINE_NEVER), CONNECT_TIMER_OVER);
		assert_false(is_readable(fd, 0));
		assert_int_equal(rpmai_connect_timer_wait(timer, 0), CONNECT_TIMER_NOTHING);
		rpmai_connect_timer_delete(timer);
	}
	rpmai_connect_timer_delete(NULL);
}

static void
an_event_counts_more(void **state)
{
	(void)state;
	struct connect_timer *timer = NULL;
	assert_ok(rpmai_connect_timer_new(channel, 0, &timer));
	assert_ok(rpmai_connect_timer_start(timer));
	assert_true(is_readable(rpmai_connect_timer_fd(timer), PATIENCE_MS));
	open_channel();
	assert_int_equal(rpmai_connect_timer_wait(timer, DEADLINE_NEVER), CONNECT_TIMER_CHANNEL);
	assert_int_equal(rpmai_connect_timer_wait(timer, 0), CONNECT_TIMER_CHANNEL); /* it was not taken */
	empty_channel();
	assert_int_equal(rpmai_connect_timer_wait(timer, 0), CONNECT_TIMER_OVER);
	rpmai_connect_timer_delete(timer);
}

static void
stopped_is_stopped(void **state)
{
	(void)state;
	static const int timeouts[] = { 0, INT_MAX };
	for (size_t i = 0; i < 2; i++) {
		struct connect_timer *timer = NULL;
		assert_ok(rpmai_connect_timer_new(channel, timeouts[i], &timer));
		assert_ok(rpmai_connect_timer_start(timer));
		if (timeouts[i] == 0)
			assert_true(is_readable(rpmai_connect_timer_fd(timer), PATIENCE_MS));
		rpmai_connect_timer_stop(timer); /* even if it has fired and was not read */
		assert_false(is_readable(rpmai_connect_timer_fd(timer), 0));
		assert_int_equal(rpmai_connect_timer_wait(timer, 0), CONNECT_TIMER_NOTHING);
		open_channel();
		assert_int_equal(rpmai_connect_timer_wait(timer, 0), CONNECT_TIMER_CHANNEL);
		empty_channel();
		rpmai_connect_timer_delete(timer);
	}
}

static void
failures(void **state)
{
	(void)state;
	static const struct {
		const char *call;
		int skip;
	} table[] = { { "timerfd_create", 0 }, { "epoll_create1", 0 }, { "epoll_ctl", 0 },
		{ "epoll_ctl", 1 } };
	struct connect_timer *timer = NULL;
	const int lowest = dup(channel);
	close(lowest);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mock.fail_call = table[i].call;
		mock.fail_skip = table[i].skip;
		mock.fail_errno = ENOMEM;
		assert_fails(RPMA_E_PROVIDER, rpmai_connect_timer_new(channel, 5, &timer));
		assert_non_null(strstr(mock.last_log, table[i].call));
		assert_null(timer);
		const int fd = dup(channel); /* no descriptor was left open */
		assert_int_equal(fd, lowest);
		close(fd);
	}
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpmai_connect_timer_new(channel, 5, &timer));
	assert_null(timer);

	assert_ok(rpmai_connect_timer_new(channel, 5, &timer));
	mock.fail_call = "timerfd_settime";
	mock.fail_skip = 0;
	assert_fails(RPMA_E_PROVIDER, rpmai_connect_timer_start(timer));
	rpmai_connect_timer_delete(timer);
}

/* ---- a connection ---- */

static struct rpma_conn *
conn_with_timeout(struct rpma_peer *peer, int timeout_ms)
{
	struct rpma_conn_cfg *cfg = NULL;
	assert_ok(rpma_conn_cfg_new(&cfg));
	assert_ok(rpma_conn_cfg_set_connect_timeout(cfg, timeout_ms));
	struct rpma_conn *conn = mock_conn(peer, cfg);
	assert_ok(rpma_conn_cfg_delete(&cfg));
	return conn;
}

static void
give_event(struct rpma_conn *conn, enum rdma_cm_event_type type)
{
	mock_queue_event(type, conn->id, NULL, 0);
	open_channel();
}

static void
unreachable_once(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	for (int timed = 0; timed < 2; timed++) {
		struct rpma_conn *conn = conn_with_timeout(peer, 0);
		enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
		int fd = -1;
		assert_ok(rpma_conn_get_event_fd(conn, &fd));
		assert_int_not_equal(fd, channel);
		assert_true(is_readable(fd, PATIENCE_MS)); /* though no event has come */
		if (timed)
			assert_ok(rpma_conn_next_event_timed(conn, -1, &event));
		else
			assert_ok(rpma_conn_next_event(conn, &event));
		assert_int_equal(event, RPMA_CONN_UNREACHABLE);

		event = RPMA_CONN_UNDEFINED;
		assert_false(is_readable(fd, 0));
		assert_int_equal(rpma_conn_next_event_timed(conn, 0, &event), RPMA_E_NO_EVENT);
		assert_int_equal(event, RPMA_CONN_UNDEFINED);
		assert_int_equal(mock.events_taken, 0);
		assert_ok(rpma_conn_delete(&conn));
	}
	assert_int_equal(mock.logged[RPMA_LOG_LEVEL_ERROR], 0);
	rpma_peer_delete(&peer);
}

/* a connection that is established too late is ended, without an event */
static void
late_events(void **state)
{
	(void)state;
	static const struct {
		enum rdma_cm_event_type type;
		int disconnected;
	} table[] = {
		{ RDMA_CM_EVENT_ESTABLISHED, 1 },
		{ RDMA_CM_EVENT_REJECTED, 0 },
		{ RDMA_CM_EVENT_UNREACHABLE, 0 },
		{ RDMA_CM_EVENT_DISCONNECTED, 0 },
	};
	struct rpma_peer *peer = mock_peer();
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct rpma_conn *conn = conn_with_timeout(peer, 0);
		enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
		assert_ok(rpma_conn_next_event(conn, &event));
		assert_int_equal(event, RPMA_CONN_UNREACHABLE);

		mock.traced = 0;
		mock.events_queued = mock.events_taken = mock.events_acked = 0;
		give_event(conn, table[i].type);
		event = RPMA_CONN_UNDEFINED;
		/* the mock's channel stays readable, but it has no further events */
		assert_int_equal(rpma_conn_next_event_timed(conn, 0, &event), RPMA_E_NO_EVENT);
		assert_int_equal(event, RPMA_CONN_UNDEFINED);
		assert_int_equal(mock.events_acked, 1);
		assert_int_equal(mock_count("disconnect"), table[i].disconnected);
		empty_channel();
		assert_ok(rpma_conn_delete(&conn));
	}
	rpma_peer_delete(&peer);
}

/* any event in time stops the timer */
static void
events_in_time(void **state)
{
	(void)state;
	static const struct {
		enum rdma_cm_event_type type;
		enum rpma_conn_event event;
	} table[] = {
		{ RDMA_CM_EVENT_ESTABLISHED, RPMA_CONN_ESTABLISHED },
		{ RDMA_CM_EVENT_REJECTED, RPMA_CONN_REJECTED },
		{ RDMA_CM_EVENT_UNREACHABLE, RPMA_CONN_UNREACHABLE },
	};
	struct rpma_peer *peer = mock_peer();
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		for (int timed = 0; timed < 2; timed++) {
			struct rpma_conn *conn = conn_with_timeout(peer, 0); /* the time is over at once */
			enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
			int fd = -1;
			assert_ok(rpma_conn_get_event_fd(conn, &fd));
			assert_true(is_readable(fd, PATIENCE_MS));
			mock.events_queued = mock.events_taken = mock.events_acked = 0;
			give_event(conn, table[i].type);
			if (timed)
				assert_ok(rpma_conn_next_event_timed(conn, -1, &event));
			else
				assert_ok(rpma_conn_next_event(conn, &event));
			assert_int_equal(event, table[i].event);
			empty_channel();
			assert_false(is_readable(fd, 0));
			assert_int_equal(rpma_conn_next_event_timed(conn, 0, &event), RPMA_E_NO_EVENT);
			assert_int_equal(mock_count("disconnect"), 0);

			/* the end of the connection is reported as usual */
			give_event(conn, RDMA_CM_EVENT_DISCONNECTED);
			assert_ok(rpma_conn_next_event_timed(conn, -1, &event));
			assert_int_equal(event, RPMA_CONN_CLOSED);
			empty_channel();
			assert_ok(rpma_conn_delete(&conn));
		}
	}
	rpma_peer_delete(&peer);
}

/* an event that could not be reported for want of memory has come in time all the same */
static void
an_event_without_memory(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = conn_with_timeout(peer, 0); /* the time is over at once */
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	mock_queue_event(RDMA_CM_EVENT_ESTABLISHED, conn->id, "data", 4);
	open_channel();
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpma_conn_next_event_timed(conn, -1, &event));
	mock.malloc_skip = -1;
	empty_channel();
	assert_int_equal(rpma_conn_next_event_timed(conn, 0, &event), RPMA_E_NO_EVENT);
	give_event(conn, RDMA_CM_EVENT_DISCONNECTED);
	assert_ok(rpma_conn_next_event_timed(conn, -1, &event));
	assert_int_equal(event, RPMA_CONN_CLOSED);
	empty_channel();
	assert_ok(rpma_conn_delete(&conn));
	rpma_peer_delete(&peer);
}

/* the mode of the descriptor that the user has decides whether the wait blocks */
static void
not_blocking(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = conn_with_timeout(peer, INT_MAX);
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	int fd = -1;
	assert_ok(rpma_conn_get_event_fd(conn, &fd));
	const int flags = fcntl(fd, F_GETFL);
	assert_int_equal(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
	assert_int_equal(rpma_conn_next_event(conn, &event), RPMA_E_NO_EVENT);
	assert_int_equal(mock_count("get_cm_event"), 0);
	give_event(conn, RDMA_CM_EVENT_ESTABLISHED);
	assert_ok(rpma_conn_next_event(conn, &event));
	assert_int_equal(event, RPMA_CONN_ESTABLISHED);
	assert_ok(rpma_conn_delete(&conn));
	rpma_peer_delete(&peer);
}

/* the time of an incoming request begins when it is accepted */
static void
an_incoming_request(void **state)
{
	(void)state;
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;
	struct rpma_conn_private_data pdata = { NULL, 0 };
	enum rpma_conn_event event;
	int fd = -1;
	assert_ok(rpma_conn_cfg_new(&cfg));
	assert_ok(rpma_conn_cfg_set_connect_timeout(cfg, 0));
	mock_queue_event(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, NULL, 0);
	assert_ok(rpmai_conn_req_new_passive(peer, mock.events[0].id, &pdata, cfg, &req));
	assert_ok(rpma_conn_get_event_fd(req->conn, &fd));
	assert_false(is_readable(fd, 0));
	assert_ok(rpma_conn_req_connect(&req, NULL, &conn));
	assert_true(is_readable(fd, PATIENCE_MS));
	assert_ok(rpma_conn_next_event(conn, &event));
	assert_int_equal(event, RPMA_CONN_UNREACHABLE);
	assert_ok(rpma_conn_delete(&conn));

	/* a failure of the timer fails the request, and nothing is left */
	static const char *const calls[] = { "timerfd_create", "epoll_ctl", "timerfd_settime" };
	const int live = mock.live;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		mock.fail_call = calls[i];
		mock.fail_skip = 0;
		assert_ok(rpma_conn_req_new(peer, "192.0.2.1", "7204", cfg, &req));
		assert_fails(RPMA_E_PROVIDER, rpma_conn_req_connect(&req, NULL, &conn));
		assert_null(req);
		assert_null(conn);
		assert_int_equal(mock.live, live);
	}
	assert_int_equal(mock_count("connect"), 0);

	mock.fail_call = "epoll_create1";
	mock.fail_skip = 0;
	mock.traced = 0;
	mock.events_queued = 0;
	mock_queue_event(RDMA_CM_EVENT_CONNECT_REQUEST, NULL, NULL, 0);
	assert_fails(RPMA_E_PROVIDER, rpmai_conn_req_new_passive(peer, mock.events[0].id, &pdata, cfg, &req));
	assert_int_equal(mock_count("reject"), 1);
	assert_int_equal(mock.live, live);
	assert_ok(rpma_conn_cfg_delete(&cfg));
	rpma_peer_delete(&peer);
}

/* descriptors that stay open are 3 or higher, also where lower ones are free */
static void
descriptors_are_high(void **state)
{
	(void)state;
	struct connect_timer *timer = NULL;
	standard_close();
	const int ret = rpmai_connect_timer_new(channel, 1000, &timer);
	const int taken = standard_taken();
	standard_open();
	assert_ok(ret);
	assert_int_equal(taken, 0);
	assert_true(rpmai_connect_timer_fd(timer) >= 3);
	rpmai_connect_timer_delete(timer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		timer_test(descriptors_are_high),
		timer_test(it_fires_once),
		timer_test(an_event_counts_more),
		timer_test(stopped_is_stopped),
		timer_test(failures),
		timer_test(unreachable_once),
		timer_test(late_events),
		timer_test(events_in_time),
		timer_test(an_event_without_memory),
		timer_test(not_blocking),
		timer_test(an_incoming_request),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
