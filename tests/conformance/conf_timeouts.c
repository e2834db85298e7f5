/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conf_timeouts.c -- waits with a timeout, and the timeout for making a connection
 *
 * A wait must not end before its time. How long after that it ends is not checked.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "deadline.h"
#include "groups.h"
#include "role.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define SHORT_MS 60

/* ---- all waits behind one interface, so that all get the same checks ---- */

struct waiting {
	struct role *r;
	int (*wait)(struct waiting *w, int timeout_ms);
	int nothing; /* the result if the time is over */
	int fd;
	/* outputs */
	enum rpma_conn_event event;
	struct rpma_conn_req *req;
	struct rpma_cq *cq;
	bool is_rcq;
};

static int
wait_event_timed(struct waiting *w, int timeout_ms)
{
	return rpma_conn_next_event_timed(w->r->conn, timeout_ms, &w->event);
}

static int
wait_req_timed(struct waiting *w, int timeout_ms)
{
	return rpma_ep_next_conn_req_timed(w->r->ep, NULL, timeout_ms, &w->req);
}

static int
wait_cq_timed(struct waiting *w, int timeout_ms)
{
	return rpma_cq_wait_timed(w->r->cq, timeout_ms);
}

static int
wait_conn_timed(struct waiting *w, int timeout_ms)
{
	return rpma_conn_wait_timed(w->r->conn, 0, timeout_ms, &w->cq, &w->is_rcq);
}

static void
expect_untouched(const struct waiting *w)
{
	CHECK(w->event == RPMA_CONN_UNDEFINED && w->req == NULL && w->cq == NULL && !w->is_rcq);
}

static void
expect_nothing(struct waiting *w, int timeout_ms)
{
	int64_t start = now_ms();

	CHECK_RET(w->wait(w, timeout_ms), w->nothing);
	/* now_ms() truncates to whole ms at both ends */
	CHECK(now_ms() - start + 1 >= timeout_ms);
	expect_untouched(w);
}

/* the wait times out, whether the descriptor blocks or not */
static void
expect_timeouts(struct waiting *w)
{
	int flags = fcntl(w->fd, F_GETFL);

	expect_nothing(w, 0);
	expect_nothing(w, SHORT_MS);
	CHECK_EQ(fcntl(w->fd, F_SETFL, flags | O_NONBLOCK), 0);
	expect_nothing(w, 0);
	expect_nothing(w, SHORT_MS);
	CHECK_EQ(fcntl(w->fd, F_SETFL, flags), 0);
	CHECK_RET(w->wait(w, -2), RPMA_E_INVAL);
	CHECK_RET(w->wait(w, INT32_MIN), RPMA_E_INVAL);
	expect_untouched(w);
}

/* ---- a signal ends a wait ---- */

static atomic_int signals;
static atomic_bool has_ended;

static void
count_signal(int number)
{
	(void)number;
	atomic_fetch_add(&signals, 1);
}

struct signalled {
	struct waiting *w;
	int timeout_ms;
	struct role *r;
};

static void *
wait_for_signal(void *arg)
{
	struct signalled *s = arg;

	check_bind(s->r);
	CHECK_RET(s->w->wait(s->w, s->timeout_ms), s->w->nothing);
	atomic_store(&has_ended, true);
	return NULL;
}

/* signals are sent until the wait has ended, because it may not have begun when the first one comes */
static void
expect_end_by_signal(struct waiting *w, int timeout_ms)
{
	const struct sigaction action = { .sa_handler = count_signal, .sa_flags = SA_RESTART };
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct signalled s = { w, timeout_ms, w->r };
	pthread_t thread;

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	atomic_store(&has_ended, false);
	CHECK_EQ(pthread_create(&thread, NULL, wait_for_signal, &s), 0);
	while (!atomic_load(&has_ended)) {
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
		nanosleep(&pause, NULL);
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK(atomic_load(&signals) > 0);
	expect_untouched(w);
}

/* ---- completions ---- */

static int
queue_fd(struct rpma_cq *cq)
{
	int fd = -1;

	CHECK_OK(rpma_cq_get_fd(cq, &fd));
	return fd;
}

static void
take_message(struct role *r, uint64_t ctx)
{
	struct ibv_wc wc = { 0 };

	CHECK_OK(rpma_cq_get_wc(r->cq, 1, &wc, NULL));
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.wr_id, ctx);
	expect_none(r->cq);
}

/* scenario->arg: not NULL with a shared channel */
static void
completion_target(struct role *r)
{
	const bool shared = r->scenario->arg != NULL;
	const struct conn_opts opts = { .shared = shared };
	const int timeouts[] = { -1, WAIT_MS, INT32_MAX };
	struct waiting w = { .r = r, .nothing = RPMA_E_NO_COMPLETION, .event = RPMA_CONN_UNDEFINED };

	role_connect(r, &opts);
	w.wait = shared ? wait_conn_timed : wait_cq_timed;
	w.fd = queue_fd(r->cq);
	/* the other kind of wait does not work on this queue */
	if (shared)
		CHECK_RET(rpma_cq_wait_timed(r->cq, 0), RPMA_E_SHARED_CHANNEL);
	else
		CHECK_RET(rpma_conn_wait_timed(r->conn, 0, 0, &w.cq, NULL), RPMA_E_NOT_SHARED_CHNL);
	expect_timeouts(&w);
	for (uint64_t i = 0; i < 3; i++) {
		CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(i)));
		ctl_put(r, "send");
		CHECK_OK(w.wait(&w, timeouts[i]));
		CHECK(w.cq == (shared ? r->cq : NULL) && !w.is_rcq);
		w.cq = NULL;
		take_message(r, i);
	}
	/* a completion that is there already is found without waiting */
	CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(3)));
	ctl_put(r, "send");
	CHECK(wait_readable(w.fd, WAIT_MS));
	CHECK_OK(w.wait(&w, 0));
	w.cq = NULL;
	take_message(r, 3);
	expect_nothing(&w, 0);
	expect_end_by_signal(&w, WAIT_MS);
	expect_end_by_signal(&w, -1);
	ctl_put(r, "end");
	role_close(r);
}

static void
completion_initiator(struct role *r)
{
	role_connect(r, NULL);
	for (uint64_t i = 0; i < 4; i++) {
		ctl_expect(r, "send");
		CHECK_OK(rpma_send(r->conn, NULL, 0, 0, ALWAYS, CTX(i)));
		expect_ok(r->cq, i);
	}
	ctl_expect(r, "end");
	role_close(r);
}

/* ---- several threads wait for one queue: each message ends one wait, and no message is lost ---- */

#define THREADS 3
#define MESSAGES 300

static atomic_int taken;

static void *
take_some(void *arg)
{
	struct role *r = arg;
	struct ibv_wc wc;

	while (atomic_load(&taken) < MESSAGES) {
		int ret = rpma_cq_wait_timed(r->cq, 20);

		CHECK(ret == 0 || ret == RPMA_E_NO_COMPLETION);
		while (rpma_cq_get_wc(r->cq, 1, &wc, NULL) == 0) {
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			atomic_fetch_add(&taken, 1);
		}
	}
	return NULL;
}

static void
threads_target(struct role *r)
{
	const struct conn_opts opts = { .rq = MESSAGES, .cq = MESSAGES };
	pthread_t threads[THREADS];

	atomic_store(&taken, 0);
	role_connect(r, &opts);
	for (uint64_t i = 0; i < MESSAGES; i++)
		CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(i)));
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, take_some, r), 0);
	ctl_put(r, "send");
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(atomic_load(&taken), MESSAGES);
	expect_none(r->cq);
	role_close(r);
}

static void
threads_initiator(struct role *r)
{
	role_connect(r, NULL);
	ctl_expect(r, "send");
	for (uint64_t i = 0; i < MESSAGES; i++) {
		CHECK_OK(rpma_send(r->conn, NULL, 0, 0, ALWAYS, CTX(i)));
		expect_ok(r->cq, i);
	}
	role_close(r);
}

/* ---- events of a connection ---- */

static int
event_fd(struct rpma_conn *conn)
{
	int fd = -1;

	CHECK_OK(rpma_conn_get_event_fd(conn, &fd));
	return fd;
}

static void
event_target(struct role *r)
{
	struct waiting w = { .r = r,
		.wait = wait_event_timed,
		.nothing = RPMA_E_NO_EVENT,
		.event = RPMA_CONN_UNDEFINED };

	role_connect(r, NULL);
	w.fd = event_fd(r->conn);
	expect_timeouts(&w);
	expect_end_by_signal(&w, WAIT_MS);
	expect_end_by_signal(&w, -1);
	ctl_put(r, "end");
	CHECK_OK(rpma_conn_next_event_timed(r->conn, WAIT_MS, &w.event));
	CHECK_EQ(w.event, RPMA_CONN_CLOSED);
	w.event = RPMA_CONN_UNDEFINED;
	if (r->soft)
		expect_nothing(&w, SHORT_MS);
	conn_delete(&r->conn);
	role_delete(r);
}

static void
event_initiator(struct role *r)
{
	role_connect(r, NULL);
	ctl_expect(r, "end");
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	conn_delete(&r->conn);
	role_delete(r);
}

/* ---- requests at an endpoint ---- */

static void
req_target(struct role *r)
{
	struct waiting w = { .r = r,
		.wait = wait_req_timed,
		.nothing = RPMA_E_NO_EVENT,
		.event = RPMA_CONN_UNDEFINED };

	role_open(r);
	role_listen(r);
	CHECK_OK(rpma_ep_get_fd(r->ep, &w.fd));
	expect_timeouts(&w);
	expect_end_by_signal(&w, WAIT_MS);
	expect_end_by_signal(&w, -1);
	ctl_put(r, "connect");
	CHECK_OK(rpma_ep_next_conn_req_timed(r->ep, NULL, WAIT_MS, &w.req));
	CHECK(w.req != NULL);
	r->conn = req_accept(w.req, NULL);
	expect_event(r->conn, RPMA_CONN_ESTABLISHED);
	w.req = NULL;
	expect_nothing(&w, 0);
	role_close(r);
}

static void
req_initiator(struct role *r)
{
	role_open(r);
	role_listen(r);
	ctl_expect(r, "connect");
	r->conn = conn_connect(r, NULL);
	role_close(r);
}

/* ---- a connection that is not established in time ---- */

static void
late_target(struct role *r)
{
	struct rpma_conn_req *req;

	role_open(r);
	role_listen(r);
	req = req_next(r, NULL);
	ctl_expect(r, "given up");
	/* the client is gone: whatever the result is, the connection is not established */
	CHECK_OK(rpma_conn_req_delete(&req));
	r->conn = conn_accept(r, NULL);
	role_close(r);
}

/* scenario->arg: how to wait for the event */
enum how { BY_DESCRIPTOR, BY_BLOCKING, BY_TIMED };

static const enum how by_descriptor = BY_DESCRIPTOR;
static const enum how by_blocking = BY_BLOCKING;
static const enum how by_timed = BY_TIMED;

static void
expect_unreachable(struct role *r, struct rpma_conn *conn)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	switch (*(const enum how *)r->scenario->arg) {
	case BY_DESCRIPTOR:
		CHECK(wait_readable(event_fd(conn), WAIT_MS));
		CHECK_OK(rpma_conn_next_event_timed(conn, 0, &event));
		break;
	case BY_BLOCKING:
		CHECK_OK(rpma_conn_next_event(conn, &event));
		break;
	case BY_TIMED:
		while (event == RPMA_CONN_UNDEFINED) {
			int ret = rpma_conn_next_event_timed(conn, SHORT_MS / 4, &event);

			CHECK(ret == 0 || ret == RPMA_E_NO_EVENT);
		}
	}
	CHECK_EQ(event, RPMA_CONN_UNREACHABLE);
}

static void
late_initiator(struct role *r)
{
	const struct conn_opts opts = { .connect_timeout = 5 * SHORT_MS };
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct rpma_conn *conn;
	int64_t start;

	role_open(r);
	role_listen(r);
	start = now_ms();
	conn = conn_request(r, &opts, NULL);
	expect_unreachable(r, conn);
	CHECK(now_ms() - start + 1 >= 5 * SHORT_MS);
	/* the event comes once, and no other event follows */
	CHECK_RET(rpma_conn_next_event_timed(conn, SHORT_MS, &event), RPMA_E_NO_EVENT);
	CHECK_EQ(event, RPMA_CONN_UNDEFINED);
	conn_delete(&conn);
	ctl_put(r, "given up");
	r->conn = conn_connect(r, NULL); /* a busy machine may need more than that time */
	role_close(r);
}

/* established in time: the timeout has no effect afterwards */
static void
in_time(struct role *r)
{
	const struct conn_opts opts = { .connect_timeout = 4000 };
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	role_connect(r, &opts);
	CHECK_RET(rpma_conn_next_event_timed(r->conn, 4000 + SHORT_MS, &event), RPMA_E_NO_EVENT);
	CHECK_EQ(event, RPMA_CONN_UNDEFINED);
	CHECK(!wait_readable(event_fd(r->conn), 0));
	role_close(r);
}

/* an event is reported at once, not when the time is over */
static void
refused_target(struct role *r)
{
	struct rpma_conn_private_data reason = { (void *)(uintptr_t) "no", 2 };
	struct rpma_conn_req *req;

	role_open(r);
	role_listen(r);
	req = req_next(r, NULL);
	CHECK_OK(rpma_conn_req_reject(&req, &reason));
	ctl_sync(r);
	role_delete(r);
}

static void
refused_initiator(struct role *r)
{
	const struct conn_opts opts = { .connect_timeout = INT32_MAX };
	struct rpma_conn_private_data reason = { 0 };

	role_open(r);
	role_listen(r);
	r->conn = conn_request(r, &opts, NULL);
	expect_event(r->conn, RPMA_CONN_REJECTED);
	CHECK_OK(rpma_conn_get_private_data(r->conn, &reason));
	CHECK(reason.len == 2 && !memcmp(reason.ptr, "no", 2));
	ctl_sync(r);
	role_delete(r);
}

static const struct scenario list[] = {
	{ "timeout-cq-wait", completion_target, completion_initiator, 0, 0, NULL },
	{ "timeout-conn-wait", completion_target, completion_initiator, 0, 0, "shared" },
	{ "timeout-cq-wait-threads", threads_target, threads_initiator, 0, 0, NULL },
	{ "timeout-next-event", event_target, event_initiator, 0, 0, NULL },
	{ "timeout-next-conn-req", req_target, req_initiator, 0, 0, NULL },
	{ "smoke-connect-timeout", late_target, late_initiator, 0, 0, &by_descriptor },
	{ "connect-timeout-blocking", late_target, late_initiator, 0, 0, &by_blocking },
	{ "connect-timeout-timed", late_target, late_initiator, 0, 0, &by_timed },
	{ "connect-timeout-that-is-met", in_time, in_time, 0, 0, NULL },
	{ "connect-timeout-and-rejected", refused_target, refused_initiator, 0, 0, NULL },
};

const struct scenario_group group_timeouts = { list, sizeof(list) / sizeof(list[0]) };
