/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * qp_connect.c -- connects queue pairs that are connected by hand: ibv_modify_qp() instead of the
 * connection manager
 */

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/pause.h"
#include "softrdma/base/sockaddr.h"
#include "softrdma/cm/handshake.h"
#include "softrdma/cm/active.h"
#include "softrdma/cm/pending.h"
#include "softrdma/cm/qp_connect.h"
#include "softrdma/cm/qp_listener.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/engine.h"
#include "softrdma/wire/cm_msg.h"
#include "softrdma/wire/stream.h"

#define BUCKETS 1024

enum role {
	AWAITING_JOIN, /* incoming: JOIN is not complete yet; TLS comes first. 0: the role of a new one */
	WAITING,       /* incoming: for a queue pair that is not ready yet */
	OUTGOING,      /* connects, sends JOIN and reads the reply (active.h) */
};

/* pending.msg is the JOIN of an outgoing attempt until it is sent, then what has been received */
struct softrdma_qp_attempt {
	struct softrdma_pending pending; /* first */
	enum role role;
	struct softrdma_qp_connect *qpc; /* AWAITING_JOIN: NULL */
	bool to_itself;                  /* the socket is its own peer, as the queue pair is */
	struct softrdma_join join;       /* WAITING: what the peer sent */
};
static_assert(offsetof(struct softrdma_qp_attempt, pending) == 0, "pending.c knows the first member only");

/* limits for the lines that strangers can cause */
static struct softrdma_log_limit not_known = SOFTRDMA_LOG_LIMIT;
static struct softrdma_log_limit connected_already = SOFTRDMA_LOG_LIMIT;
static struct softrdma_log_limit given_up = SOFTRDMA_LOG_LIMIT;

/* guarded by the connection manager's lock, like everything here */
static struct softrdma_qp_connect *qpcs[BUCKETS];
static unsigned pauses; /* number of attempts that are planned */

static void
after_fork(void)
{
	for (int i = 0; i < BUCKETS; i++)
		qpcs[i] = NULL; /* not kept: the application still refers to these objects */
	pauses = 0;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

static void progress(struct softrdma_pending *pending, uint32_t events);
static void expired(struct softrdma_pending *pending);
static void forget(struct softrdma_pending *pending);
static bool connected(struct softrdma_pending *pending);
static struct softrdma_credentials *credentials_of_attempt(const struct softrdma_pending *pending);
static void replied(struct softrdma_pending *pending);
static void step_failed(struct softrdma_pending *pending, enum softrdma_active_failure failure, int errnum);
static void look_at_pauses(uint64_t now_ns);
static void leave_listener(struct softrdma_qp_connect *qpc);
static void go_on(struct softrdma_qp_connect *qpc);

static const struct softrdma_active_ops active_ops = {
	.connected = connected,
	.credentials = credentials_of_attempt,
	.replied = replied,
	.failed = step_failed,
};

static const struct softrdma_pending_kind kind = {
	.size = sizeof(struct softrdma_qp_attempt),
	.progress = progress,
	.expired = expired,
	.forget = forget,
	.active = &active_ops,
};

static struct softrdma_qp_connect **
bucket_of(uint32_t qp_num)
{
	return &qpcs[qp_num % BUCKETS];
}

struct softrdma_qp_connect *
softrdma_qp_connect_find(uint32_t qp_num)
{
	struct softrdma_qp_connect *qpc = *bucket_of(qp_num);
	while (qpc && qpc->qp->qp.qp_num != qp_num)
		qpc = qpc->next;
	return qpc;
}

/* takes the same time whatever differs, so that a peer cannot guess byte by byte */
static bool
same_gid(const uint8_t *left, const uint8_t *right)
{
	uint8_t difference = 0;
	for (int i = 0; i < SOFTRDMA_GID_SIZE; i++)
		difference |= left[i] ^ right[i];
	return difference == 0;
}

/* --- attempts: pending (half-open) connections between queue pairs --- */

static void
forget(struct softrdma_pending *pending)
{
	const struct softrdma_qp_attempt *attempt = (struct softrdma_qp_attempt *)pending;
	if (attempt->qpc && attempt->qpc->outgoing == attempt)
		attempt->qpc->outgoing = NULL;
	if (attempt->qpc && attempt->qpc->incoming == attempt)
		attempt->qpc->incoming = NULL;
}

static void
end(struct softrdma_qp_attempt *attempt)
{
	softrdma_pending_end(&attempt->pending);
}

static void
reject(struct softrdma_qp_attempt *attempt, enum softrdma_reject_reason reason)
{
	softrdma_pending_turn_away(&attempt->pending, reason);
}

/* --- the connection --- */

static void
link_ready(struct softrdma_link *link, void *arg)
{
	(void)arg;
	if (link->state == SOFTRDMA_LINK_UP)
		softrdma_connection_deadline(link, 0);
}

static void
link_disconnected(struct softrdma_link *link, void *arg)
{
	(void)link;
	(void)arg; /* the application learns it from its requests */
}

static const struct softrdma_link_ops link_ops = {
	.ready = link_ready,
	.disconnected = link_disconnected,
};

/*
 * The socket becomes the link's, what has been posted leaves, and this queue pair no longer listens. Of a queue pair that
 * is its own peer, the same link sends READY and awaits it.
 */
static void
establish(struct softrdma_qp_connect *qpc, struct softrdma_qp_attempt *attempt, bool active, bool records)
{
	struct softrdma_link *link = qpc->qp->link;
	const bool awaits_ready = !active || attempt->to_itself;
	struct softrdma_tls *tls;
	int fd = softrdma_pending_end_but_socket(&attempt->pending, &tls);
	qpc->state = SOFTRDMA_QP_CONNECT_CONNECTED;
	pthread_mutex_lock(&link->lock);
	softrdma_link_open(link);
	link->ready_due = active;
	link->awaits_ready = awaits_ready;
	link->ops = &link_ops;
	int ret = softrdma_connection_attach(link, fd, tls, records);
	if (ret) {
		/* message(given-up) */
		SOFTRDMA_LOG_FEW(&given_up, ERROR, "a connection is given up: %s", strerror(ret));
		softrdma_link_lost(link);
	} else if (!active) {
		softrdma_connection_deadline(link, SOFTRDMA_HANDSHAKE_TIMEOUT_MS);
	}
	softrdma_connection_send(link);
	pthread_mutex_unlock(&link->lock);
	leave_listener(qpc);
}

/*
 * writes the message for the peer: all that the application has set, and this side's first sequence number
 * in RTS
 */
static void
fill_handshake(const struct softrdma_qp_connect *qpc, enum softrdma_handshake_type type,
	struct softrdma_cm_msg *msg)
{
	const struct ibv_qp_attr *attr = &qpc->attr;
	struct softrdma_handshake hs = {
		.type = (uint8_t)type,
		.qp_num = qpc->qp->qp.qp_num,
		.seq = qpc->state == SOFTRDMA_QP_CONNECT_CONNECTING ? attr->sq_psn : 0,
		.responder_resources = attr->max_dest_rd_atomic,
		.initiator_depth = attr->max_rd_atomic,
		.rnr_retry = attr->rnr_retry,
	};
	struct softrdma_join join = { .dst_qp_num = attr->dest_qp_num, .expected = attr->rq_psn };
	memcpy(join.dst_gid, attr->ah_attr.grh.dgid.raw, sizeof(join.dst_gid));
	memcpy(join.src_gid, qpc->gid.raw, sizeof(join.src_gid));
	uint8_t bytes[SOFTRDMA_JOIN_SIZE];
	softrdma_join_encode(&join, bytes);
	softrdma_cm_msg_encode(msg, &hs, bytes, sizeof(bytes));
}

/* true if the message comes from the queue pair that the application has named, and is meant for this one */
static bool
is_expected(const struct softrdma_qp_connect *qpc, const struct softrdma_handshake *hs,
	const struct softrdma_join *join)
{
	bool calling = qpc->state == SOFTRDMA_QP_CONNECT_CONNECTING;
	bool knows_us = join->dst_qp_num == qpc->qp->qp.qp_num && same_gid(join->dst_gid, qpc->gid.raw) &&
		(!calling || join->expected == qpc->attr.sq_psn);
	bool is_known = hs->qp_num == qpc->attr.dest_qp_num &&
		same_gid(join->src_gid, qpc->attr.ah_attr.grh.dgid.raw);
	return knows_us && is_known;
}

/* --- outgoing attempts --- */

static void
plan_attempt(struct softrdma_qp_connect *qpc, unsigned ms)
{
	pauses += (unsigned)((ms != 0) - softrdma_timer_is_set(&qpc->next_attempt));
	softrdma_timer_set_ms(&qpc->next_attempt, ms);
	softrdma_engine_at_beat(SOFTRDMA_BEAT_DEADLINES, look_at_pauses);
}

/* tries again later: the peer may not be as far as this side, and requests have a deadline of their own */
static void
attempt_failed(struct softrdma_qp_connect *qpc, const char *why)
{
	char name[SOFTRDMA_NAME_SIZE];
	union softrdma_address peer;
	softrdma_gid_locate(&qpc->attr.ah_attr.grh.dgid, qpc->attr.dest_qp_num, &peer);
	SOFTRDMA_LOG(DEBUG, "the peer of a queue pair, at %s, %s",
		softrdma_address_name(&peer.any, name, sizeof(name)), why);
	if (!qpc->told && qpc->pause_ms >= SOFTRDMA_PAUSE_MAX_MS) {
		qpc->told = true;
		/*
		 * message(preload): a program that connects queue pairs itself; the other one is not there
		 * yet -> Start the other program. The reason is in the line.
		 */
		SOFTRDMA_LOG(WARNING, "the peer of a queue pair, at %s, %s; it is tried again",
			softrdma_address_name(&peer.any, name, sizeof(name)), why);
	}
	plan_attempt(qpc, qpc->pause_ms);
	qpc->pause_ms =
		(unsigned)softrdma_pause_next(qpc->pause_ms, SOFTRDMA_PAUSE_MIN_MS, SOFTRDMA_PAUSE_MAX_MS);
}

static void
outgoing_failed(struct softrdma_qp_attempt *attempt, const char *why)
{
	struct softrdma_qp_connect *qpc = attempt->qpc;
	end(attempt);
	attempt_failed(qpc, why);
	go_on(qpc); /* an attempt of the peer may be waiting */
}

/* makes a socket that is bound to this side's address; 0 or an errno value */
static int
socket_of_attempt(const struct softrdma_qp_connect *qpc, union softrdma_address *own, int *fd_ptr)
{
	softrdma_gid_locate(&qpc->gid, qpc->qp->qp.qp_num, own);
	if (own->any.sa_family == AF_INET6)
		own->in6.sin6_port = 0;
	else
		own->in.sin_port = 0;
	return softrdma_handshake_bind(&own->any, SOFTRDMA_FAMILY_DEFAULT, fd_ptr);
}

static int
start_attempt(struct softrdma_qp_connect *qpc)
{
	const struct ibv_qp_attr *attr = &qpc->attr;
	union softrdma_address own, peer;
	int fd;
	int ret = socket_of_attempt(qpc, &own, &fd);
	if (ret)
		return ret;
	bool to_itself =
		attr->dest_qp_num == qpc->qp->qp.qp_num && same_gid(attr->ah_attr.grh.dgid.raw, qpc->gid.raw);
	if (to_itself)
		peer = own; /* one socket connects to itself: TCP's simultaneous open */
	else
		softrdma_gid_locate(&attr->ah_attr.grh.dgid, attr->dest_qp_num, &peer);
	ret = softrdma_active_connect(fd, &peer.any);
	if (ret) {
		softrdma_fork_close(fd);
		return ret;
	}
	struct softrdma_pending *pending = softrdma_active_new(&kind, fd, &ret);
	if (pending == NULL)
		return ret;
	struct softrdma_qp_attempt *attempt = (struct softrdma_qp_attempt *)pending;
	attempt->role = OUTGOING;
	attempt->qpc = qpc;
	attempt->to_itself = to_itself;
	qpc->outgoing = attempt;
	fill_handshake(qpc, SOFTRDMA_HANDSHAKE_JOIN, &attempt->pending.msg);
	return 0;
}

static bool
connected(struct softrdma_pending *pending)
{
	struct softrdma_qp_attempt *attempt = (struct softrdma_qp_attempt *)pending;
	if (!attempt->to_itself)
		return true;
	/* both ends are this side, so no message agrees on records: its own wish decides */
	const bool records = softrdma_cm_msg_wish(pending->fd, NULL) & SOFTRDMA_RECORDS_WANTED;
	establish(attempt->qpc, attempt, true, records);
	return false;
}

static struct softrdma_credentials *
credentials_of_attempt(const struct softrdma_pending *pending)
{
	const struct softrdma_qp_attempt *attempt = (const struct softrdma_qp_attempt *)pending;
	return attempt->qpc->listener->credentials;
}

static const char *
why_it_ended(const struct softrdma_pending *pending)
{
	bool told = pending->tls && *softrdma_tls_why(pending->tls);
	/*
	 * message(preload, why-tried-again): the reasons why a queue pair is tried again -> *does not know
	 * this queue pair*: the programs have exchanged wrong numbers or GIDs.
	 */
	return told ? softrdma_tls_why(pending->tls) : "has closed the connection";
}

static void
step_failed(struct softrdma_pending *pending, enum softrdma_active_failure failure, int errnum)
{
	struct softrdma_qp_attempt *attempt = (struct softrdma_qp_attempt *)pending;
	switch (failure) {
	case SOFTRDMA_ACTIVE_NOT_CONNECTED:
	case SOFTRDMA_ACTIVE_NOT_SENT:
		outgoing_failed(attempt, strerror(errnum));
		return;
	case SOFTRDMA_ACTIVE_NO_TLS:
		outgoing_failed(attempt, "does not use TLS, as this side must");
		return;
	case SOFTRDMA_ACTIVE_NOT_TRUSTED:
	case SOFTRDMA_ACTIVE_ENDED:
		outgoing_failed(attempt, why_it_ended(pending));
		return;
	case SOFTRDMA_ACTIVE_NOT_OURS:
	case SOFTRDMA_ACTIVE_OTHER_VERSION:
		/* message(why-tried-again) */
		outgoing_failed(attempt, "does not speak this version of the protocol");
		return;
	case SOFTRDMA_ACTIVE_DAMAGED:
		outgoing_failed(attempt, "has sent a reply that was damaged on its way (CRC32C)");
		return;
	}
}

/* true if the peer's queue pair accepts this one */
static bool
is_acceptance(const struct softrdma_qp_connect *qpc, const struct softrdma_cm_msg *msg)
{
	struct softrdma_join join;
	return msg->peer.type == SOFTRDMA_HANDSHAKE_ACCEPT &&
		softrdma_join_decode(msg->bytes + SOFTRDMA_HANDSHAKE_SIZE, msg->peer.private_len, &join) &&
		is_expected(qpc, &msg->peer, &join);
}

static void
replied(struct softrdma_pending *pending)
{
	struct softrdma_qp_attempt *attempt = (struct softrdma_qp_attempt *)pending;
	const struct softrdma_handshake *peer = &pending->msg.peer;
	if (is_acceptance(attempt->qpc, &pending->msg))
		establish(attempt->qpc, attempt, true, peer->records);
	else if (peer->reason == SOFTRDMA_REJECT_DAMAGED)
		/* message(why-tried-again) */
		outgoing_failed(attempt, "got a request that was damaged on its way (CRC32C)");
	else if (peer->reason == SOFTRDMA_REJECT_PLAIN)
		outgoing_failed(attempt, "speaks TLS only, and this side has no credentials for it");
	else
		/* message(why-tried-again) */
		outgoing_failed(attempt, "does not know this queue pair");
}

/* --- incoming attempts --- */

/* true if this side's attempt is to succeed when both sides make one */
static bool
outgoing_goes_first(const struct softrdma_qp_connect *qpc)
{
	if (qpc->qp->qp.qp_num != qpc->attr.dest_qp_num)
		return qpc->qp->qp.qp_num < qpc->attr.dest_qp_num;
	return memcmp(qpc->gid.raw, qpc->attr.ah_attr.grh.dgid.raw, SOFTRDMA_GID_SIZE) < 0;
}

/* true if the peer has gone: until it is accepted, it sends nothing more but the end of the stream */
static bool
has_left(const struct softrdma_qp_attempt *incoming)
{
	char byte;
	ssize_t n = softrdma_stream_peek(incoming->pending.fd, incoming->pending.tls, &byte);
	return n >= 0 || errno != EAGAIN;
}

static void
accept_incoming(struct softrdma_qp_connect *qpc, struct softrdma_qp_attempt *incoming)
{
	struct softrdma_cm_msg reply;
	fill_handshake(qpc, SOFTRDMA_HANDSHAKE_ACCEPT, &reply);
	const bool records =
		softrdma_cm_msg_agree(softrdma_cm_msg_wish(incoming->pending.fd, incoming->pending.tls),
			incoming->pending.msg.peer.records);
	softrdma_cm_msg_set_records(&reply, records);
	if (softrdma_pending_is_shut_out(&incoming->pending) || has_left(incoming) ||
		softrdma_cm_msg_send(incoming->pending.fd, incoming->pending.tls, &reply) != 0) {
		end(incoming);
		return;
	}
	if (qpc->outgoing)
		end(qpc->outgoing);
	plan_attempt(qpc, 0);
	establish(qpc, incoming, false, records);
}

/* true if the queue pair has been told who its peer is */
static bool
knows_its_peer(const struct softrdma_qp_connect *qpc)
{
	return qpc->state == SOFTRDMA_QP_CONNECT_ACCEPTING || qpc->state == SOFTRDMA_QP_CONNECT_CONNECTING;
}

static bool
is_of_the_peer(const struct softrdma_qp_connect *qpc, const struct softrdma_qp_attempt *incoming)
{
	return is_expected(qpc, &incoming->pending.msg.peer, &incoming->join) &&
		incoming->pending.msg.peer.seq == qpc->attr.rq_psn;
}

static void
reject_unknown(const struct softrdma_qp_connect *qpc, struct softrdma_qp_attempt *incoming)
{
	/*
	 * message(preload, unknown-queue-pair): the numbers or GIDs that the programs exchanged do not fit
	 * -> Correct them.
	 */
	SOFTRDMA_LOG_FEW(&not_known, WARNING,
		"a queue pair in %s got a connection attempt from one that it does not know: rejected",
		qpc->state == SOFTRDMA_QP_CONNECT_CONNECTING ? "RTS" : "RTR");
	reject(incoming, SOFTRDMA_REJECT_NO_LISTENER);
}

/* the waiting attempt of the peer is accepted, rejected, or waits until the outgoing attempt has ended */
static void
handle_incoming(struct softrdma_qp_connect *qpc)
{
	struct softrdma_qp_attempt *incoming = qpc->incoming;
	bool both_have_joined =
		qpc->outgoing && qpc->outgoing->pending.step == SOFTRDMA_ACTIVE_AWAITING_REPLY;
	if (!is_of_the_peer(qpc, incoming))
		reject_unknown(qpc, incoming);
	else if (!both_have_joined || !outgoing_goes_first(qpc))
		accept_incoming(qpc, incoming);
}

/* takes the next step after a change: ends, handles the incoming attempt, or starts an outgoing one */
static void
go_on(struct softrdma_qp_connect *qpc)
{
	if (atomic_load_explicit(&qpc->qp->link->failed, memory_order_acquire))
		softrdma_qp_connect_end(qpc, SOFTRDMA_QP_CONNECT_FAILED);
	if (knows_its_peer(qpc) && qpc->incoming)
		handle_incoming(qpc);
	if (qpc->state == SOFTRDMA_QP_CONNECT_CONNECTING && qpc->outgoing == NULL &&
		!softrdma_timer_is_set(&qpc->next_attempt)) {
		int ret = start_attempt(qpc);
		if (ret)
			attempt_failed(qpc, strerror(ret));
	}
}

/*
 * If both sides make an attempt, one is accepted, and the other may arrive after it, which needs no warning.
 * Any other unexpected attempt does.
 */
static void
log_refused(const struct softrdma_qp_attempt *attempt, const struct softrdma_qp_connect *qpc)
{
	char name[SOFTRDMA_NAME_SIZE];
	softrdma_peer_name(attempt->pending.fd, name, sizeof(name));
	if (qpc && qpc->state == SOFTRDMA_QP_CONNECT_CONNECTED &&
		is_expected(qpc, &attempt->pending.msg.peer, &attempt->join))
		SOFTRDMA_LOG_FEW(&connected_already, INFO,
			"%s tried to connect to a queue pair that is connected to it already: rejected",
			name);
	else
		/* message(unknown-queue-pair) */
		SOFTRDMA_LOG_FEW(&not_known, WARNING,
			"%s tried to connect to a queue pair that does not wait for it: rejected", name);
}

/* JOIN is complete: finds the queue pair that it is for */
static void
join_complete(struct softrdma_qp_attempt *attempt)
{
	struct softrdma_qp_connect *qpc = softrdma_qp_connect_find(attempt->join.dst_qp_num);
	const struct softrdma_qp_listener *listener = softrdma_listener_owner(attempt->pending.listener);
	bool refused = qpc == NULL || !same_gid(attempt->join.dst_gid, listener->gid.raw) ||
		qpc->state == SOFTRDMA_QP_CONNECT_CONNECTED || qpc->state == SOFTRDMA_QP_CONNECT_FAILED;
	if (refused) {
		log_refused(attempt, qpc);
		reject(attempt, SOFTRDMA_REJECT_NO_LISTENER);
		return;
	}
	if (knows_its_peer(qpc) && !is_of_the_peer(qpc, attempt)) {
		reject_unknown(qpc, attempt); /* and the attempt of the peer goes on waiting */
		return;
	}
	if (qpc->incoming)
		end(qpc->incoming); /* of the same peer, which tries again */
	softrdma_pending_heard(&attempt->pending);
	attempt->role = WAITING;
	attempt->qpc = qpc;
	qpc->incoming = attempt;
	softrdma_timer_set_ms(&attempt->pending.deadline, SOFTRDMA_CONNECT_TIMEOUT_MS);
	if (has_left(attempt)) /* no edge reports what came together with JOIN */
		end(attempt);
	else
		go_on(qpc);
}

static void
read_join(struct softrdma_qp_attempt *attempt)
{
	const struct softrdma_cm_msg *msg = &attempt->pending.msg;
	if (!softrdma_pending_read(&attempt->pending))
		return;
	if (msg->peer.type == SOFTRDMA_HANDSHAKE_JOIN &&
		softrdma_join_decode(msg->bytes + SOFTRDMA_HANDSHAKE_SIZE, msg->peer.private_len,
			&attempt->join))
		join_complete(attempt);
	else
		softrdma_pending_not_understood(&attempt->pending);
}

/* the queue pair no longer expects its peer: the last one that uses the listener closes it */
static void
leave_listener(struct softrdma_qp_connect *qpc)
{
	struct softrdma_qp_listener *listener = qpc->listener;
	qpc->listener = NULL;
	if (listener)
		softrdma_qp_listener_put(listener);
}

/* --- what queue pairs want --- */

void
softrdma_qp_connect_add(struct softrdma_qp_connect *qpc)
{
	struct softrdma_qp_connect **bucket = bucket_of(qpc->qp->qp.qp_num);
	qpc->next = *bucket;
	*bucket = qpc;
}

void
softrdma_qp_connect_remove(struct softrdma_qp_connect *qpc)
{
	softrdma_qp_connect_end(qpc, SOFTRDMA_QP_CONNECT_FAILED);
	struct softrdma_qp_connect **at = bucket_of(qpc->qp->qp.qp_num);
	while (*at != qpc)
		at = &(*at)->next;
	*at = qpc->next;
}

int
softrdma_qp_connect_listen(struct softrdma_qp_connect *qpc)
{
	assert(qpc->state == SOFTRDMA_QP_CONNECT_IDLE);
	int ret = softrdma_gid_get(qpc->attr.ah_attr.grh.sgid_index, &qpc->gid);
	return ret ? ret : softrdma_qp_listener_get(&kind, &qpc->gid, qpc->qp->qp.qp_num, &qpc->listener);
}

void
softrdma_qp_connect_accept(struct softrdma_qp_connect *qpc)
{
	qpc->state = SOFTRDMA_QP_CONNECT_ACCEPTING;
	qpc->pause_ms = SOFTRDMA_PAUSE_MIN_MS;
	qpc->told = false;
	go_on(qpc);
}

void
softrdma_qp_connect_start(struct softrdma_qp_connect *qpc)
{
	if (qpc->state == SOFTRDMA_QP_CONNECT_ACCEPTING)
		qpc->state = SOFTRDMA_QP_CONNECT_CONNECTING;
	go_on(qpc);
}

void
softrdma_qp_connect_end(struct softrdma_qp_connect *qpc, enum softrdma_qp_connect_state state)
{
	if (qpc->outgoing)
		end(qpc->outgoing);
	if (qpc->incoming)
		reject(qpc->incoming, SOFTRDMA_REJECT_NO_LISTENER);
	plan_attempt(qpc, 0);
	leave_listener(qpc);
	qpc->state = state;
}

/* --- the progress thread --- */

static void
progress(struct softrdma_pending *pending, uint32_t events)
{
	struct softrdma_qp_attempt *attempt = (struct softrdma_qp_attempt *)pending;
	switch (attempt->role) {
	case AWAITING_JOIN:
		read_join(attempt);
		break;
	case WAITING:
		if (has_left(attempt))
			end(attempt);
		break;
	case OUTGOING:
		softrdma_active_progress(pending, events);
		break;
	}
}

static void
expired(struct softrdma_pending *pending)
{
	struct softrdma_qp_attempt *attempt = (struct softrdma_qp_attempt *)pending;
	if (attempt->role == WAITING)
		end(attempt);
	else
		/* message(why-tried-again) */
		outgoing_failed(attempt, "did not respond in time");
}

static void
look_at_pauses(uint64_t now_ns)
{
	softrdma_cm_lock();
	for (int i = 0; i < BUCKETS && pauses > 0; i++) {
		for (struct softrdma_qp_connect *qpc = qpcs[i]; qpc; qpc = qpc->next) {
			if (softrdma_timer_has_expired(&qpc->next_attempt, now_ns)) {
				plan_attempt(qpc, 0);
				go_on(qpc);
			}
		}
	}
	softrdma_cm_unlock();
}
