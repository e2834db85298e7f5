/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conf_fds.c -- descriptors in event loops: non-blocking, level- and edge-triggered */

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "groups.h"
#include "role.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS

static int
make_nonblocking(int fd)
{
	CHECK_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
	return fd;
}

static int
ep_fd(struct rpma_ep *ep)
{
	int fd = -1;

	CHECK_OK(rpma_ep_get_fd(ep, &fd));
	return fd;
}

static int
event_fd(struct rpma_conn *conn)
{
	int fd = -1;

	CHECK_OK(rpma_conn_get_event_fd(conn, &fd));
	return fd;
}

static int
cq_fd(struct rpma_cq *cq)
{
	int fd = -1;

	CHECK_OK(rpma_cq_get_fd(cq, &fd));
	return fd;
}

/* ---- non-blocking: an empty queue is not a provider error ---- */

static void
nonblocking_target(struct role *r)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct rpma_conn_req *req = NULL;
	struct ibv_wc wc;

	role_open(r);
	role_listen(r);
	make_nonblocking(ep_fd(r->ep));
	CHECK_RET(rpma_ep_next_conn_req(r->ep, NULL, &req), RPMA_E_NO_EVENT);
	CHECK(req == NULL);
	ctl_put(r, "connect");
	r->conn = conn_accept(r, NULL);
	r->cq = conn_cq(r->conn);
	CHECK_RET(rpma_ep_next_conn_req(r->ep, NULL, &req), RPMA_E_NO_EVENT);
	make_nonblocking(event_fd(r->conn));
	make_nonblocking(cq_fd(r->cq));
	CHECK_RET(rpma_conn_next_event(r->conn, &event), RPMA_E_NO_EVENT);
	CHECK_EQ(event, RPMA_CONN_UNDEFINED);
	CHECK_RET(rpma_cq_wait(r->cq), RPMA_E_NO_COMPLETION);
	CHECK_RET(rpma_cq_get_wc(r->cq, 1, &wc, NULL), RPMA_E_NO_COMPLETION);
	CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(1)));
	ctl_put(r, "send");
	CHECK(wait_readable(cq_fd(r->cq), WAIT_MS));
	CHECK_OK(rpma_cq_wait(r->cq));
	CHECK_OK(rpma_cq_get_wc(r->cq, 1, &wc, NULL));
	CHECK_EQ(wc.wr_id, 1);
	CHECK_RET(rpma_cq_wait(r->cq), RPMA_E_NO_COMPLETION);
	CHECK_RET(rpma_conn_next_event(r->conn, &event), RPMA_E_NO_EVENT);
	role_close(r);
}

static void
nonblocking_initiator(struct role *r)
{
	struct rpma_conn *conn;
	enum rpma_conn_event event;
	int ret;

	role_open(r);
	role_listen(r);
	ctl_expect(r, "connect");
	conn = conn_request(r, NULL, NULL);
	make_nonblocking(event_fd(conn));
	do
		ret = rpma_conn_next_event(conn, &event);
	while (ret == RPMA_E_NO_EVENT); /* the deadline of the scenario ends this loop */
	CHECK_OK(ret);
	CHECK_EQ(event, RPMA_CONN_ESTABLISHED);
	r->conn = conn;
	r->cq = conn_cq(conn);
	ctl_expect(r, "send");
	CHECK_OK(rpma_send(r->conn, NULL, 0, 0, ALWAYS, CTX(1)));
	expect_ok(r->cq, 1);
	role_close(r);
}

/* ---- epoll ---- */

struct loop {
	int epfd;
	uint32_t extra; /* EPOLLET or 0 */
};

static void
loop_open(struct loop *l, uint32_t extra)
{
	l->extra = extra;
	l->epfd = epoll_create1(EPOLL_CLOEXEC);
	CHECK(l->epfd >= 0);
}

static void
loop_add(struct loop *l, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN | l->extra, .data.fd = fd };

	CHECK_EQ(epoll_ctl(l->epfd, EPOLL_CTL_ADD, make_nonblocking(fd), &ev), 0);
}

/* the descriptor that became ready; -1 if none is ready within the time */
static int
loop_wait(struct loop *l, int timeout_ms)
{
	struct epoll_event ev;
	int n = epoll_wait(l->epfd, &ev, 1, timeout_ms);

	CHECK(n >= 0);
	return n ? ev.data.fd : -1;
}

#define ROUNDS 100

/* an event without a completion is allowed, for what the device has received */
static void
drain(struct role *r)
{
	struct ibv_wc wc;
	int ret = 0;
	for (int i = 0; i < ROUNDS && ret == 0; i++) {
		ret = rpma_cq_wait(r->cq);
		CHECK(ret == 0 || ret == RPMA_E_NO_COMPLETION);
		CHECK_RET(rpma_cq_get_wc(r->cq, 1, &wc, NULL), RPMA_E_NO_COMPLETION);
	}
	CHECK_EQ(ret, RPMA_E_NO_COMPLETION);
}

/* each round: one message, one readiness, then quiet */
static void
loop_messages(struct role *r, struct loop *l)
{
	struct ibv_wc wc;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		CHECK_OK(rpma_recv(r->conn, NULL, 0, 0, CTX(i)));
		CHECK_EQ(loop_wait(l, 0), -1);
		ctl_put(r, "send");
		CHECK_EQ(loop_wait(l, WAIT_MS), cq_fd(r->cq));
		/*
		 * level-triggered it stays ready until the event is taken; edge-triggered it is reported once
		 */
		CHECK_EQ(loop_wait(l, 0), l->extra ? -1 : cq_fd(r->cq));
		CHECK_OK(rpma_cq_wait(r->cq));
		CHECK_OK(rpma_cq_get_wc(r->cq, 1, &wc, NULL));
		CHECK_EQ(wc.wr_id, i);
		drain(r);
	}
}

/* bytes that bring no completion may make the queue's descriptor readable: the wait finds nothing then, and ends that */
static void
loop_event(struct role *r, struct loop *l)
{
	int fd = loop_wait(l, WAIT_MS);
	for (int i = 0; i < ROUNDS && fd == cq_fd(r->cq); i++) {
		struct ibv_wc wc;
		const int ret = rpma_cq_wait(r->cq);
		CHECK(ret == 0 || ret == RPMA_E_NO_COMPLETION);
		CHECK_RET(rpma_cq_get_wc(r->cq, 1, &wc, NULL), RPMA_E_NO_COMPLETION);
		fd = loop_wait(l, WAIT_MS);
	}
	CHECK_EQ(fd, event_fd(r->conn));
}

static void
epoll_target(struct role *r)
{
	const uint32_t extra = r->scenario->arg ? (uint32_t)EPOLLET : 0;
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct rpma_conn_req *req = NULL;
	struct loop l;

	loop_open(&l, extra);
	role_open(r);
	role_listen(r);
	loop_add(&l, ep_fd(r->ep));
	CHECK_EQ(loop_wait(&l, 0), -1);
	ctl_put(r, "connect");
	CHECK_EQ(loop_wait(&l, WAIT_MS), ep_fd(r->ep));
	CHECK_OK(rpma_ep_next_conn_req(r->ep, NULL, &req));
	r->conn = req_accept(req, NULL);
	r->cq = conn_cq(r->conn);
	loop_add(&l, event_fd(r->conn));
	CHECK_EQ(loop_wait(&l, WAIT_MS), event_fd(r->conn));
	CHECK_OK(rpma_conn_next_event(r->conn, &event));
	CHECK_EQ(event, RPMA_CONN_ESTABLISHED);
	loop_add(&l, cq_fd(r->cq));
	loop_messages(r, &l);
	ctl_put(r, "disconnect");
	loop_event(r, &l);
	CHECK_OK(rpma_conn_next_event(r->conn, &event));
	CHECK_EQ(event, RPMA_CONN_CLOSED);
	close(l.epfd);
	conn_delete(&r->conn);
	role_delete(r);
}

static void
epoll_initiator(struct role *r)
{
	role_open(r);
	role_listen(r);
	ctl_expect(r, "connect");
	r->conn = conn_connect(r, NULL);
	r->cq = conn_cq(r->conn);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		ctl_expect(r, "send");
		CHECK_OK(rpma_send(r->conn, NULL, 0, 0, ALWAYS, CTX(i)));
		expect_ok(r->cq, i);
	}
	ctl_expect(r, "disconnect");
	CHECK_OK(rpma_conn_disconnect(r->conn));
	expect_end(r->conn);
	conn_delete(&r->conn);
	role_delete(r);
}

static const struct scenario list[] = {
	{ "epoll-nonblocking-and-empty", nonblocking_target, nonblocking_initiator, 0, 0, NULL },
	{ "epoll-level", epoll_target, epoll_initiator, 0, 0, NULL },
	{ "epoll-edge", epoll_target, epoll_initiator, 0, 0, "edge" },
};

const struct scenario_group group_fds = { list, sizeof(list) / sizeof(list[0]) };
