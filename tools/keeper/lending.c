/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * lending.c -- grants and refuses requests, and takes access back
 *
 * The order in which a request is granted matters. All that can fail comes first, while an earlier holder
 * still has its access: the new registration, and the record of the new writer. Then the holder's access is
 * revoked. Only then does the new client get its descriptor. It may be gone by then; so the record names the
 * writer before it again if it is never established.
 */

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "keeper.h"
#include "log.h"

/* how long a keeper that ends waits for writers that are not established; the software device ends such a one after 5 s */
#define SETTLE_MS 6000

/* of the client's number, the half that is shown: with the whole of it one could resume in its place */
#define ID_SHOWN(id) ((uint32_t)((id) >> 32))

static bool
is_volatile(const struct lend *lend)
{
	return lend->memory.persistence == KEEPER_VOLATILE;
}

/* registers the memory for one client, and describes it in reply */
static bool
register_memory(struct keeper *k, struct lend *lend, bool for_writing, struct rpma_mr_local **mr,
	struct keeper_reply *reply, char why[static WHY_MAX])
{
	int usage = RPMA_MR_USAGE_READ_SRC;
	size_t size;

	if (for_writing)
		usage |= RPMA_MR_USAGE_WRITE_DST |
			(is_volatile(lend) ? RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY
					   : RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
	if (rpma_mr_reg(k->peer, lend->memory.ptr, lend->memory.size, usage, mr))
		return why_rpma(why, "registering the memory");
	if (rpma_mr_get_descriptor_size(*mr, &size) || size > sizeof(reply->descriptor) ||
		rpma_mr_get_descriptor(*mr, reply->descriptor)) {
		(void)rpma_mr_dereg(mr);
		return why_say(why, "the memory has no descriptor that fits");
	}
	reply->descriptor_size = (uint8_t)size;
	return true;
}

/* false if a flush to persistence was asked for, and the registered memory does not offer it */
static bool
is_durable_as_promised(const struct keeper *k, const struct lend *lend, const struct keeper_reply *reply)
{
	struct rpma_mr_remote *mr = NULL;
	int types = 0;

	if (is_volatile(lend))
		return true;
	/* only the software device writes pages of a file to its disk; a flush of others ends in the memory */
	if (lend->memory.persistence == KEEPER_PAGES && !keeper_is_soft(k))
		return false;
	if (rpma_mr_remote_from_descriptor(reply->descriptor, reply->descriptor_size, &mr) == 0)
		(void)rpma_mr_remote_get_flush_type(mr, &types);
	(void)rpma_mr_remote_delete(&mr);
	return types & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
}

bool
lending_try(struct keeper *k, struct lend *lend, char why[static WHY_MAX])
{
	struct rpma_mr_local *mr = NULL;
	struct keeper_reply reply = { 0 };

	if (!register_memory(k, lend, !lend->read_only, &mr, &reply, why))
		return false;
	bool durable = lend->read_only || is_durable_as_promised(k, lend, &reply);
	(void)rpma_mr_dereg(&mr);
	return durable ||
		why_say(why,
			"the memory cannot be made durable (the log of the library says why); "
			"dram: lends memory that is not meant to be");
}

/* --- the medium --- */

static bool
registers_a_page(struct keeper *k, const struct lend *lend, int usage)
{
	struct rpma_mr_local *mr = NULL;

	if (rpma_mr_reg(k->peer, lend->memory.ptr, MEMORY_ALIGNMENT, usage, &mr))
		return false;
	(void)rpma_mr_dereg(&mr);
	return true;
}

/*
 * The software device keeps in mind that writing a file back has failed. It then refuses memory of the file for
 * persistence, and for nothing else. A process that lacks memory or descriptors may fail once, but hardly so.
 */
static bool
has_failed(struct keeper *k, const struct lend *lend)
{
	const int durable = RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
	const int visible = RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;

	return !registers_a_page(k, lend, durable) && registers_a_page(k, lend, visible) &&
		!registers_a_page(k, lend, durable);
}

void
lending_look_at_medium(struct keeper *k, struct lend *lend)
{
	char why[WHY_MAX];

	if (lend->memory.identity.failed || lend->read_only || lend->memory.persistence != KEEPER_PAGES ||
		!has_failed(k, lend))
		return;
	lend->has_failed = true;
	/* message(medium-failed) */
	log_line("%s: its medium has failed: it is lent for reading only from now on", lend->name);
	/* message(record-not-written) */
	if (!memory_record_failure(&lend->memory, why))
		log_line(
			"%s: the failure cannot be recorded, and would be forgotten when the keeper ends: %s",
			lend->name, why);
	k->changed = true;
}

void
lending_look_at_media(struct keeper *k)
{
	struct rpma_peer_stats stats = { .size = sizeof(stats) };
	char why[WHY_MAX];

	if (rpma_peer_get_stats(k->peer, &stats))
		stats.refused_failed = 0;
	const bool failures = stats.refused_failed != k->failures;
	k->failures = stats.refused_failed;
	for (int i = 0; i < k->options->lend_count; i++) {
		(void)memory_record_again(&k->lends[i].memory, why);
		if (failures)
			lending_look_at_medium(k, &k->lends[i]);
	}
}

/* --- refusing --- */

static void
reject(struct rpma_conn_req **req, enum keeper_reason reason, const char *sentence)
{
	struct keeper_refusal refusal = { .reason = reason };
	uint8_t bytes[KEEPER_REFUSAL_MAX];

	snprintf(refusal.sentence, sizeof(refusal.sentence), "%.*s", KEEPER_SENTENCE_MAX, sentence);
	const struct rpma_conn_private_data pdata = { bytes,
		(uint8_t)keeper_refusal_encode(&refusal, bytes) };
	if (rpma_conn_req_reject(req, &pdata))
		log_stranger("a request could not be refused: %s", rpma_errormsg());
}

static const char *
sentence_of(enum keeper_reason reason)
{
	switch (reason) {
	case KEEPER_REFUSED_READ_ONLY:
		return "the memory is lent for reading only";
	case KEEPER_REFUSED_BUSY:
		return "another client has the memory for writing; a request with takeover would get it";
	case KEEPER_REFUSED_SUPERSEDED:
		return "another client had the memory for writing meanwhile";
	case KEEPER_REFUSED_REPLACED:
		return "this is other memory of the same name: no client had it for writing yet";
	case KEEPER_REFUSED_MEDIUM:
		return "the memory can no longer be made durable; the log of the keeper says why";
	case KEEPER_REFUSED_FULL:
		return "the keeper has as many clients as it may have (--clients)";
	case KEEPER_REFUSED_NAME:
		return "nothing is lent under this name";
	default:
		return "the keeper failed to lend the memory; its log says why";
	}
}

static void
refuse(struct keeper *k, struct rpma_conn_req **req, struct lend *lend, const struct keeper_request *request,
	enum keeper_reason reason)
{
	const char *sentence = sentence_of(reason);

	/* message(medium-failed) */
	if (lend && lend->memory.identity.failed && reason == KEEPER_REFUSED_MEDIUM)
		sentence = "the medium of the memory has failed: see --clear-failed in rpma-keeper(1)";
	/*
	 * message(keeper, not-revoked): the device has not deregistered the memory of a client; the line
	 * before says why -> Start the keeper again, which ends all access. The earlier client then goes
	 * on.
	 */
	if (lend && reason == KEEPER_REFUSED_FAILURE && lend->unrevoked)
		sentence =
			"the access of an earlier client could not be revoked: the keeper must be started again";
	/* message(keeper): a client is being connected; this takes 5 seconds at most -> Try again. */
	if (lend && lend->holder && reason == KEEPER_REFUSED_BUSY && lend->holder->displaced)
		sentence = "another client is just getting the memory for writing; try again";
	log_stranger("%s: client %08" PRIx32 " is refused: %s", request->name, ID_SHOWN(request->client),
		sentence);
	reject(req, reason, sentence);
	if (lend) {
		lend->refused++;
		k->changed = true;
	}
}

/* --- granting --- */

static struct lend *
find_lend(struct keeper *k, const char *name)
{
	for (int i = 0; i < k->options->lend_count; i++)
		if (strcmp(k->lends[i].name, name) == 0)
			return &k->lends[i];
	return NULL;
}

static struct client *
free_place(struct keeper *k)
{
	for (int i = 0; i < KEEPER_PLACES(k->options); i++)
		if (k->clients[i].conn == NULL)
			return &k->clients[i];
	return NULL;
}

static void
fill_reply(const struct keeper *k, const struct lend *lend, bool for_writing, struct keeper_reply *reply)
{
	reply->writable = for_writing;
	reply->lent = for_writing || lend->holder;
	if (!for_writing)
		reply->only_reading = lend->read_only  ? KEEPER_REFUSED_READ_ONLY
			: lend->memory.identity.failed ? KEEPER_REFUSED_MEDIUM
			: lend->unrevoked              ? KEEPER_REFUSED_FAILURE
						       : 0;
	reply->persistence = lend->memory.persistence;
	reply->block_shift = lend->memory.block_shift;
	reply->peer_cfg = k->peer_cfg;
	reply->size = lend->memory.size;
	memcpy(reply->identity, lend->memory.identity.id, KEEPER_IDENTITY_SIZE);
}

/* the client is gone, and has never had the memory */
static void
give_back(struct lend *lend, uint64_t displaced)
{
	char why[WHY_MAX];

	if (displaced == 0)
		return;
	/*
	 * message(keeper): a client has asked for the memory, and was gone before it got it -> Nothing: the
	 * writer before it goes on. If it comes often: the client's timeout is shorter than a flush takes.
	 */
	if (memory_restore_writer(&lend->memory, displaced, why))
		log_client("%s: client %08" PRIx32 " may resume", lend->name, ID_SHOWN(displaced));
	else
		/*
		 * message(keeper): the file of the identity cannot be written -> Look at the disk of that
		 * file. The writer before is refused until it is recorded, and asks again.
		 */
		log_client("%s: the writer before cannot be recorded again, which is tried again: %s",
			lend->name, why);
}

/* accepts the connection of a client, which then has the registration *mr; *mr is NULL in either case */
static bool
accept_client(struct keeper *k, struct rpma_conn_req **req, struct client *client, struct rpma_mr_local **mr,
	const struct keeper_reply *reply, char why[static WHY_MAX])
{
	uint8_t bytes[KEEPER_REPLY_MAX];
	const struct rpma_conn_private_data pdata = { bytes, (uint8_t)keeper_reply_encode(reply, bytes) };

	if (rpma_conn_req_connect(req, &pdata, &client->conn)) {
		(void)rpma_mr_dereg(mr);
		give_back(client->lend, client->displaced);
		return why_rpma(why, "accepting the connection");
	}
	client->mr = *mr;
	*mr = NULL;
	client->since = time(NULL);
	client->established = false;
	k->client_count++;
	if (client->writes)
		client->lend->holder = client;
	else
		client->lend->readers++;
	client->lend->granted++;
	k->changed = true;
	if (keeper_watch_client(k, client))
		return true;
	(void)lending_end(k, client, "its connection cannot be watched");
	return why_say(why, "its connection cannot be watched");
}

static struct lease
lease_of(const struct lend *lend)
{
	return (struct lease){
		.writable = !lend->read_only,
		.failed = lend->memory.identity.failed,
		.unrevoked = lend->unrevoked,
		.held = lend->holder,
		.settled = lend->holder && lend->holder->displaced == 0,
		.last_writer = lend->memory.identity.last_writer,
	};
}

/* takes the memory from its holder for the next client; *reason is set with false only */
static bool
revoke_holder(struct keeper *k, struct lend *lend, enum keeper_reason *reason)
{
	const bool revoked = lending_end(k, lend->holder, "its access is revoked for the next client");

	lend->revoked += revoked;
	/* its last flush may have shown that the medium has failed */
	if (revoked && !lend->memory.identity.failed)
		return true;
	*reason = revoked ? KEEPER_REFUSED_MEDIUM : KEEPER_REFUSED_FAILURE;
	return false;
}

/* grants what lease_decide has allowed */
static void
grant(struct keeper *k, struct rpma_conn_req **req, struct lend *lend, const struct keeper_request *request)
{
	const bool for_writing = request->want & KEEPER_WANT_WRITE;
	const struct lease lease = lease_of(lend);
	enum keeper_reason reason = KEEPER_REFUSED_FAILURE;
	struct rpma_mr_local *mr = NULL;
	struct keeper_reply reply = { 0 };
	char why[WHY_MAX];

	/* a holder that loses its access makes room, and one that resumes has a place that is kept for it */
	const bool replaces = for_writing && lend->holder;
	const bool has_room =
		replaces || (request->want & KEEPER_WANT_RESUME) || k->client_count < k->options->clients_max;
	struct client *place = free_place(k);
	if (place == NULL || !has_room) {
		refuse(k, req, lend, request, KEEPER_REFUSED_FULL);
		return;
	}
	if (!register_memory(k, lend, for_writing, &mr, &reply, why)) {
		log_stranger("%s: %s", lend->name, why);
		refuse(k, req, lend, request, KEEPER_REFUSED_FAILURE);
		return;
	}
	if (for_writing && !is_durable_as_promised(k, lend, &reply)) {
		(void)rpma_mr_dereg(&mr);
		refuse(k, req, lend, request, KEEPER_REFUSED_MEDIUM);
		return;
	}
	const bool changes_writer = lease_changes_writer(&lease, request);
	const bool recorded = changes_writer ? memory_record_writer(&lend->memory, request->client, why)
					     : !for_writing || memory_record_again(&lend->memory, why);
	if (!recorded) {
		(void)rpma_mr_dereg(&mr);
		/*
		 * message(keeper): the file of the identity cannot be written, or its directory cannot be
		 * synced: the request is refused -> Look at the disk of that file. The keeper tries again.
		 */
		log_client("%s: the new writer cannot be recorded: %s", lend->name, why);
		refuse(k, req, lend, request, KEEPER_REFUSED_FAILURE);
		return;
	}
	if (replaces && !revoke_holder(k, lend, &reason)) {
		(void)rpma_mr_dereg(&mr);
		if (changes_writer)
			give_back(lend, lease.last_writer);
		refuse(k, req, lend, request, reason);
		return;
	}

	fill_reply(k, lend, for_writing, &reply);
	*place = (struct client){ .lend = lend,
		.id = request->client,
		.displaced = changes_writer ? lease.last_writer : 0,
		.writes = for_writing };
	if (accept_client(k, req, place, &mr, &reply, why))
		log_client("%s: lent to client %08" PRIx32 " for %s", lend->name, ID_SHOWN(request->client),
			for_writing ? "writing" : "reading");
	else
		log_stranger("%s: client %08" PRIx32 ": %s", lend->name, ID_SHOWN(request->client), why);
}

static void
handle_request(struct keeper *k, struct rpma_conn_req **req)
{
	struct rpma_conn_private_data pdata = { NULL, 0 };
	struct keeper_request request;
	enum keeper_reason reason;
	char sentence[WHY_MAX];

	(void)rpma_conn_req_get_private_data(*req, &pdata);
	switch (keeper_request_decode(pdata.ptr, pdata.len, &request)) {
	case KEEPER_MALFORMED:
		log_stranger("a request is refused: it is not from a client of rpma-keeper");
		reject(req, KEEPER_REFUSED_REQUEST, "this is rpma-keeper, and the request is not for one");
		return;
	case KEEPER_OTHER_VERSION:
		log_stranger("a request is refused: it is of another version of the protocol");
		snprintf(sentence, sizeof(sentence), "this keeper has version %d of the protocol",
			KEEPER_VERSION);
		reject(req, KEEPER_REFUSED_VERSION, sentence);
		return;
	case KEEPER_DECODED:
		break;
	}

	struct lend *lend = find_lend(k, request.name);
	if (lend == NULL) {
		refuse(k, req, NULL, &request, KEEPER_REFUSED_NAME);
		return;
	}
	/* the places of clients that have just gone are free */
	if (lend->holder)
		lending_client_event(k, lend->holder);
	if (k->client_count >= k->options->clients_max)
		for (int i = 0; i < KEEPER_PLACES(k->options); i++)
			lending_client_event(k, &k->clients[i]);
	struct lease lease = lease_of(lend);
	enum lease_verdict verdict = lease_decide(&lease, &request, &reason);
	if (verdict != LEASE_REFUSE && (request.want & KEEPER_WANT_WRITE)) {
		/* on record before anyone gets the memory or an answer */
		lending_look_at_medium(k, lend);
		lease = lease_of(lend);
		verdict = lease_decide(&lease, &request, &reason);
	}
	if (verdict == LEASE_REFUSE)
		refuse(k, req, lend, &request, reason);
	else
		grant(k, req, lend, &request);
}

bool
lending_next_request(struct keeper *k)
{
	struct rpma_conn_req *req = NULL;

	int ret = rpma_ep_next_conn_req(k->ep, k->conn_cfg, &req);
	if (ret == RPMA_E_NO_EVENT)
		return true;
	if (ret) {
		log_stranger("the next request cannot be taken: %s", rpma_errormsg());
		return false;
	}
	handle_request(k, &req);
	assert(req == NULL);
	return true;
}

/* --- ending --- */

bool
lending_end(struct keeper *k, struct client *client, const char *because)
{
	struct lend *lend = client->lend;

	/* the connection first, so that what the client still sends does not count as a guess of a key */
	if (rpma_conn_delete(&client->conn))
		log_line("%s: deleting a connection: %s", lend->name, rpma_errormsg());
	/* after this the keys are void, and no write or flush of the client is still running */
	const bool revoked = rpma_mr_dereg(&client->mr) == 0;
	if (!revoked)
		log_line("%s: deregistering: %s", lend->name, rpma_errormsg());
	const bool wrote = client->writes;
	if (wrote)
		lend->holder = NULL;
	else
		lend->readers--;
	log_client("%s: client %08" PRIx32 " has ended: %s", lend->name, ID_SHOWN(client->id), because);
	*client = (struct client){ .conn = NULL };
	k->client_count--;
	k->changed = true;
	/* a flush that failed may be why it has ended */
	if (wrote)
		lending_look_at_medium(k, lend);
	if (wrote && !revoked) {
		lend->unrevoked = true;
		/* message(not-revoked) */
		log_line(
			"%s: the access of that client may not be revoked: no other client gets the memory for writing before "
			"the keeper is started again",
			lend->name);
	}
	return revoked;
}

void
lending_client_event(struct keeper *k, struct client *client)
{
	enum rpma_conn_event event;

	/* it is established once, and any other event ends it */
	while (client->conn) {
		int ret = rpma_conn_next_event(client->conn, &event);
		if (ret == RPMA_E_NO_EVENT)
			return;
		if (ret || event != RPMA_CONN_ESTABLISHED) {
			struct lend *lend = client->lend;
			/*
			 * The software device tells that it is established before it serves its operations. Over hardware,
			 * writes may arrive before that, and after a timeout the connection may still be made.
			 */
			const bool had_nothing = ret == 0 && event == RPMA_CONN_LOST && keeper_is_soft(k);
			const uint64_t displaced = had_nothing ? client->displaced : 0;
			(void)lending_end(k, client,
				ret ? rpma_err_2str(ret) : rpma_utils_conn_event_2str(event));
			give_back(lend, displaced);
			return;
		}
		client->established = true;
		client->displaced = 0;
		k->changed = true;
	}
}

void
lending_settle(struct keeper *k)
{
	const int64_t end_ms = keeper_now_ms() + SETTLE_MS;

	for (int i = 0; i < KEEPER_PLACES(k->options); i++) {
		struct client *client = &k->clients[i];
		struct pollfd fd = { .fd = -1, .events = POLLIN };
		if (client->conn == NULL || client->displaced == 0)
			continue;
		const int64_t left_ms = end_ms - keeper_now_ms();
		(void)rpma_conn_get_event_fd(client->conn, &fd.fd);
		(void)poll(&fd, 1, left_ms > 0 ? (int)left_ms : 0);
		/* that it is established, or that it will never be */
		lending_client_event(k, client);
	}
}
