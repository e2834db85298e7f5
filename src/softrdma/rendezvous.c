/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* rendezvous.c -- queue pairs that are connected by hand find each other */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "credentials.h"
#include "env.h"
#include "handshake.h"
#include "hello.h"
#include "io.h"
#include "rendezvous.h"
#include "stream.h"

#define NS_PER_MS 1000000u
#define BUCKETS 1024

/* a socket that listens at the address of a GID, for all queue pairs in RTR that have it */
struct softrdma_doorstep {
	struct softrdma_watched watched;
	int fd; /* -1: closed */
	union softrdma_address address;
	union ibv_gid gid;
	unsigned users;
	struct softrdma_credentials *credentials; /* of the environment when it was opened; NULL: plain */
	bool try_again;                           /* it has not accepted all there is: the ticker goes on */
	struct softrdma_doorstep *next;
};

enum role {
	CONNECTING,      /* own call: the socket is not connected yet */
	SECURING,        /* own call: TLS is being agreed on */
	AWAITING_ANSWER, /* own call: JOIN is sent */
	AT_THE_DOOR,     /* of somebody else: JOIN is not complete yet; TLS comes first */
	WAITING,         /* of somebody else: the guest of a queue pair that is not ready yet */
};

struct softrdma_caller {
	struct softrdma_watched watched;
	enum role role;
	int fd;                   /* -1: over */
	struct softrdma_tls *tls; /* NULL: plain */
	uint64_t deadline;
	struct softrdma_doorstep *door;   /* AT_THE_DOOR */
	struct softrdma_rendezvous *meet; /* all others */
	bool to_itself;                   /* the socket is its own peer, as the queue pair is */
	struct softrdma_hello hello;      /* CONNECTING: to be sent; else what has come */
	struct softrdma_join join;        /* WAITING: what was said */
	struct softrdma_caller *next, *prev;
};

/* what strangers can cause as often as they like */
static struct softrdma_log_limit not_known = SOFTRDMA_LOG_LIMIT;
static struct softrdma_log_limit not_understood = SOFTRDMA_LOG_LIMIT;

/* guarded by the connection manager's lock as everything here */
static struct softrdma_rendezvous *meets[BUCKETS];
static struct softrdma_doorstep *doorsteps;
static struct softrdma_caller *callers;
static unsigned strangers; /* AT_THE_DOOR and WAITING */
static unsigned pauses;    /* calls that are planned */

static void handle_caller(struct softrdma_watched *watched, uint32_t events);
static void handle_doorstep(struct softrdma_watched *watched, uint32_t events);
static void tick(uint64_t now_ns);
static void go_on(struct softrdma_rendezvous *meet);

static struct softrdma_rendezvous **
bucket_of(uint32_t qp_num)
{
	return &meets[qp_num % BUCKETS];
}

static struct softrdma_rendezvous *
find(uint32_t qp_num)
{
	struct softrdma_rendezvous *meet = *bucket_of(qp_num);
	while (meet && meet->qp->qp.qp_num != qp_num)
		meet = meet->next;
	return meet;
}

/* in a time that does not tell how much of it was right */
static bool
same_gid(const uint8_t *left, const uint8_t *right)
{
	uint8_t difference = 0;
	for (int i = 0; i < SOFTRDMA_GID_SIZE; i++)
		difference |= left[i] ^ right[i];
	return difference == 0;
}

/* --- callers: sockets on their way to be a link's --- */

static void
release(struct softrdma_watched *watched)
{
	free(watched);
}

/* TLS has stopped at a bound, and no edge tells of what is left: the others come first, and then this one */
static void
look_again_if_unread(struct softrdma_caller *caller)
{
	if (caller->fd >= 0 && softrdma_stream_is_unread(caller->tls))
		softrdma_io_look_again(caller->fd, &caller->watched);
}

static bool
is_stranger(const struct softrdma_caller *caller)
{
	return caller->role == AT_THE_DOOR || caller->role == WAITING;
}

/* watches the socket, which belongs to it from here on, also when it fails; NULL with *error */
static struct softrdma_caller *
new_caller(enum role role, int fd, unsigned deadline_ms, int *error)
{
	struct softrdma_caller *caller = calloc(1, sizeof(*caller));
	if (caller == NULL) {
		*error = ENOMEM;
		close(fd);
		return NULL;
	}
	caller->watched.handle = handle_caller;
	caller->watched.release = release;
	caller->role = role;
	caller->fd = fd;
	*error = softrdma_io_watch(fd, &caller->watched);
	if (*error) {
		close(fd);
		free(caller);
		return NULL;
	}
	caller->next = callers;
	if (callers)
		callers->prev = caller;
	callers = caller;
	if (is_stranger(caller))
		strangers++;
	softrdma_io_set_deadline(&caller->deadline, deadline_ms);
	softrdma_io_add_ticker(tick);
	return caller;
}

static void
leave_list(struct softrdma_caller *caller)
{
	softrdma_io_set_deadline(&caller->deadline, 0);
	if (is_stranger(caller))
		strangers--;
	if (caller->meet && caller->meet->own_call == caller)
		caller->meet->own_call = NULL;
	if (caller->meet && caller->meet->guest == caller)
		caller->meet->guest = NULL;
	if (caller->prev)
		caller->prev->next = caller->next;
	else
		callers = caller->next;
	if (caller->next)
		caller->next->prev = caller->prev;
}

/* freed when the progress thread has let go of it */
static void
end(struct softrdma_caller *caller)
{
	int fd = caller->fd;
	leave_list(caller);
	softrdma_stream_leave(&caller->tls);
	caller->fd = -1;
	softrdma_io_unwatch(fd, &caller->watched);
}

static int
end_but_socket(struct softrdma_caller *caller, struct softrdma_tls **tls)
{
	int fd = caller->fd;
	leave_list(caller);
	*tls = caller->tls;
	caller->tls = NULL;
	caller->fd = -1;
	softrdma_io_forget(fd, &caller->watched);
	return fd;
}

static void
turn_away(struct softrdma_caller *caller, enum softrdma_reject_reason reason)
{
	softrdma_hello_reject(caller->fd, caller->tls, reason, NULL, 0);
	softrdma_hello_read_away(caller->fd);
	end(caller);
}

/* --- the connection --- */

static void
link_ready(struct softrdma_link *link, void *arg)
{
	(void)arg;
	if (link->state == SOFTRDMA_LINK_UP)
		softrdma_io_deadline(link, 0);
}

static void
link_disconnected(struct softrdma_link *link, void *arg)
{
	(void)link;
	(void)arg; /* requests tell */
}

static const struct softrdma_link_ops link_ops = {
	.ready = link_ready,
	.disconnected = link_disconnected,
};

/* the socket becomes the link's, and what has been posted leaves */
static void
hand_over(struct softrdma_rendezvous *meet, struct softrdma_caller *caller, bool active, bool records)
{
	struct softrdma_link *link = meet->qp->link;
	struct softrdma_tls *tls;
	int fd = end_but_socket(caller, &tls);
	meet->state = SOFTRDMA_RENDEZVOUS_MET;
	pthread_mutex_lock(&link->lock);
	softrdma_link_open(link);
	link->ready_due = active;
	link->ops = &link_ops;
	int ret = softrdma_io_attach(link, fd, tls, records);
	if (ret) {
		SOFTRDMA_LOG(ERROR, "a connection is given up: %s", strerror(ret));
		softrdma_link_lost(link);
	} else if (!active) {
		softrdma_io_deadline(link, SOFTRDMA_HANDSHAKE_TIMEOUT_MS);
	}
	softrdma_io_send(link);
	pthread_mutex_unlock(&link->lock);
}

/* what is said to the peer: all that was told, and the number of our own first request once that is known */
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

/* is this from the queue pair that the application has named, and meant for this one? */
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
	bool had = meet->next_call != 0;
	meet->next_call = ms ? softrdma_now_ns() + (uint64_t)ms * NS_PER_MS : 0;
	pauses += (unsigned)((ms != 0) - had);
	softrdma_io_timed((ms != 0) - had);
	softrdma_io_add_ticker(tick);
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
	go_on(meet); /* somebody may be waiting */
}

/* a socket that is bound to the own address; 0 or an errno value */
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
		peer = own; /* TCP's simultaneous open, by one socket */
	else
		softrdma_gid_locate(&attr->ah_attr.grh.dgid, attr->dest_qp_num, &peer);
	socklen_t len = peer.any.sa_family == AF_INET6 ? sizeof(peer.in6) : sizeof(peer.in);
	if (connect(fd, &peer.any, len) != 0 && errno != EINPROGRESS) {
		ret = errno;
		close(fd);
		return ret;
	}
	struct softrdma_caller *caller = new_caller(CONNECTING, fd, SOFTRDMA_PEER_TIMEOUT_MS, &ret);
	if (caller == NULL)
		return ret;
	caller->meet = meet;
	caller->to_itself = to_itself;
	meet->own_call = caller;
	introduce(meet, SOFTRDMA_HANDSHAKE_JOIN, &caller->hello);
	return 0;
}

static const char *
why_not_secure(const struct softrdma_caller *caller)
{
	bool told = caller->tls && *softrdma_tls_why(caller->tls);
	return told ? softrdma_tls_why(caller->tls) : "has closed the connection";
}

/* says JOIN, on a stream that is ready for it */
static void
say_join(struct softrdma_caller *caller)
{
	int error = softrdma_hello_ask(caller->fd, caller->tls, &caller->hello);
	if (error) {
		own_call_failed(caller, strerror(error));
		return;
	}
	caller->role = AWAITING_ANSWER;
	memset(&caller->hello, 0, sizeof(caller->hello));
	softrdma_io_set_deadline(&caller->deadline, SOFTRDMA_CONNECT_TIMEOUT_MS);
}

/* goes on with the agreement on TLS; a plain stream needs none */
static void
secure(struct softrdma_caller *caller)
{
	switch (softrdma_hello_secure(caller->tls)) {
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
	if (getsockopt(caller->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error == 0 && caller->to_itself) {
		/* both sides are one, and no message says what that wants */
		const bool records = softrdma_hello_wish(caller->fd, NULL) & SOFTRDMA_RECORDS_WANTED;
		hand_over(caller->meet, caller, true, records);
		return;
	}
	const struct softrdma_credentials *credentials = caller->meet->doorstep->credentials;
	if (error == 0 && credentials) {
		caller->role = SECURING;
		error = softrdma_tls_new(credentials->context, caller->fd, true, &caller->tls);
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
	struct softrdma_hello *hello = &caller->hello;
	struct softrdma_join join;
	switch (softrdma_hello_read(caller->fd, caller->tls, hello)) {
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

/* of two that call each other, whose call is to succeed? */
static bool
own_call_goes_first(const struct softrdma_rendezvous *meet)
{
	if (meet->qp->qp.qp_num != meet->attr.dest_qp_num)
		return meet->qp->qp.qp_num < meet->attr.dest_qp_num;
	return memcmp(meet->gid.raw, meet->attr.ah_attr.grh.dgid.raw, SOFTRDMA_GID_SIZE) < 0;
}

/* a guest says nothing more before it has been let in: all that can come is the end of the stream */
static bool
has_left(const struct softrdma_caller *guest)
{
	char byte;
	ssize_t n = softrdma_stream_peek(guest->fd, guest->tls, &byte);
	return n >= 0 || errno != EAGAIN;
}

static void
let_in(struct softrdma_rendezvous *meet, struct softrdma_caller *guest)
{
	struct softrdma_hello answer;
	introduce(meet, SOFTRDMA_HANDSHAKE_ACCEPT, &answer);
	const bool records =
		softrdma_hello_agree(softrdma_hello_wish(guest->fd, guest->tls), guest->hello.peer.records);
	softrdma_hello_set_records(&answer, records);
	if (has_left(guest) || softrdma_hello_send(guest->fd, guest->tls, &answer) != 0) {
		end(guest);
		return;
	}
	if (meet->own_call)
		end(meet->own_call);
	plan_call(meet, 0);
	hand_over(meet, guest, false, records);
}

/* whoever waits is let in, sent away, or waits for how the own call ends */
static void
look_at_guest(struct softrdma_rendezvous *meet)
{
	struct softrdma_caller *guest = meet->guest;
	bool in_rts = meet->state == SOFTRDMA_RENDEZVOUS_CALLING;
	bool both_have_called = meet->own_call && meet->own_call->role == AWAITING_ANSWER;
	if (!is_expected(meet, &guest->hello.peer, &guest->join) ||
		guest->hello.peer.seq != meet->attr.rq_psn) {
		SOFTRDMA_LOG_FEW(&not_known, WARNING,
			"a queue pair in %s was called by one that it does not know: rejected",
			in_rts ? "RTS" : "RTR");
		turn_away(guest, SOFTRDMA_REJECT_NO_LISTENER);
	} else if (!both_have_called || !own_call_goes_first(meet)) {
		let_in(meet, guest);
	}
}

/* the next step, after whatever has changed */
static void
go_on(struct softrdma_rendezvous *meet)
{
	if (__atomic_load_n(&meet->qp->link->failed, __ATOMIC_ACQUIRE))
		softrdma_rendezvous_end(meet, SOFTRDMA_RENDEZVOUS_OVER);
	bool open =
		meet->state == SOFTRDMA_RENDEZVOUS_EXPECTING || meet->state == SOFTRDMA_RENDEZVOUS_CALLING;
	if (open && meet->guest)
		look_at_guest(meet);
	if (meet->state == SOFTRDMA_RENDEZVOUS_CALLING && meet->own_call == NULL && meet->next_call == 0) {
		int ret = start_call(meet);
		if (ret)
			call_failed(meet, strerror(ret));
	}
}

/*
 * When both sides call, one call is let in, and the other one may arrive behind that: nothing to warn of. Any
 * other call that nobody waits for is.
 */
static void
tell_refused(const struct softrdma_caller *caller, const struct softrdma_rendezvous *meet)
{
	char name[SOFTRDMA_NAME_SIZE];
	softrdma_hello_peer_name(caller->fd, name, sizeof(name));
	if (meet && meet->state == SOFTRDMA_RENDEZVOUS_MET &&
		is_expected(meet, &caller->hello.peer, &caller->join))
		SOFTRDMA_LOG(INFO, "%s called a queue pair that has met it already: rejected", name);
	else
		SOFTRDMA_LOG_FEW(&not_known, WARNING,
			"%s called a queue pair that does not wait for it: rejected", name);
}

/* JOIN is complete: whom is it for? */
static void
join_complete(struct softrdma_caller *caller)
{
	struct softrdma_rendezvous *meet = find(caller->join.dst_qp_num);
	bool refused = meet == NULL || !same_gid(caller->join.dst_gid, caller->door->gid.raw) ||
		meet->state == SOFTRDMA_RENDEZVOUS_MET || meet->state == SOFTRDMA_RENDEZVOUS_OVER;
	if (refused) {
		tell_refused(caller, meet);
		turn_away(caller, SOFTRDMA_REJECT_NO_LISTENER);
		return;
	}
	if (meet->guest)
		end(meet->guest); /* of the same peer, which tries again */
	caller->role = WAITING;
	caller->door = NULL;
	caller->meet = meet;
	meet->guest = caller;
	softrdma_io_set_deadline(&caller->deadline, SOFTRDMA_CONNECT_TIMEOUT_MS);
	if (has_left(caller)) /* no edge tells what has come with JOIN */
		end(caller);
	else
		go_on(meet);
}

/* true: the stream is ready for JOIN; else nothing more can be done now, or it is over */
static bool
is_ready(struct softrdma_caller *caller)
{
	char name[SOFTRDMA_NAME_SIZE];
	switch (softrdma_hello_secure(caller->tls)) {
	case SOFTRDMA_HELLO_COMPLETE:
		return true;
	case SOFTRDMA_HELLO_INCOMPLETE:
		return false;
	case SOFTRDMA_HELLO_NOT_OURS:
		SOFTRDMA_LOG_FEW(&not_understood, WARNING, "%s does not use TLS, as it must here: rejected",
			softrdma_hello_peer_name(caller->fd, name, sizeof(name)));
		softrdma_hello_reject(caller->fd, NULL, SOFTRDMA_REJECT_PLAIN, NULL, 0);
		break;
	default:
		if (*softrdma_tls_why(caller->tls))
			SOFTRDMA_LOG_FEW(&not_understood, WARNING, "no TLS with %s: %s",
				softrdma_hello_peer_name(caller->fd, name, sizeof(name)),
				softrdma_tls_why(caller->tls));
		break;
	}
	softrdma_hello_read_away(caller->fd);
	end(caller);
	return false;
}

static void
read_join(struct softrdma_caller *caller)
{
	char name[SOFTRDMA_NAME_SIZE];
	struct softrdma_hello *hello = &caller->hello;
	if (!is_ready(caller))
		return;
	switch (softrdma_hello_read(caller->fd, caller->tls, hello)) {
	case SOFTRDMA_HELLO_INCOMPLETE:
		return;
	case SOFTRDMA_HELLO_ENDED:
		end(caller);
		return;
	case SOFTRDMA_HELLO_OTHER_VERSION:
		turn_away(caller, SOFTRDMA_REJECT_VERSION);
		return;
	case SOFTRDMA_HELLO_DAMAGED:
		SOFTRDMA_LOG_FEW(&not_understood, WARNING,
			"the call of %s was damaged on its way (CRC32C): rejected",
			softrdma_hello_peer_name(caller->fd, name, sizeof(name)));
		turn_away(caller, SOFTRDMA_REJECT_DAMAGED);
		return;
	case SOFTRDMA_HELLO_COMPLETE:
		if (hello->peer.type == SOFTRDMA_HANDSHAKE_JOIN &&
			softrdma_join_decode(hello->message + SOFTRDMA_HANDSHAKE_SIZE,
				hello->peer.private_len, &caller->join)) {
			join_complete(caller);
			return;
		}
		break;
	default:
		break;
	}
	SOFTRDMA_LOG_FEW(&not_understood, WARNING, "%s %s: connection closed",
		softrdma_hello_peer_name(caller->fd, name, sizeof(name)),
		softrdma_hello_is_tls(hello) ? "speaks TLS, which there are no credentials for here"
					     : "does not speak the protocol of the software device");
	end(caller);
}

static void
take_socket(struct softrdma_doorstep *door, int fd)
{
	int ret;
	if (strangers >= SOFTRDMA_CALLERS_MAX) {
		softrdma_hello_reject(fd, NULL, SOFTRDMA_REJECT_BUSY, NULL, 0);
		softrdma_hello_read_away(fd);
		close(fd);
		return;
	}
	struct softrdma_caller *caller = new_caller(AT_THE_DOOR, fd, SOFTRDMA_HANDSHAKE_TIMEOUT_MS, &ret);
	if (caller == NULL) {
		SOFTRDMA_LOG(ERROR, "an incoming connection is dropped: %s", strerror(ret));
		return;
	}
	caller->door = door;
	if (door->credentials)
		ret = softrdma_tls_new(door->credentials->context, fd, false, &caller->tls);
	if (ret) {
		SOFTRDMA_LOG(ERROR, "an incoming connection is dropped: %s", strerror(ret));
		end(caller);
		return;
	}
	read_join(caller);
	look_again_if_unread(caller);
}

static void
set_try_again(struct softrdma_doorstep *door, bool again)
{
	softrdma_io_timed(again - door->try_again);
	door->try_again = again;
}

static void
accept_callers(struct softrdma_doorstep *door)
{
	struct sockaddr_storage addr;
	int fd;
	/* whoever comes in may be the end of a queue pair, and that of the doorstep */
	for (int turn = 0; turn < SOFTRDMA_ACCEPT_TURNS && door->fd >= 0; turn++) {
		switch (softrdma_handshake_accept_socket(door->fd, !door->try_again, &addr, &fd)) {
		case SOFTRDMA_ACCEPTED:
			take_socket(door, fd);
			break;
		case SOFTRDMA_ACCEPT_FAILED:
			break; /* the next */
		case SOFTRDMA_ACCEPT_LATER:
			set_try_again(door, true);
			return;
		default:
			set_try_again(door, false);
			return;
		}
	}
	/* as for listeners: a tick would be late */
	if (door->fd >= 0)
		set_try_again(door, softrdma_io_look_again(door->fd, &door->watched) != 0);
}

/* --- doorsteps --- */

static bool
same_place(const union softrdma_address *left, const union softrdma_address *right)
{
	if (left->any.sa_family != right->any.sa_family)
		return false;
	if (left->any.sa_family == AF_INET)
		return left->in.sin_port == right->in.sin_port &&
			left->in.sin_addr.s_addr == right->in.sin_addr.s_addr;
	return left->in6.sin6_port == right->in6.sin6_port &&
		memcmp(&left->in6.sin6_addr, &right->in6.sin6_addr, sizeof(left->in6.sin6_addr)) == 0;
}

/* as for listeners, but once: doorsteps come and go with queue pairs */
static void
warn_if_open(const struct softrdma_doorstep *door)
{
	static bool told;
	if (!told && door->credentials == NULL)
		told = softrdma_hello_warn_if_open(&door->address.any, "queue pairs can be called");
}

static int
new_doorstep(union softrdma_address address, const union ibv_gid *gid, struct softrdma_doorstep **door_ptr)
{
	struct softrdma_doorstep *door = calloc(1, sizeof(*door));
	if (door == NULL)
		return ENOMEM;
	door->watched.handle = handle_doorstep;
	door->watched.release = release;
	door->address = address;
	door->gid = *gid;
	door->users = 1;
	int ret = softrdma_credentials_of_environment(&door->credentials);
	if (ret)
		goto err_free;
	ret = softrdma_handshake_bind(&address.any, &door->fd);
	if (ret)
		goto err_put_credentials;
	ret = listen(door->fd, SOMAXCONN) == 0 ? 0 : errno;
	if (ret)
		goto err_close;
	ret = softrdma_io_watch(door->fd, &door->watched);
	if (ret)
		goto err_close;
	door->next = doorsteps;
	doorsteps = door;
	softrdma_io_add_ticker(tick);
	warn_if_open(door);
	*door_ptr = door;
	return 0;

err_close:
	close(door->fd);
err_put_credentials:
	softrdma_credentials_put(door->credentials);
err_free:
	free(door);
	return ret;
}

static int
open_doorstep(struct softrdma_rendezvous *meet)
{
	union softrdma_address address;
	softrdma_gid_locate(&meet->gid, meet->qp->qp.qp_num, &address);
	struct softrdma_doorstep *door = doorsteps;
	while (door && !same_place(&door->address, &address))
		door = door->next;
	if (door == NULL)
		return new_doorstep(address, &meet->gid, &meet->doorstep);
	door->users++;
	meet->doorstep = door;
	return 0;
}

static void
close_doorstep(struct softrdma_doorstep *door)
{
	if (--door->users > 0)
		return;
	struct softrdma_caller *next;
	for (struct softrdma_caller *caller = callers; caller; caller = next) {
		next = caller->next;
		if (caller->role == AT_THE_DOOR && caller->door == door)
			turn_away(caller, SOFTRDMA_REJECT_NO_LISTENER);
	}
	struct softrdma_doorstep **at = &doorsteps;
	while (*at != door)
		at = &(*at)->next;
	*at = door->next;
	set_try_again(door, false);
	softrdma_credentials_put(door->credentials);
	door->credentials = NULL;
	int fd = door->fd;
	door->fd = -1;
	softrdma_io_unwatch(fd, &door->watched);
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
	return ret ? ret : open_doorstep(meet);
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
	if (meet->doorstep)
		close_doorstep(meet->doorstep);
	meet->doorstep = NULL;
	meet->state = state;
}

/* --- the progress thread --- */

static void
handle_doorstep(struct softrdma_watched *watched, uint32_t events)
{
	(void)events;
	struct softrdma_doorstep *door = (struct softrdma_doorstep *)watched;
	softrdma_cm_lock();
	if (door->fd >= 0)
		accept_callers(door);
	softrdma_cm_unlock();
}

static void
handle_caller(struct softrdma_watched *watched, uint32_t events)
{
	struct softrdma_caller *caller = (struct softrdma_caller *)watched;
	softrdma_cm_lock();
	if (caller->fd >= 0) {
		switch (caller->role) {
		case CONNECTING:
			if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
				call_connected(caller);
			if (caller->fd >= 0 && caller->role == AWAITING_ANSWER)
				read_answer(caller); /* who talks before he is asked, in the same event */
			break;
		case SECURING:
			secure(caller);
			if (caller->fd >= 0 && caller->role == AWAITING_ANSWER)
				read_answer(caller); /* what TLS holds comes with no event */
			break;
		case AWAITING_ANSWER:
			read_answer(caller);
			break;
		case AT_THE_DOOR:
			read_join(caller);
			break;
		case WAITING:
			if (has_left(caller))
				end(caller);
			break;
		}
		look_again_if_unread(caller);
	}
	softrdma_cm_unlock();
}

static void
deadline_passed(struct softrdma_caller *caller)
{
	if (!is_stranger(caller))
		own_call_failed(caller, "did not answer in time");
	else
		end(caller);
}

static void
look_at_deadlines(uint64_t now_ns)
{
	struct softrdma_caller *next;
	for (struct softrdma_caller *caller = callers; caller; caller = next) {
		next = caller->next;
		if (caller->deadline && now_ns >= caller->deadline)
			deadline_passed(caller);
	}
}

static void
look_at_pauses(uint64_t now_ns)
{
	for (int i = 0; i < BUCKETS && pauses > 0; i++) {
		for (struct softrdma_rendezvous *meet = meets[i]; meet; meet = meet->next) {
			if (meet->next_call && now_ns >= meet->next_call) {
				plan_call(meet, 0);
				go_on(meet);
			}
		}
	}
}

static void
tick(uint64_t now_ns)
{
	softrdma_cm_lock();
	look_at_deadlines(now_ns);
	look_at_pauses(now_ns);
	for (struct softrdma_doorstep *door = doorsteps; door; door = door->next) {
		if (door->try_again)
			accept_callers(door);
	}
	softrdma_cm_unlock();
}
