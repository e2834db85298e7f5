/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conf_cm.c -- endpoints and requests: accepted, refused, left alone */

#include <string.h>

#include "groups.h"
#include "pair.h"
#include "role.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define CLIENTS 3
/* TEST-NET-1 and the discard prefix: addresses that no host has */
#define NOBODY_V4 "192.0.2.1"
#define NOBODY_V6 "100::1"

static void
open_and_listen(struct role *r)
{
	role_open(r);
	role_listen(r);
}

/* the request failed: rejected, or unreachable if the connection manager reports it so */
static void
expect_refusal(struct rpma_conn *conn)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	CHECK_OK(wait_event(conn, &event, WAIT_MS));
	if (event != RPMA_CONN_REJECTED && event != RPMA_CONN_UNREACHABLE && event != RPMA_CONN_LOST)
		check_failed(__FILE__, __LINE__, "event \"%s\" of a refused request",
			rpma_utils_conn_event_2str(event));
}

/* one message there and back proves a connection */
static void
prove(struct rpma_conn *conn)
{
	struct rpma_cq *cq = conn_cq(conn);
	struct ibv_wc wc;
	unsigned seen = 0;

	CHECK_OK(rpma_recv(conn, NULL, 0, 0, CTX(1)));
	CHECK_OK(rpma_send(conn, NULL, 0, 0, ALWAYS, CTX(2)));
	while (seen != 3) {
		wc = next_wc(cq);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK(wc.wr_id == 1 || wc.wr_id == 2);
		seen |= (unsigned)wc.wr_id;
	}
}

/* of r->conn and another request, one is refused and one accepted: the accepted one becomes r->conn */
static void
drop_the_refused(struct role *r, struct rpma_conn *other)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct rpma_conn *refused = other;

	CHECK_OK(wait_event(r->conn, &event, WAIT_MS));
	if (event != RPMA_CONN_ESTABLISHED) {
		refused = r->conn;
		r->conn = other;
	}
	expect_event(other, event == RPMA_CONN_ESTABLISHED ? RPMA_CONN_REJECTED : RPMA_CONN_ESTABLISHED);
	conn_delete(&refused);
}

/* ---- reject ---- */

static void
reject_target(struct role *r)
{
	open_and_listen(r);
	for (int i = 0; i < CLIENTS; i++) {
		struct rpma_conn_req *req = req_next(r, NULL);

		CHECK_OK(rpma_conn_req_delete(&req));
		CHECK(req == NULL);
	}
	/* the endpoint keeps accepting */
	r->conn = conn_accept(r, NULL);
	prove(r->conn);
	role_close(r);
}

static void
reject_initiator(struct role *r)
{
	open_and_listen(r);
	for (int i = 0; i < CLIENTS; i++) {
		struct rpma_conn *conn = conn_request(r, NULL, NULL);

		expect_event(conn, RPMA_CONN_REJECTED);
		conn_delete(&conn);
	}
	r->conn = conn_connect(r, NULL);
	prove(r->conn);
	role_close(r);
}

/* ---- no listener ---- */

static void
nobody_target(struct role *r)
{
	struct rpma_ep *ep = NULL;
	char port[NET_PORT_LEN];

	role_open(r);
	/* a port that had an endpoint a moment ago */
	CHECK_OK(pair_listen(r->peer, r->addr, port, &ep));
	CHECK_OK(rpma_ep_shutdown(&ep));
	CHECK(ep == NULL);
	ctl_put(r, port);
	ctl_expect(r, "refused");
	role_delete(r);
}

static void
nobody_initiator(struct role *r)
{
	struct rpma_conn *conn;

	open_and_listen(r);
	conn = conn_request(r, NULL, NULL);
	expect_event(conn, RPMA_CONN_REJECTED);
	conn_delete(&conn);
	ctl_put(r, "refused");
	role_delete(r);
}

/* ---- an address that no host has: an error or an event, in time ---- */

static void
absent_target(struct role *r)
{
	ctl_sync(r);
}

static void
unreachable_initiator(struct role *r)
{
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;
	int ret;

	role_open(r);
	ret = rpma_conn_req_new(r->peer, strchr(r->addr, ':') ? NOBODY_V6 : NOBODY_V4, "7204", NULL, &req);
	if (ret) {
		CHECK_RET(ret, RPMA_E_PROVIDER);
		CHECK(req == NULL);
	} else {
		CHECK_OK(rpma_conn_req_connect(&req, NULL, &conn));
		expect_refusal(conn);
		conn_delete(&conn);
	}
	role_delete(r);
	ctl_sync(r);
}

/* ---- several requests wait; all are taken, then accepted in another order ---- */

static void
pending_target(struct role *r)
{
	struct rpma_conn_req *reqs[CLIENTS] = { NULL };
	struct rpma_conn *conns[CLIENTS];

	open_and_listen(r);
	ctl_expect(r, "requested");
	for (int i = 0; i < CLIENTS; i++) {
		struct rpma_conn_req *req = req_next(r, NULL);
		struct rpma_conn_private_data pdata = { 0 };
		uint8_t client;

		CHECK_OK(rpma_conn_req_get_private_data(req, &pdata));
		CHECK(pdata.len >= 1);
		client = *(uint8_t *)pdata.ptr;
		CHECK(client < CLIENTS && !reqs[client]);
		reqs[client] = req;
	}
	for (int i = CLIENTS; i-- > 0;) {
		struct rpma_conn_private_data pdata = { &(uint8_t){ (uint8_t)(10 + i) }, 1 };

		conns[i] = req_accept(reqs[i], &pdata);
	}
	/*
	 * over librdmacm a client answers when it takes its event, and it takes events in the order of its
	 * requests
	 */
	for (int i = 0; i < CLIENTS; i++)
		expect_event(conns[i], RPMA_CONN_ESTABLISHED);
	for (int i = 0; i < CLIENTS; i++) {
		prove(conns[i]);
		expect_end(conns[i]);
		conn_delete(&conns[i]);
	}
	role_delete(r);
}

static void
pending_initiator(struct role *r)
{
	struct rpma_conn *conns[CLIENTS];

	open_and_listen(r);
	for (uint8_t i = 0; i < CLIENTS; i++) {
		struct rpma_conn_private_data pdata = { &i, 1 };

		conns[i] = conn_request(r, NULL, &pdata);
	}
	ctl_put(r, "requested");
	for (int i = 0; i < CLIENTS; i++) {
		struct rpma_conn_private_data pdata = { 0 };

		expect_event(conns[i], RPMA_CONN_ESTABLISHED);
		CHECK_OK(rpma_conn_get_private_data(conns[i], &pdata));
		CHECK(pdata.len >= 1 && *(uint8_t *)pdata.ptr == 10 + i);
	}
	for (int i = 0; i < CLIENTS; i++) {
		prove(conns[i]);
		CHECK_OK(rpma_conn_disconnect(conns[i]));
		expect_end(conns[i]);
		conn_delete(&conns[i]);
	}
	role_delete(r);
}

/* ---- the endpoint is shut down while requests wait: no client hangs ---- */

static void
shutdown_target(struct role *r)
{
	struct rpma_conn_req *req;

	open_and_listen(r);
	ctl_expect(r, "requested");
	req = req_next(r, NULL);
	CHECK_OK(rpma_conn_req_delete(&req));
	CHECK_OK(rpma_ep_shutdown(&r->ep));
	ctl_sync(r);
	role_delete(r);
}

static void
shutdown_initiator(struct role *r)
{
	struct rpma_conn *conns[CLIENTS];

	open_and_listen(r);
	for (int i = 0; i < CLIENTS; i++)
		conns[i] = conn_request(r, NULL, NULL);
	ctl_put(r, "requested");
	for (int i = 0; i < CLIENTS; i++) {
		expect_refusal(conns[i]);
		conn_delete(&conns[i]);
	}
	ctl_sync(r);
	role_delete(r);
}

/* ---- connections, and requests that were taken, outlive their endpoint ---- */

static void
late_accept_target(struct role *r)
{
	struct rpma_conn_req *reqs[2];

	open_and_listen(r);
	for (int i = 0; i < 2; i++)
		reqs[i] = req_next(r, NULL);
	CHECK_OK(rpma_ep_shutdown(&r->ep));
	CHECK_OK(rpma_conn_req_delete(&reqs[1]));
	r->conn = req_accept(reqs[0], NULL);
	expect_event(r->conn, RPMA_CONN_ESTABLISHED);
	prove(r->conn);
	role_close(r);
}

static void
late_accept_initiator(struct role *r)
{
	struct rpma_conn *second;

	open_and_listen(r);
	/* either request may arrive first: both must end well */
	r->conn = conn_request(r, NULL, NULL);
	second = conn_request(r, NULL, NULL);
	drop_the_refused(r, second);
	prove(r->conn);
	role_close(r);
}

static void
outlive_target(struct role *r)
{
	role_connect(r, NULL);
	CHECK_OK(rpma_ep_shutdown(&r->ep));
	ctl_sync(r);
	prove(r->conn);
	role_close(r);
}

static void
outlive_initiator(struct role *r)
{
	struct rpma_conn *late;

	role_connect(r, NULL);
	ctl_sync(r);
	prove(r->conn);
	late = conn_request(r, NULL, NULL);
	expect_refusal(late);
	conn_delete(&late);
	role_close(r);
}

/* ---- a client that gives up: before it requests a connection, and after ---- */

/* marks the request of the client that stays */
#define STAYS 0x57

static bool
request_of_the_one_that_stays(const struct rpma_conn_req *req)
{
	struct rpma_conn_private_data pdata = { 0 };

	CHECK_OK(rpma_conn_req_get_private_data(req, &pdata));
	return pdata.len > 0 && *(uint8_t *)pdata.ptr == STAYS;
}

/* true if an event of the connection is there; the software device must report it, hardware may not */
static bool
has_news(struct role *r, struct rpma_conn *conn)
{
	int fd;

	CHECK_OK(rpma_conn_get_event_fd(conn, &fd));
	if (wait_readable(fd, r->soft ? WAIT_MS : 0))
		return true;
	CHECK(!r->soft);
	return false;
}

/*
 * Checks that the accepted request of a client that has left is reported as failed, or as established and then
 * ended. Hardware may lose the last message of such a client; then only a minute of retransmissions without an
 * answer tells.
 */
static void
expect_withdrawal(struct role *r, struct rpma_conn *conn)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	if (!has_news(r, conn))
		return;
	CHECK_OK(wait_event(conn, &event, WAIT_MS));
	if (event != RPMA_CONN_ESTABLISHED)
		CHECK(event == RPMA_CONN_REJECTED || event == RPMA_CONN_UNREACHABLE ||
			event == RPMA_CONN_LOST || event == RPMA_CONN_CLOSED);
	else if (has_news(r, conn))
		expect_end(conn);
}

static void
withdrawn_target(struct role *r)
{
	struct rpma_conn *withdrawn = NULL;

	open_and_listen(r);
	ctl_expect(r, "withdrawn");
	/* the request may have vanished, or may be there and fail; no order of the two requests is promised */
	ctl_put(r, "connect");
	while (r->conn == NULL) {
		struct rpma_conn_req *req = req_next(r, NULL);
		struct rpma_conn **conn = request_of_the_one_that_stays(req) ? &r->conn : &withdrawn;
		int ret = rpma_conn_req_connect(&req, NULL, conn);

		if (conn == &r->conn)
			CHECK_OK(ret);
		else if (ret)
			CHECK_RET(ret, RPMA_E_PROVIDER);
	}
	expect_event(r->conn, RPMA_CONN_ESTABLISHED);
	prove(r->conn);
	if (withdrawn) {
		expect_withdrawal(r, withdrawn);
		conn_delete(&withdrawn);
	}
	role_close(r);
}

static void
withdrawn_initiator(struct role *r)
{
	struct rpma_conn_private_data stays = { &(uint8_t){ STAYS }, 1 };
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn;

	open_and_listen(r);
	CHECK_OK(rpma_conn_req_new(r->peer, r->addr, r->port, NULL, &req));
	CHECK_OK(rpma_conn_req_delete(&req));
	conn = conn_request(r, NULL, NULL);
	conn_delete(&conn);
	ctl_put(r, "withdrawn");
	ctl_expect(r, "connect");
	r->conn = conn_request(r, NULL, &stays);
	expect_event(r->conn, RPMA_CONN_ESTABLISHED);
	prove(r->conn);
	role_close(r);
}

/* ---- receives posted before the connection is established ---- */

static void
early_recv(struct role *r, struct rpma_conn_req *req, struct mem *m)
{
	mem_new(r, m, 64, RPMA_MR_USAGE_RECV);
	CHECK_OK(rpma_conn_req_recv(req, m->mr, GUARD, 64, CTX(5)));
	CHECK_RET(rpma_conn_req_recv(req, NULL, 0, 0, NULL), RPMA_E_INVAL);
	CHECK_OK(rpma_conn_req_connect(&req, NULL, &r->conn));
	expect_event(r->conn, RPMA_CONN_ESTABLISHED);
	r->cq = conn_cq(r->conn);
}

static void
early_exchange(struct role *r, struct mem *in)
{
	struct mem out;
	bool received = false;
	bool sent = false;

	mem_new(r, &out, 64, RPMA_MR_USAGE_SEND);
	mem_fill(&out, 6);
	CHECK_OK(rpma_send(r->conn, out.mr, GUARD, 64, ALWAYS, CTX(6)));
	while (!received || !sent) {
		struct ibv_wc wc = next_wc(r->cq);

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		received |= wc.wr_id == 5;
		sent |= wc.wr_id == 6;
	}
	mem_check(in, 6);
	mem_delete(&out);
	ctl_sync(r);
	mem_delete(in);
	role_close(r);
}

static void
early_target(struct role *r)
{
	struct mem in;

	open_and_listen(r);
	early_recv(r, req_next(r, NULL), &in);
	early_exchange(r, &in);
}

static void
early_initiator(struct role *r)
{
	struct rpma_conn_req *req = NULL;
	struct mem in;

	open_and_listen(r);
	CHECK_OK(rpma_conn_req_new(r->peer, r->addr, r->port, NULL, &req));
	early_recv(r, req, &in);
	early_exchange(r, &in);
}

/* ---- addresses and ports ---- */

static void
wildcard_target(struct role *r)
{
	const char *any = strchr(r->addr, ':') ? "::" : "0.0.0.0";

	role_open(r);
	CHECK_OK(pair_listen(r->peer, any, r->port, &r->ep));
	ctl_put(r, r->port);
	r->conn = conn_accept(r, NULL);
	prove(r->conn);
	role_close(r);
}

static void
plain_initiator(struct role *r)
{
	role_connect(r, NULL);
	prove(r->conn);
	role_close(r);
}

static void
port_in_use_target(struct role *r)
{
	struct rpma_ep *second = NULL;

	role_open(r);
	role_listen(r);
	CHECK_RET(rpma_ep_listen(r->peer, r->addr, r->port, &second), RPMA_E_PROVIDER);
	CHECK(second == NULL);
	r->conn = conn_accept(r, NULL);
	prove(r->conn);
	role_close(r);
}

/* each connection has a queue pair number of its own */
static void
numbers(struct role *r)
{
	struct rpma_conn *second;

	role_connect(r, NULL);
	second = r->is_target ? conn_accept(r, NULL) : conn_connect(r, NULL);
	CHECK(conn_qp_num(r->conn) != conn_qp_num(second));
	prove(second);
	prove(r->conn);
	ctl_sync(r);
	if (!r->is_target)
		CHECK_OK(rpma_conn_disconnect(second));
	expect_end(second);
	conn_delete(&second);
	role_close(r);
}

static const struct scenario list[] = {
	{ "cm-reject", reject_target, reject_initiator, 0, 0, NULL },
	{ "cm-nobody-listens", nobody_target, nobody_initiator, 0, 0, NULL },
	{ "cm-unreachable", absent_target, unreachable_initiator, 0, 0, NULL },
	{ "cm-accept-in-other-order", pending_target, pending_initiator, 0, 0, NULL },
	{ "cm-shutdown-with-pending", shutdown_target, shutdown_initiator, 0, 0, NULL },
	{ "cm-request-outlives-endpoint", late_accept_target, late_accept_initiator, 0, 0, NULL },
	{ "cm-connection-outlives-endpoint", outlive_target, outlive_initiator, 0, 0, NULL },
	{ "cm-withdrawn-request", withdrawn_target, withdrawn_initiator, 0, 0, NULL },
	{ "cm-early-receive", early_target, early_initiator, 0, 0, NULL },
	{ "cm-wildcard-address", wildcard_target, plain_initiator, 0, 0, NULL },
	{ "cm-port-in-use", port_in_use_target, plain_initiator, 0, 0, NULL },
	{ "cm-qp-numbers", numbers, numbers, 0, 0, NULL },
};

const struct scenario_group group_cm = { list, sizeof(list) / sizeof(list[0]) };
