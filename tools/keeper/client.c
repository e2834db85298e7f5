/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* client.c -- connects to rpma-keeper */

#include <sys/random.h>

#include "client.h"

bool
keeper_client_id(uint64_t *id)
{
	do {
		if (getrandom(id, sizeof(*id), 0) != (ssize_t)sizeof(*id))
			return false;
	} while (*id == 0);
	return true;
}

bool
keeper_reason_may_pass(enum keeper_reason reason)
{
	return reason == KEEPER_REFUSED_BUSY || reason == KEEPER_REFUSED_FULL ||
		reason == KEEPER_REFUSED_FAILURE || reason == KEEPER_REFUSED_NAME;
}

static bool
new_request(struct rpma_peer *peer, const struct keeper_target *target, struct rpma_conn_req **req,
	char why[static WHY_MAX])
{
	struct rpma_conn_cfg *cfg = NULL;

	bool good = rpma_conn_cfg_new(&cfg) == 0 && rpma_conn_cfg_set_timeout(cfg, target->timeout_ms) == 0 &&
		rpma_conn_cfg_set_connect_timeout(cfg, target->timeout_ms) == 0 &&
		rpma_conn_cfg_set_sq_size(cfg, target->queue_size) == 0 &&
		rpma_conn_cfg_set_cq_size(cfg, target->queue_size) == 0 &&
		rpma_conn_cfg_set_rq_size(cfg, 1) == 0 &&
		rpma_conn_req_new(peer, target->host, target->port, cfg, req) == 0;
	if (!good)
		why_rpma(why, "preparing the connection");
	(void)rpma_conn_cfg_delete(&cfg);
	return good;
}

/* why the connection was not made */
static enum keeper_opened
explain(const struct rpma_conn *conn, enum rpma_conn_event event, const struct keeper_target *target,
	struct keeper_refusal *refusal, char why[static WHY_MAX])
{
	struct rpma_conn_private_data pdata = { NULL, 0 };
	struct keeper_refusal found;

	if (event == RPMA_CONN_REJECTED && rpma_conn_get_private_data(conn, &pdata) == 0 &&
		keeper_refusal_decode(pdata.ptr, pdata.len, &found) == KEEPER_DECODED) {
		why_say(why, "the keeper refuses: %s", found.sentence);
		*refusal = found;
		return KEEPER_REFUSED;
	}
	if (event == RPMA_CONN_REJECTED)
		why_say(why,
			"no connection: rejected: does rpma-keeper listen at %s port %s, with the same "
			"RPMA_DEVICE and credentials that fit?",
			target->host, target->port);
	else
		why_say(why, "no connection to %s port %s: %s", target->host, target->port,
			rpma_utils_conn_event_2str(event));
	return KEEPER_UNREACHABLE;
}

/* takes the keeper's reply, and checks that it describes what was asked for */
static bool
take_reply(struct rpma_conn *conn, const struct keeper_request *request, struct keeper_link *link,
	char why[static WHY_MAX])
{
	const bool writes = request->want & KEEPER_WANT_WRITE;
	struct rpma_conn_private_data pdata = { NULL, 0 };
	struct keeper_reply *reply = &link->reply;
	struct rpma_peer_cfg *cfg = NULL;
	int flush_types = 0;
	size_t size = 0;

	if (rpma_conn_get_private_data(conn, &pdata) ||
		keeper_reply_decode(pdata.ptr, pdata.len, reply) != KEEPER_DECODED)
		return why_say(why, "it is no keeper of version %d of the protocol", KEEPER_VERSION);
	if (rpma_mr_remote_from_descriptor(reply->descriptor, reply->descriptor_size, &link->memory) ||
		rpma_mr_remote_get_size(link->memory, &size) ||
		rpma_mr_remote_get_flush_type(link->memory, &flush_types))
		return why_rpma(why, "the keeper's descriptor");
	const int flush_type = reply->persistence == KEEPER_VOLATILE ? RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY
								     : RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
	if (size != reply->size || reply->writable != writes || (writes && !(flush_types & flush_type)))
		return why_say(why, "the keeper's descriptor does not fit its reply");
	bool good = rpma_peer_cfg_from_descriptor(&reply->peer_cfg, sizeof(reply->peer_cfg), &cfg) == 0 &&
		rpma_conn_apply_remote_peer_cfg(conn, cfg) == 0;
	(void)rpma_peer_cfg_delete(&cfg);
	return good || why_rpma(why, "the keeper's configuration");
}

enum keeper_opened
keeper_link_open(struct rpma_peer *peer, const struct keeper_target *target,
	const struct keeper_request *request, struct keeper_link *link, struct keeper_refusal *refusal,
	char why[static WHY_MAX])
{
	struct keeper_link opened = { .conn = NULL };
	struct rpma_conn_req *req = NULL;
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	enum keeper_opened result = KEEPER_UNREACHABLE;
	uint8_t bytes[KEEPER_REQUEST_MAX];
	const struct rpma_conn_private_data pdata = { bytes, (uint8_t)keeper_request_encode(request, bytes) };
	int ret;

	if (!new_request(peer, target, &req, why))
		return KEEPER_UNREACHABLE;
	if (rpma_conn_req_connect(&req, &pdata, &opened.conn)) {
		why_rpma(why, "connecting");
		return KEEPER_UNREACHABLE;
	}
	/* the library gives an event in time; a signal may end the wait earlier */
	do
		ret = rpma_conn_next_event(opened.conn, &event);
	while (ret == RPMA_E_NO_EVENT);
	if (ret)
		why_rpma(why, "connecting");
	else if (event != RPMA_CONN_ESTABLISHED)
		result = explain(opened.conn, event, target, refusal, why);
	else if (take_reply(opened.conn, request, &opened, why))
		result = KEEPER_OPENED;
	else
		result = KEEPER_UNUSABLE;

	if (result == KEEPER_OPENED)
		*link = opened;
	else
		keeper_link_close(&opened);
	return result;
}

void
keeper_link_close(struct keeper_link *link)
{
	(void)rpma_conn_delete(&link->conn);
	(void)rpma_mr_remote_delete(&link->memory);
}
