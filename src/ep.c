/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * ep.c -- endpoints
 *
 * The listening channel delivers CONNECT_REQUEST events. Before a request is returned to the program, its
 * event is acknowledged and the client's id leaves the channel, so that the channel is free for the next
 * event. If the client gives up before that, its event may arrive here. It is skipped, since it does not
 * concern the listener; the acceptance will fail.
 *
 * An endpoint may outlive its peer, since it has nothing in the protection domain. Requests need the domain,
 * so the endpoint of a deleted peer returns none.
 */

#include <errno.h>
#include <stdlib.h>

#include "conn_req.h"
#include "err.h"
#include "info.h"
#include "inherited.h"
#include "log.h"
#include "timeout.h"

#define BACKLOG 0 /* the maximum of the kernel or of the device */

struct rpma_ep {
	struct rpma_peer *peer;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
};

int
rpma_ep_listen(struct rpma_peer *peer, const char *addr, const char *port, struct rpma_ep **ep_ptr)
{
	if (peer == NULL || addr == NULL || port == NULL || ep_ptr == NULL)
		return RPMAI_FAIL_NULL();
	if (rpmai_peer_is_inherited(peer))
		return rpmai_refuse_inherited();

	const struct rdma_api *rdma = peer->rdma;
	struct rdma_addrinfo *rai;
	char reason[INFO_REASON_MAX];
	int ret;

	struct rpma_ep *ep = malloc(sizeof(*ep));
	if (ep == NULL)
		return RPMAI_FAIL_NOMEM();
	ep->peer = peer;

	ep->channel = rdma->create_event_channel();
	if (ep->channel == NULL) {
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "rdma_create_event_channel()");
		goto err_free;
	}
	if (rdma->create_id(ep->channel, &ep->id, NULL, RDMA_PS_TCP)) {
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "rdma_create_id()");
		goto err_destroy_channel;
	}
	rpmai_peer_credentials_for(peer, ep->id);
	if (!rpmai_info_get(rdma, addr, port, INFO_PASSIVE, &rai, reason)) {
		ret = RPMAI_FAIL(RPMA_E_PROVIDER, "%s:%s: %s", addr, port, reason);
		goto err_destroy_id;
	}
	if (rdma->bind_addr(ep->id, rai->ai_src_addr)) {
		/*
		 * message(connect, cannot-listen): a server cannot listen -> The system's text and the way
		 * out follow. *Address already in use*: another program has the port. *Invalid argument*
		 * after a line about TLS or `SOFTRDMA_FAULTS`: that line has the reason.
		 */
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, rpmai_info_way_out(errno),
			"%s:%s: rdma_bind_addr()", addr, port);
		goto err_freeaddrinfo;
	}
	if (rdma->listen(ep->id, BACKLOG)) {
		/* message(cannot-listen) */
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, rpmai_info_way_out_of_start(rdma, errno),
			"%s:%s: rdma_listen()", addr, port);
		goto err_freeaddrinfo;
	}

	rpmai_peer_get(peer);
	rdma->freeaddrinfo(rai);
	RPMAI_LOG(NOTICE, "listening on %s:%s (%s)", addr, port, rdma->name);
	*ep_ptr = ep;
	return 0;

err_freeaddrinfo:
	rdma->freeaddrinfo(rai);
err_destroy_id:
	(void)rdma->destroy_id(ep->id);
err_destroy_channel:
	rdma->destroy_event_channel(ep->channel);
err_free:
	free(ep);
	return ret;
}

int
rpma_ep_shutdown(struct rpma_ep **ep_ptr)
{
	if (ep_ptr == NULL)
		return RPMAI_FAIL_NULL();

	struct rpma_ep *ep = *ep_ptr;
	if (ep == NULL)
		return 0;
	*ep_ptr = NULL;
	if (rpmai_peer_is_inherited(ep->peer))
		return rpmai_bury_inherited(ep);

	int ret = 0;
	const struct rdma_api *rdma = ep->peer->rdma;
	if (rdma->destroy_id(ep->id))
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "rdma_destroy_id()");
	rdma->destroy_event_channel(ep->channel);
	rpmai_peer_put(ep->peer);
	free(ep);
	return ret;
}

int
rpma_ep_get_fd(const struct rpma_ep *ep, int *fd)
{
	if (ep == NULL || fd == NULL)
		return RPMAI_FAIL_NULL();

	*fd = ep->channel->fd;
	return 0;
}

/* a client that has sent a request: its id belongs to this code from here on */
struct client {
	struct rdma_cm_id *id; /* NULL: the event came from a client that has given up */
	struct rpma_conn_private_data pdata;
};

static void
send_away(const struct rdma_api *rdma, struct client *client)
{
	rpmai_private_data_free(&client->pdata);
	(void)rpmai_private_data_reject(rdma, client->id, NULL);
	(void)rdma->destroy_id(client->id);
}

static int
refuse_without_peer(void)
{
	/*
	 * message(connect): a peer was deleted before its endpoints -> Call rpma_ep_shutdown(3) before
	 * rpma_peer_delete(3).
	 */
	return RPMAI_FAIL(RPMA_E_PROVIDER,
		"the peer of the endpoint is deleted: shut the endpoint down, and listen with another peer");
}

/* takes and acknowledges one event; if the client cannot be kept, rejects it */
static int
take_client(struct rpma_ep *ep, struct client *client)
{
	const struct rdma_api *rdma = ep->peer->rdma;
	struct rdma_cm_event *event;

	if (rdma->get_cm_event(ep->channel, &event)) {
		if (errno == EAGAIN || errno == EINTR || errno == ENODATA)
			return RPMA_E_NO_EVENT;
		return RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "rdma_get_cm_event()");
	}

	int ret = 0;
	const int type = (int)event->event;
	const bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
	const bool is_own = event->id == ep->id;
	*client = (struct client){ .id = is_request ? event->id : NULL };
	if (is_request)
		ret = rpmai_private_data_copy(event->param.conn.private_data,
			event->param.conn.private_data_len, &client->pdata);

	if (rdma->ack_cm_event(event))
		ret = rpmai_first_error(ret,
			RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, NULL, "rdma_ack_cm_event()"));
	if (ret && client->id)
		send_away(rdma, client);
	if (ret || is_request)
		return ret;

	/* message(unknown-event) */
	if (is_own)
		return RPMAI_FAIL(RPMA_E_INVAL,
			"the connection manager sent event %d, where a connection request was expected",
			type);
	RPMAI_LOG(NOTICE, "a client gave up before its request was accepted (event %d)", type);
	return 0;
}

/* skips clients that gave up; timed: the deadline limits the wait for each event, not taking it */
static int
next_conn_req(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, bool timed, uint64_t deadline,
	struct rpma_conn_req **req_ptr)
{
	struct rpma_peer *peer = ep->peer;
	struct client client = { 0 };
	int ret;

	if (rpmai_peer_is_inherited(peer))
		return rpmai_refuse_inherited();
	do {
		if (users_are_closed(&peer->pd_users))
			return refuse_without_peer();
		ret = timed ? rpmai_timeout_readable(ep->channel->fd, deadline) : 1;
		if (ret <= 0)
			return ret ? ret : RPMA_E_NO_EVENT;
		ret = take_client(ep, &client);
		if (ret)
			return ret;
	} while (client.id == NULL);

	/* the peer may have been deleted during the wait */
	if (!users_add_unless_closed(&peer->pd_users)) {
		send_away(peer->rdma, &client);
		return refuse_without_peer();
	}
	ret = rpmai_conn_req_new_passive(peer, client.id, &client.pdata, cfg, req_ptr);
	return rpmai_first_error(ret, rpmai_peer_unuse(peer));
}

int
rpma_ep_next_conn_req(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req_ptr)
{
	if (ep == NULL || req_ptr == NULL)
		return RPMAI_FAIL_NULL();

	return next_conn_req(ep, cfg, false, 0, req_ptr);
}

int
rpma_ep_next_conn_req_timed(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, int timeout_ms,
	struct rpma_conn_req **req_ptr)
{
	if (ep == NULL || req_ptr == NULL)
		return RPMAI_FAIL_NULL();
	int ret = rpmai_timeout_check(timeout_ms);
	if (ret)
		return ret;

	return next_conn_req(ep, cfg, true, rpmai_timeout_deadline(timeout_ms), req_ptr);
}
