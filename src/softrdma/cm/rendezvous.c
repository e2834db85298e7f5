/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* rendezvous.c -- connects queue pairs that are connected by hand: ibv_modify_qp() instead of the connection manager */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/cm/handshake.h"
#include "softrdma/cm/pending.h"
#include "softrdma/cm/qp_listener.h"
#include "softrdma/cm/rendezvous.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/engine.h"
#include "softrdma/wire/credentials.h"
#include "softrdma/wire/hello.h"
#include "softrdma/wire/stream.h"

#define BUCKETS 1024

enum role {
	AT_THE_DOOR,     /* incoming: JOIN is not complete yet; TLS comes first. 0: the role of a new one */
	WAITING,         /* incoming: the guest of a queue pair that is not ready yet */
	CONNECTING,      /* own call: the socket is not connected yet */
	SECURING,        /* own call: TLS is being agreed on */
	AWAITING_ANSWER, /* own call: JOIN is sent */
};

/* pending.hello is JOIN to be sent until this side's call has sent it, else what has been received */
struct softrdma_caller {
	struct softrdma_pending pending; /* first */
	enum role role;
	struct softrdma_rendezvous *meet; /* AT_THE_DOOR: NULL */
	bool to_itself;                   /* the socket is its own peer, as the queue pair is */
	struct softrdma_join join;        /* WAITING: what the peer sent */
};

/* limits for the lines that strangers can cause */
static struct softrdma_log_limit not_known = SOFTRDMA_LOG_LIMIT;
static struct softrdma_log_limit met_already = SOFTRDMA_LOG_LIMIT;
static struct softrdma_log_limit given_up = SOFTRDMA_LOG_LIMIT;

/* guarded by the connection manager's lock, like everything here */
static struct softrdma_rendezvous *meets[BUCKETS];
static unsigned pauses; /* number of calls that are planned */

void
softrdma_rendezvous_after_fork(void)
{
	for (int i = 0; i < BUCKETS; i++)
		meets[i] = NULL; /* not kept: the application still refers to these objects */
	pauses = 0;
}

static void progress(struct softrdma_pending *pending, uint32_t events);
static void expired(struct softrdma_pending *pending);
static void forget(struct softrdma_pending *pending);
static void look_at_pauses(uint64_t now_ns);
static void leave_listener(struct softrdma_rendezvous *meet);
static void go_on(struct softrdma_rendezvous *meet);

static const struct softrdma_pending_kind kind = {
	.size = sizeof(struct softrdma_caller),
	.progress = progress,
	.expired = expired,
	.forget = forget,
};

static struct softrdma_rendezvous **
bucket_of(uint32_t qp_num)
{
	return &meets[qp_num % BUCKETS];
}

struct softrdma_rendezvous *
softrdma_rendezvous_find(uint32_t qp_num)
{
	struct softrdma_rendezvous *meet = *bucket_of(qp_num);
	while (meet && meet->qp->qp.qp_num != qp_num)
		meet = meet->next;
	return meet;
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

/* --- callers: pending (half-open) connections between queue pairs --- */

static void
forget(struct softrdma_pending *pending)
{
	const struct softrdma_caller *caller = (struct softrdma_caller *)pending;
	if (caller->meet && caller->meet->own_call == caller)
		caller->meet->own_call = NULL;
	if (caller->meet && caller->meet->guest == caller)
		caller->meet->guest = NULL;
}

static void
end(struct softrdma_caller *caller)
{
	softrdma_pending_end(&caller->pending);
}

static void
turn_away(struct softrdma_caller *caller, enum softrdma_reject_reason reason)
{
	softrdma_pending_turn_away(&caller->pending, reason);
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
 * The socket becomes the link's, what has been posted leaves, and this queue pair need no longer be called.
 */
static void
hand_over(struct softrdma_rendezvous *meet, struct softrdma_caller *caller, bool active, bool records)
{
	struct softrdma_link *link = meet->qp->link;
	struct softrdma_tls *tls;
	int fd = softrdma_pending_end_but_socket(&caller->pending, &tls);
	meet->state = SOFTRDMA_RENDEZVOUS_MET;
	pthread_mutex_lock(&link->lock);
	softrdma_link_open(link);
	link->ready_due = active;
	link->ops = &link_ops;
	int ret = softrdma_connection_attach(link, fd, tls, records);
	if (ret) {
		SOFTRDMA_LOG_FEW(&given_up, ERROR, "a connection is given up: %s", strerror(ret));
		softrdma_link_lost(link);
	} else if (!active) {
		softrdma_connection_deadline(link, SOFTRDMA_HANDSHAKE_TIMEOUT_MS);
	}
	softrdma_connection_send(link);
	pthread_mutex_unlock(&link->lock);
	leave_listener(meet);
}

/* writes the message for the peer: all that the application has set, and this side's first sequence number in RTS */
static void
introduce(const struct softrdma_rendezvous *meet, enum softrdma_handshake_type type,
	struct softrdma_hello *hello)
{
	const struct ibv_qp_attr *attr = &meet->attr;
	struct softrdma_handshake hs = {
		.type = (uint8_t)type,
		.qp_num = meet->qp->qp.qp_num,
		.seq = meet->state == SOFTRDMA_RENDEZVOUS_CALLING ? attr->sq_psn : 0,
		.responder_resources = attr->max_dest_rd_atomic,
		.initiator_depth = attr->max_rd_atomic,
		.rnr_retry = attr->rnr_retry,
	};
	struct softrdma_join join = { .dst_qp_num = attr->dest_qp_num, .expected = attr->rq_psn };
	memcpy(join.dst_gid, attr->ah_attr.grh.dgid.raw, sizeof(join.dst_gid));
	memcpy(join.src_gid, meet->gid.raw, sizeof(join.src_gid));
	uint8_t bytes[SOFTRDMA_JOIN_SIZE];
	softrdma_join_encode(&join, bytes);
	softrdma_hello_encode(hello, &hs, bytes, sizeof(bytes));
}

/* true if the message comes from the queue pair that the application has named, and is meant for this one */
static bool
is_expected(const struct softrdma_rendezvous *meet, const struct softrdma_handshake *hs,
	const struct softrdma_join *join)
{
	bool calling = meet->state == SOFTRDMA_RENDEZVOUS_CALLING;
	bool knows_us = join->dst_qp_num == meet->qp->qp.qp_num && same_gid(join->dst_gid, meet->gid.raw) &&
		(!calling || join->expected == meet->attr.sq_psn);
	bool is_known = hs->qp_num == meet->attr.dest_qp_num &&
		same_gid(join->src_gid, meet->attr.ah_attr.grh.dgid.raw);
	return knows_us && is_known;
}

/* --- calling --- */

static void
plan_call(struct softrdma_rendezvous *meet, unsigned ms)
{
	pauses += (unsigned)((ms != 0) - softrdma_timer_is_set(&meet->next_call));
	softrdma_timer_set_ms(&meet->next_call, ms);
	softrdma_engine_add_ticker(look_at_pauses);
}

/* tries again later: the peer may not be as far as this side, and requests have a deadline of their own */
static void
call_failed(struct softrdma_rendezvous *meet, const char *why)
{
	char name[SOFTRDMA_NAME_SIZE];
	union softrdma_address peer;
	softrdma_gid_locate(&meet->attr.ah_attr.grh.dgid, meet->attr.dest_qp_num, &peer);
	SOFTRDMA_LOG(DEBUG, "the peer of a queue pair, at %s, %s",
		softrdma_hello_name(&peer.any, name, sizeof(name)), why);
	if (!meet->told && meet->pause_ms >= SOFTRDMA_PAUSE_MAX_MS) {
		meet->told = true;
		SOFTRDMA_LOG(WARNING, "the peer of a queue pair, at %s, %s; it is tried again",
			softrdma_hello_name(&peer.any, name, sizeof(name)), why);
	}
	plan_call(meet, meet->pause_ms);
	meet->pause_ms =
		2 * meet->pause_ms < SOFTRDMA_PAUSE_MAX_MS ? 2 * meet->pause_ms : SOFTRDMA_PAUSE_MAX_MS;
}

static void
own_call_failed(struct softrdma_caller *caller, const char *why)
{
	struct softrdma_rendezvous *meet = caller->meet;
	end(caller);
	call_failed(meet, why);
	go_on(meet); /* a call of the peer may be waiting */
}

/* makes a socket that is bound to this side's address; 0 or an errno value */
static int
calling_socket(const struct softrdma_rendezvous *meet, union softrdma_address *own, int *fd_ptr)
{
	softrdma_gid_locate(&meet->gid, meet->qp->qp.qp_num, own);
	if (own->any.sa_family == AF_INET6)
		own->in6.sin6_port = 0;
	else
		own->in.sin_port = 0;
	return softrdma_handshake_bind(&own->any, fd_ptr);
}

static int
start_call(struct softrdma_rendezvous *meet)
{
	const struct ibv_qp_attr *attr = &meet->attr;
	union softrdma_address own, peer;
	int fd;
	int ret = calling_socket(meet, &own, &fd);
	if (ret)
		return ret;
	bool to_itself = attr->dest_qp_num == meet->qp->qp.qp_num &&
		same_gid(attr->ah_attr.grh.dgid.raw, meet->gid.raw);
	if (to_itself)
		peer = own; /* one socket connects to itself: TCP's simultaneous open */
	else
		softrdma_gid_locate(&attr->ah_attr.grh.dgid, attr->dest_qp_num, &peer);
	socklen_t len = peer.any.sa_family == AF_INET6 ? sizeof(peer.in6) : sizeof(peer.in);
	if (connect(fd, &peer.any, len) != 0 && errno != EINPROGRESS) {
		ret = errno;
		softrdma_fork_close(fd);
		return ret;
	}
	struct softrdma_pending *pending = softrdma_pending_new(&kind, fd, &ret);
	if (pending == NULL)
		return ret;
	struct softrdma_caller *caller = (struct softrdma_caller *)pending;
	softrdma_timer_set_ms(&pending->deadline, SOFTRDMA_PEER_TIMEOUT_MS);
	caller->role = CONNECTING;
	caller->meet = meet;
	caller->to_itself = to_itself;
	meet->own_call = caller;
	introduce(meet, SOFTRDMA_HANDSHAKE_JOIN, &caller->pending.hello);
	return 0;
}

static const char *
why_not_secure(const struct softrdma_caller *caller)
{
	bool told = caller->pending.tls && *softrdma_tls_why(caller->pending.tls);
	return told ? softrdma_tls_why(caller->pending.tls) : "has closed the connection";
}

/* sends JOIN on a stream that is ready for it */
static void
say_join(struct softrdma_caller *caller)
{
	int error = softrdma_hello_ask(caller->pending.fd, caller->pending.tls, &caller->pending.hello);
	if (error) {
		own_call_failed(caller, strerror(error));
		return;
	}
	caller->role = AWAITING_ANSWER;
	memset(&caller->pending.hello, 0, sizeof(caller->pending.hello));
	softrdma_timer_set_ms(&caller->pending.deadline, SOFTRDMA_CONNECT_TIMEOUT_MS);
}

/* goes on with the TLS handshake; a plain stream needs none */
static void
secure(struct softrdma_caller *caller)
{
	switch (softrdma_hello_secure(caller->pending.tls)) {
	case SOFTRDMA_HELLO_INCOMPLETE:
		return;
	case SOFTRDMA_HELLO_COMPLETE:
		say_join(caller);
		return;
	case SOFTRDMA_HELLO_NOT_OURS:
		own_call_failed(caller, "does not use TLS, as this side must");
		return;
	default:
		own_call_failed(caller, why_not_secure(caller));
		return;
	}
}

static void
call_connected(struct softrdma_caller *caller)
{
	int error = 0;
	socklen_t len = sizeof(error);
	if (getsockopt(caller->pending.fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error == 0 && caller->to_itself) {
		/* both ends are this side, so no message agrees on records: its own wish decides */
		const bool records = softrdma_hello_wish(caller->pending.fd, NULL) & SOFTRDMA_RECORDS_WANTED;
		hand_over(caller->meet, caller, true, records);
		return;
	}
	const struct softrdma_credentials *credentials = caller->meet->listener->credentials;
	if (error == 0 && credentials) {
		caller->role = SECURING;
		error = softrdma_tls_new(credentials->context, caller->pending.fd, true,
			&caller->pending.tls);
	}
	if (error)
		own_call_failed(caller, strerror(error));
	else
		secure(caller);
}

static void
read_answer(struct softrdma_caller *caller)
{
	struct softrdma_rendezvous *meet = caller->meet;
	struct softrdma_hello *hello = &caller->pending.hello;
	struct softrdma_join join;
	switch (softrdma_hello_read(caller->pending.fd, caller->pending.tls, hello)) {
	case SOFTRDMA_HELLO_INCOMPLETE:
		return;
	case SOFTRDMA_HELLO_COMPLETE:
		if (hello->peer.type == SOFTRDMA_HANDSHAKE_ACCEPT &&
			softrdma_join_decode(hello->message + SOFTRDMA_HANDSHAKE_SIZE,
				hello->peer.private_len, &join) &&
			is_expected(meet, &hello->peer, &join)) {
			hand_over(meet, caller, true, hello->peer.records);
			return;
		}
		if (hello->peer.reason == SOFTRDMA_REJECT_DAMAGED)
			own_call_failed(caller, "got a call that was damaged on its way");
		else if (hello->peer.reason == SOFTRDMA_REJECT_PLAIN)
			own_call_failed(caller, "speaks TLS only, and this side has no credentials for it");
		else
			own_call_failed(caller, "does not know this queue pair");
		return;
	case SOFTRDMA_HELLO_ENDED:
		own_call_failed(caller, why_not_secure(caller));
		return;
	case SOFTRDMA_HELLO_DAMAGED:
		own_call_failed(caller, "has sent an answer that was damaged on its way (CRC32C)");
		return;
	default:
		own_call_failed(caller, "does not speak this version of the protocol");
		return;
	}
}

/* --- being called --- */

/* true if this side's call is to succeed when both sides call each other */
static bool
own_call_goes_first(const struct softrdma_rendezvous *meet)
{
	if (meet->qp->qp.qp_num != meet->attr.dest_qp_num)
		return meet->qp->qp.qp_num < meet->attr.dest_qp_num;
	return memcmp(meet->gid.raw, meet->attr.ah_attr.grh.dgid.raw, SOFTRDMA_GID_SIZE) < 0;
}

/* true if the guest has gone: until it is accepted, it sends nothing more but the end of the stream */
static bool
has_left(const struct softrdma_caller *guest)
{
	char byte;
	ssize_t n = softrdma_stream_peek(guest->pending.fd, guest->pending.tls, &byte);
	return n >= 0 || errno != EAGAIN;
}

static void
let_in(struct softrdma_rendezvous *meet, struct softrdma_caller *guest)
{
	struct softrdma_hello answer;
	introduce(meet, SOFTRDMA_HANDSHAKE_ACCEPT, &answer);
	const bool records = softrdma_hello_agree(softrdma_hello_wish(guest->pending.fd, guest->pending.tls),
		guest->pending.hello.peer.records);
	softrdma_hello_set_records(&answer, records);
	if (has_left(guest) || softrdma_hello_send(guest->pending.fd, guest->pending.tls, &answer) != 0) {
		end(guest);
		return;
	}
	if (meet->own_call)
		end(meet->own_call);
	plan_call(meet, 0);
	hand_over(meet, guest, false, records);
}

/* the waiting call of the peer is accepted, rejected, or waits until the own call has ended */
static void
look_at_guest(struct softrdma_rendezvous *meet)
{
	struct softrdma_caller *guest = meet->guest;
	bool in_rts = meet->state == SOFTRDMA_RENDEZVOUS_CALLING;
	bool both_have_called = meet->own_call && meet->own_call->role == AWAITING_ANSWER;
	if (!is_expected(meet, &guest->pending.hello.peer, &guest->join) ||
		guest->pending.hello.peer.seq != meet->attr.rq_psn) {
		SOFTRDMA_LOG_FEW(&not_known, WARNING,
			"a queue pair in %s was called by one that it does not know: rejected",
			in_rts ? "RTS" : "RTR");
		turn_away(guest, SOFTRDMA_REJECT_NO_LISTENER);
	} else if (!both_have_called || !own_call_goes_first(meet)) {
		let_in(meet, guest);
	}
}

/* takes the next step after a change: ends, handles the guest, or starts a call */
static void
go_on(struct softrdma_rendezvous *meet)
{
	if (__atomic_load_n(&meet->qp->link->failed, __ATOMIC_ACQUIRE))
		softrdma_rendezvous_end(meet, SOFTRDMA_RENDEZVOUS_OVER);
	bool open =
		meet->state == SOFTRDMA_RENDEZVOUS_EXPECTING || meet->state == SOFTRDMA_RENDEZVOUS_CALLING;
	if (open && meet->guest)
		look_at_guest(meet);
	if (meet->state == SOFTRDMA_RENDEZVOUS_CALLING && meet->own_call == NULL &&
		!softrdma_timer_is_set(&meet->next_call)) {
		int ret = start_call(meet);
		if (ret)
			call_failed(meet, strerror(ret));
	}
}

/*
 * If both sides call, one call is accepted, and the other may arrive after it, which needs no warning. Any other
 * unexpected call does.
 */
static void
tell_refused(const struct softrdma_caller *caller, const struct softrdma_rendezvous *meet)
{
	char name[SOFTRDMA_NAME_SIZE];
	softrdma_hello_peer_name(caller->pending.fd, name, sizeof(name));
	if (meet && meet->state == SOFTRDMA_RENDEZVOUS_MET &&
		is_expected(meet, &caller->pending.hello.peer, &caller->join))
		SOFTRDMA_LOG_FEW(&met_already, INFO,
			"%s called a queue pair that has met it already: rejected", name);
	else
		SOFTRDMA_LOG_FEW(&not_known, WARNING,
			"%s called a queue pair that does not wait for it: rejected", name);
}

/* JOIN is complete: finds the queue pair that it is for */
static void
join_complete(struct softrdma_caller *caller)
{
	struct softrdma_rendezvous *meet = softrdma_rendezvous_find(caller->join.dst_qp_num);
	const struct softrdma_qp_listener *listener = softrdma_listener_owner(caller->pending.listener);
	bool refused = meet == NULL || !same_gid(caller->join.dst_gid, listener->gid.raw) ||
		meet->state == SOFTRDMA_RENDEZVOUS_MET || meet->state == SOFTRDMA_RENDEZVOUS_OVER;
	if (refused) {
		tell_refused(caller, meet);
		turn_away(caller, SOFTRDMA_REJECT_NO_LISTENER);
		return;
	}
	if (meet->guest)
		end(meet->guest); /* of the same peer, which tries again */
	softrdma_pending_heard(&caller->pending);
	caller->role = WAITING;
	caller->meet = meet;
	meet->guest = caller;
	softrdma_timer_set_ms(&caller->pending.deadline, SOFTRDMA_CONNECT_TIMEOUT_MS);
	if (has_left(caller)) /* no edge reports what came together with JOIN */
		end(caller);
	else
		go_on(meet);
}

static void
read_join(struct softrdma_caller *caller)
{
	const struct softrdma_hello *hello = &caller->pending.hello;
	if (!softrdma_pending_read(&caller->pending))
		return;
	if (hello->peer.type == SOFTRDMA_HANDSHAKE_JOIN &&
		softrdma_join_decode(hello->message + SOFTRDMA_HANDSHAKE_SIZE, hello->peer.private_len,
			&caller->join))
		join_complete(caller);
	else
		softrdma_pending_not_understood(&caller->pending);
}

/* the queue pair no longer expects calls: the last one that uses the listener closes it */
static void
leave_listener(struct softrdma_rendezvous *meet)
{
	struct softrdma_qp_listener *listener = meet->listener;
	meet->listener = NULL;
	if (listener)
		softrdma_qp_listener_put(listener);
}

/* --- what queue pairs want --- */

void
softrdma_rendezvous_add(struct softrdma_rendezvous *meet)
{
	struct softrdma_rendezvous **bucket = bucket_of(meet->qp->qp.qp_num);
	meet->next = *bucket;
	*bucket = meet;
}

void
softrdma_rendezvous_remove(struct softrdma_rendezvous *meet)
{
	softrdma_rendezvous_end(meet, SOFTRDMA_RENDEZVOUS_OVER);
	struct softrdma_rendezvous **at = bucket_of(meet->qp->qp.qp_num);
	while (*at != meet)
		at = &(*at)->next;
	*at = meet->next;
}

int
softrdma_rendezvous_open(struct softrdma_rendezvous *meet)
{
	assert(meet->state == SOFTRDMA_RENDEZVOUS_ASIDE);
	int ret = softrdma_gid_get(meet->attr.ah_attr.grh.sgid_index, &meet->gid);
	return ret ? ret : softrdma_qp_listener_get(&kind, &meet->gid, meet->qp->qp.qp_num, &meet->listener);
}

void
softrdma_rendezvous_expect(struct softrdma_rendezvous *meet)
{
	meet->state = SOFTRDMA_RENDEZVOUS_EXPECTING;
	meet->pause_ms = SOFTRDMA_PAUSE_MIN_MS;
	meet->told = false;
	go_on(meet);
}

void
softrdma_rendezvous_call(struct softrdma_rendezvous *meet)
{
	if (meet->state == SOFTRDMA_RENDEZVOUS_EXPECTING)
		meet->state = SOFTRDMA_RENDEZVOUS_CALLING;
	go_on(meet);
}

void
softrdma_rendezvous_end(struct softrdma_rendezvous *meet, enum softrdma_rendezvous_state state)
{
	if (meet->own_call)
		end(meet->own_call);
	if (meet->guest)
		turn_away(meet->guest, SOFTRDMA_REJECT_NO_LISTENER);
	plan_call(meet, 0);
	leave_listener(meet);
	meet->state = state;
}

/* --- the progress thread --- */

static void
progress(struct softrdma_pending *pending, uint32_t events)
{
	struct softrdma_caller *caller = (struct softrdma_caller *)pending;
	switch (caller->role) {
	case AT_THE_DOOR:
		read_join(caller);
		break;
	case WAITING:
		if (has_left(caller))
			end(caller);
		break;
	case CONNECTING:
		if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
			call_connected(caller);
		if (caller->pending.fd >= 0 && caller->role == AWAITING_ANSWER)
			read_answer(caller); /* a peer that sends before it is asked, in the same event */
		break;
	case SECURING:
		secure(caller);
		if (caller->pending.fd >= 0 && caller->role == AWAITING_ANSWER)
			read_answer(caller); /* no event comes for bytes that TLS holds already */
		break;
	case AWAITING_ANSWER:
		read_answer(caller);
		break;
	}
}

static void
expired(struct softrdma_pending *pending)
{
	struct softrdma_caller *caller = (struct softrdma_caller *)pending;
	if (caller->role == WAITING)
		end(caller);
	else
		own_call_failed(caller, "did not answer in time");
}

static void
look_at_pauses(uint64_t now_ns)
{
	softrdma_cm_lock();
	for (int i = 0; i < BUCKETS && pauses > 0; i++) {
		for (struct softrdma_rendezvous *meet = meets[i]; meet; meet = meet->next) {
			if (softrdma_timer_has_expired(&meet->next_call, now_ns)) {
				plan_call(meet, 0);
				go_on(meet);
			}
		}
	}
	softrdma_cm_unlock();
}
