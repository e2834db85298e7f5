/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* handshake.c -- the connections of ids, until both sides have agreed */

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/sockaddr.h"
#include "softrdma/cm/active.h"
#include "softrdma/cm/datagram_id.h"
#include "softrdma/cm/event.h"
#include "softrdma/cm/external_qp.h"
#include "softrdma/cm/handshake.h"
#include "softrdma/cm/pending.h"
#include "softrdma/engine/accounts.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/pending_sockets.h"
#include "softrdma/faults/fault_plan.h"
#include "softrdma/verbs/device.h"
#include "softrdma/wire/cm_msg.h"
#include "softrdma/wire/stream.h"

enum role {
	READING_REQUEST,   /* passive: there is no id yet; TLS comes first. 0: the role of a new one */
	REQUESTING,        /* active: connects, sends CONNECT and reads the reply (active.h) */
	REFUSED,           /* active: there is no listener; the socket is connected again at the deadline */
	AWAITING_QP,       /* active: ACCEPT has come, and the application makes its own queue pair ready */
	AWAITING_LOOK,     /* passive: CONNECT has come; what the peer sent before it is handled first */
	AWAITING_DECISION, /* passive: the application has the new id, or will get it, and has not decided */
};

/*
 * pending.msg is what has been received so far; until CONNECT is sent, the active side's is the message to
 * send
 */
struct softrdma_handshaker {
	struct softrdma_pending pending; /* first */
	enum role role;
	struct softrdma_id *id; /* READING_REQUEST, AWAITING_LOOK: NULL */
	uint64_t patient_until; /* REQUESTING, REFUSED: a refused attempt is repeated until then, in ns */
	uint64_t told_at;       /* AWAITING_LOOK: softrdma_pending_sockets_look_after_next() */
	bool peer_gone;         /* AWAITING_DECISION: the other side has given up */
};
static_assert(offsetof(struct softrdma_handshaker, pending) == 0, "pending.c knows the first member only");

static struct softrdma_log_limit no_memory = SOFTRDMA_LOG_LIMIT;
static struct softrdma_log_limit rejected_by_fault = SOFTRDMA_LOG_LIMIT;

static void progress(struct softrdma_pending *pending, uint32_t events);
static void expired(struct softrdma_pending *pending);
static bool connected(struct softrdma_pending *pending);
static struct softrdma_credentials *credentials_of_request(const struct softrdma_pending *pending);
static void replied(struct softrdma_pending *pending);
static void step_failed(struct softrdma_pending *pending, enum softrdma_active_failure failure, int errnum);

static const struct softrdma_active_ops active_ops = {
	.connected = connected,
	.credentials = credentials_of_request,
	.replied = replied,
	.failed = step_failed,
};

static const struct softrdma_pending_kind kind = {
	.size = sizeof(struct softrdma_handshaker),
	.has_accounts = true,
	.progress = progress,
	.expired = expired,
	.active = &active_ops,
};

static void
end(struct softrdma_handshaker *hand)
{
	softrdma_pending_end(&hand->pending);
}

/* --- messages --- */

static uint8_t
at_most(uint8_t value, uint8_t limit)
{
	return value < limit ? value : limit;
}

static uint8_t
request_type(const struct softrdma_id *id)
{
	return softrdma_id_is_of_datagrams(id) ? SOFTRDMA_HANDSHAKE_RESOLVE : SOFTRDMA_HANDSHAKE_CONNECT;
}

/* fills in what the message says of the id's queue pair */
static void
fill_qp(struct softrdma_handshake *hs, const struct softrdma_id *id, const struct rdma_conn_param *param)
{
	if (!softrdma_id_is_of_datagrams(id)) {
		hs->qp_num = id->link->requester.ring.qp_num;
		hs->seq = id->external ? id->psn : id->link->seq;
	} else if (hs->type == SOFTRDMA_HANDSHAKE_ACCEPT) {
		hs->qp_num = id->id.qp ? id->id.qp->qp_num : param->qp_num;
		hs->seq = RDMA_UDP_QKEY;
	}
}

/*
 * fills in what the application requests, within the limits of the device and of the peer (NULL: not known
 * yet)
 */
static void
fill_parameters(struct softrdma_handshake *hs, const struct rdma_conn_param *param,
	const struct softrdma_handshake *peer)
{
	hs->responder_resources = at_most(param->responder_resources, SOFTRDMA_RD_ATOM_MAX);
	hs->initiator_depth = at_most(param->initiator_depth, SOFTRDMA_RD_ATOM_MAX);
	hs->rnr_retry = at_most(param->rnr_retry_count, 7);
	hs->flow_control = param->flow_control;
	if (peer) {
		hs->responder_resources = at_most(hs->responder_resources, peer->initiator_depth);
		hs->initiator_depth = at_most(hs->initiator_depth, peer->responder_resources);
	}
}

/* --- the active side --- */

static void
attempt_failed(struct softrdma_handshaker *hand, enum rdma_cm_event_type type, int status,
	const struct softrdma_handshake *hs)
{
	struct softrdma_id *id = hand->id;
	id->handshaker = NULL;
	id->state = SOFTRDMA_ID_CLOSED;
	/* message(no-memory-for-event) */
	if (softrdma_id_post(id, type, status, hs, hand->pending.msg.bytes + SOFTRDMA_HANDSHAKE_SIZE, NULL))
		SOFTRDMA_LOG(ERROR, "no memory for an event: a failed connection is not reported");
	end(hand);
}

static void
socket_failed(struct softrdma_handshaker *hand, int error)
{
	char name[SOFTRDMA_NAME_SIZE];
	const char *server = softrdma_address_name(&hand->id->id.route.addr.dst_addr, name, sizeof(name));
	if (error == ECONNREFUSED) {
		/*
		 * message(connect): the machine is there, and no program listens at the port -> Start the
		 * server first. If it runs: `ss -tln` shows its address and port. It may be on RDMA
		 * hardware while this side is not.
		 */
		SOFTRDMA_LOG(WARNING,
			"no software device listens at %s: start the server, or check address and port%s%s",
			server, *softrdma_refused_hint() ? "; " : "", softrdma_refused_hint());
		attempt_failed(hand, RDMA_CM_EVENT_REJECTED, SOFTRDMA_REJECT_NO_LISTENER, NULL);
	} else {
		/*
		 * message(connect): no answer in ten seconds, or no route -> `ping`, `ip route get`, and
		 * the firewalls of both sides: a server needs one TCP port.
		 */
		SOFTRDMA_LOG(WARNING, "%s cannot be reached: %s: check the address, the route and firewalls",
			server, strerror(error));
		attempt_failed(hand, RDMA_CM_EVENT_UNREACHABLE, -error, NULL);
	}
}

/* the socket has an error before it was connected */
static void
not_connected(struct softrdma_handshaker *hand, int error)
{
	if (error == ECONNREFUSED && softrdma_now_ns() < hand->patient_until) {
		hand->role = REFUSED;
		softrdma_timer_set_ms(&hand->pending.deadline, SOFTRDMA_REFUSED_RETRY_MS);
	} else {
		socket_failed(hand, error);
	}
}

/* Linux lets a refused socket connect again, but the first connect() may only end the old attempt */
static void
connect_again(struct softrdma_handshaker *hand)
{
	const struct sockaddr *dst = &hand->id->id.route.addr.dst_addr;
	hand->role = REQUESTING;
	softrdma_timer_set_ms(&hand->pending.deadline, SOFTRDMA_PEER_TIMEOUT_MS);
	int error = softrdma_active_connect(hand->pending.fd, dst);
	if (error == ECONNABORTED)
		error = softrdma_active_connect(hand->pending.fd, dst);
	if (error)
		not_connected(hand, error);
}

/* connected, and the request was sent: the server's program or another kind of server lets it wait */
static void
no_reply(struct softrdma_handshaker *hand)
{
	char name[SOFTRDMA_NAME_SIZE];
	/*
	 * message(connect): the port is open, and nothing came back -> Another kind of server is at that
	 * port, or the server's program hangs. A limit on the time: rpma_conn_cfg_set_connect_timeout(3).
	 */
	SOFTRDMA_LOG(WARNING,
		"%s has neither accepted nor rejected the connection within %u s: does a program of librpma "
		"listen there, and take its requests?",
		softrdma_address_name(&hand->id->id.route.addr.dst_addr, name, sizeof(name)),
		SOFTRDMA_CONNECT_TIMEOUT_MS / 1000);
	attempt_failed(hand, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
}

static void
no_reply_of_ours(struct softrdma_handshaker *hand, const char *what)
{
	char name[SOFTRDMA_NAME_SIZE];
	SOFTRDMA_LOG(ERROR, "%s %s%s%s",
		softrdma_address_name(&hand->id->id.route.addr.dst_addr, name, sizeof(name)), what,
		*softrdma_refused_hint() ? "; " : "", softrdma_refused_hint());
	attempt_failed(hand, RDMA_CM_EVENT_REJECTED, -EPROTO, NULL);
}

static void
no_reply_of_this_version(struct softrdma_handshaker *hand)
{
	char what[128];
	/*
	 * message(connect, versions): the two sides have different versions of the library -> Install the
	 * same major version on both.
	 */
	snprintf(what, sizeof(what),
		"speaks version %u of the protocol of the software device, not %u: install one version on both "
		"sides",
		(unsigned)hand->pending.msg.peer.version, (unsigned)SOFTRDMA_WIRE_VERSION);
	no_reply_of_ours(hand, what);
}

static void
remember_source(struct softrdma_id *id, int fd)
{
	socklen_t len = sizeof(id->id.route.addr.src_storage);
	getsockname(fd, &id->id.route.addr.src_addr, &len);
}

/* the server has not proved its identity, or does not trust this side and has ended the stream */
static void
not_trusted(struct softrdma_handshaker *hand)
{
	char name[SOFTRDMA_NAME_SIZE];
	const char *why = softrdma_tls_why(hand->pending.tls);
	/*
	 * message(tls): the TLS handshake with that address has failed; the reason follows -> See the
	 * reasons in this section.
	 */
	/*
	 * message(tls): this side has credentials, and the server has none -> Set the same variables at the
	 * server.
	 */
	SOFTRDMA_LOG(ERROR, "no TLS with %s: %s",
		softrdma_address_name(&hand->id->id.route.addr.dst_addr, name, sizeof(name)),
		*why ? why : "it has ended the connection, and may not use TLS, which both sides must");
	attempt_failed(hand, RDMA_CM_EVENT_REJECTED, -EPROTO, NULL);
}

static bool
connected(struct softrdma_pending *pending)
{
	struct softrdma_handshaker *hand = (struct softrdma_handshaker *)pending;
	remember_source(hand->id, pending->fd);
	/* TLS has as long as TCP had */
	softrdma_timer_set_ms(&pending->deadline, SOFTRDMA_PEER_TIMEOUT_MS);
	return true;
}

static struct softrdma_credentials *
credentials_of_request(const struct softrdma_pending *pending)
{
	const struct softrdma_handshaker *hand = (const struct softrdma_handshaker *)pending;
	return hand->id->credentials;
}

static void
step_failed(struct softrdma_pending *pending, enum softrdma_active_failure failure, int errnum)
{
	struct softrdma_handshaker *hand = (struct softrdma_handshaker *)pending;
	switch (failure) {
	case SOFTRDMA_ACTIVE_NOT_CONNECTED:
		not_connected(hand, errnum);
		return;
	case SOFTRDMA_ACTIVE_NOT_SENT:
		socket_failed(hand, errnum);
		return;
	case SOFTRDMA_ACTIVE_NO_TLS:
		/*
		 * message(tls, other-side-without-tls): this side has credentials, and the other one has
		 * none -> Set the same variables there.
		 */
		no_reply_of_ours(hand, "does not use TLS, as this side must: give both sides credentials");
		return;
	case SOFTRDMA_ACTIVE_NOT_TRUSTED:
		not_trusted(hand);
		return;
	case SOFTRDMA_ACTIVE_ENDED:
		/*
		 * message(connect, another-server): another kind of server is at that port -> Check the
		 * port. A program of librpma on RDMA hardware may have a TCP port with the same number.
		 */
		no_reply_of_ours(hand, "has closed the connection without a reply");
		return;
	case SOFTRDMA_ACTIVE_NOT_OURS:
		/* message(another-server) */
		no_reply_of_ours(hand, "does not speak the protocol of the software device");
		return;
	case SOFTRDMA_ACTIVE_OTHER_VERSION:
		no_reply_of_this_version(hand);
		return;
	case SOFTRDMA_ACTIVE_DAMAGED:
		/*
		 * message(connect, damaged-request): a check sum of the first messages is wrong -> Try
		 * again. If it comes again: a network card, cable, switch or memory is faulty.
		 */
		no_reply_of_ours(hand, "has sent a reply that was damaged on its way (CRC32C)");
		return;
	}
}

static void
establish(struct softrdma_handshaker *hand)
{
	struct softrdma_id *id = hand->id;
	const struct softrdma_handshake peer = hand->pending.msg.peer;
	struct softrdma_handshake own = id->asked;
	own.responder_resources = at_most(own.responder_resources, peer.initiator_depth);
	own.initiator_depth = at_most(own.initiator_depth, peer.responder_resources);

	uint8_t data[SOFTRDMA_PRIVATE_DATA_MAX];
	memcpy(data, hand->pending.msg.bytes + SOFTRDMA_HANDSHAKE_SIZE, peer.private_len);
	id->handshaker = NULL;
	struct softrdma_tls *tls;
	int fd = softrdma_pending_end_but_socket(&hand->pending, &tls);
	int ret = softrdma_id_attach(id, fd, tls, &own, &peer, data, true);
	if (ret) {
		/*
		 * message(connect, given-up): the process lacks memory or descriptors for a connection ->
		 * The system's text says which.
		 */
		SOFTRDMA_LOG(ERROR, "an accepted connection is given up: %s", strerror(ret));
		id->state = SOFTRDMA_ID_CLOSED;
		if (softrdma_id_post(id, RDMA_CM_EVENT_CONNECT_ERROR, -ret, NULL, NULL, NULL))
			SOFTRDMA_LOG(ERROR, "no memory for an event: a failed connection is not reported");
	}
}

/* the server has named its queue pair of datagrams: there is nothing more to say */
static void
resolved(struct softrdma_handshaker *hand)
{
	struct softrdma_id *id = hand->id;
	id->handshaker = NULL;
	id->state = SOFTRDMA_ID_CONNECTED;
	/* message(no-memory-for-event) */
	if (softrdma_id_post(id, RDMA_CM_EVENT_ESTABLISHED, 0, &id->peer,
		    hand->pending.msg.bytes + SOFTRDMA_HANDSHAKE_SIZE, NULL))
		SOFTRDMA_LOG(ERROR, "no memory for an event: the answer of a server is not reported");
	end(hand);
}

static void
accepted(struct softrdma_handshaker *hand)
{
	struct softrdma_id *id = hand->id;
	id->peer = hand->pending.msg.peer;
	id->peer_known = true;
	if (softrdma_id_is_of_datagrams(id)) {
		if (softrdma_datagram_id_can_name(id->peer.qp_num))
			resolved(hand);
		else
			/*
			 * message(connect): a number to which no datagram can go -> The server's program, or its device,
			 * is not one of librpma's, or has a defect.
			 */
			no_reply_of_ours(hand, "has named no queue pair of datagrams");
		return;
	}
	if (!id->external) {
		establish(hand);
		return;
	}
	hand->role = AWAITING_QP;
	softrdma_timer_clear(&hand->pending.deadline); /* the peer has one */
	int ret = softrdma_id_post(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &id->peer,
		hand->pending.msg.bytes + SOFTRDMA_HANDSHAKE_SIZE, NULL);
	if (ret)
		attempt_failed(hand, RDMA_CM_EVENT_CONNECT_ERROR, -ret, NULL);
}

int
softrdma_handshake_establish(struct softrdma_id *id)
{
	struct softrdma_handshaker *hand = id->handshaker;
	if (hand == NULL || hand->role != AWAITING_QP || !softrdma_external_qp_is_ready(id, true))
		return EINVAL;
	establish(hand);
	return 0;
}

static void
rejected(struct softrdma_handshaker *hand)
{
	char name[SOFTRDMA_NAME_SIZE];
	const char *server = softrdma_address_name(&hand->id->id.route.addr.dst_addr, name, sizeof(name));
	/* message(versions) */
	if (hand->pending.msg.peer.reason == SOFTRDMA_REJECT_VERSION)
		SOFTRDMA_LOG(ERROR,
			"%s speaks another version of the protocol than %u: install one version on both sides",
			server, SOFTRDMA_WIRE_VERSION);
	else if (hand->pending.msg.peer.reason == SOFTRDMA_REJECT_DAMAGED)
		/* message(damaged-request) */
		SOFTRDMA_LOG(ERROR, "%s got a request that was damaged on its way: try again", server);
	else if (hand->pending.msg.peer.reason == SOFTRDMA_REJECT_BUSY)
		/*
		 * message(connect, too-many-requests): more clients connect than the server accepts ->
		 * Accept faster, or raise `SOFTRDMA_MAX_PENDING` at the server.
		 */
		SOFTRDMA_LOG(WARNING,
			"%s has too many requests pending: try again, or see SOFTRDMA_MAX_PENDING", server);
	else if (hand->pending.msg.peer.reason == SOFTRDMA_REJECT_PLAIN)
		/*
		 * message(tls): the server has credentials, and this side has none -> Set the variables, or
		 * call rpma_peer_set_tls(3).
		 */
		SOFTRDMA_LOG(ERROR,
			"%s speaks TLS only, and this side has no credentials for it: see TLS in softrdma(7)",
			server);
	attempt_failed(hand, RDMA_CM_EVENT_REJECTED, hand->pending.msg.peer.reason, &hand->pending.msg.peer);
}

static void
replied(struct softrdma_pending *pending)
{
	struct softrdma_handshaker *hand = (struct softrdma_handshaker *)pending;
	if (pending->msg.peer.type == SOFTRDMA_HANDSHAKE_ACCEPT)
		accepted(hand);
	else if (pending->msg.peer.type == SOFTRDMA_HANDSHAKE_REJECT)
		rejected(hand);
	else
		/* message(another-server) */
		no_reply_of_ours(hand, "has replied with a request");
}

/*
 * gives the socket that an active id connects: the one it was bound with, or a new one; 0 or an errno value
 */
static int
connecting_socket(struct softrdma_id *id, int *fd_ptr)
{
	if (id->bound_fd >= 0) {
		*fd_ptr = id->bound_fd;
		id->bound_fd = -1;
		return 0;
	}
	const struct sockaddr *src = &id->id.route.addr.src_addr;
	int fd = softrdma_fork_socket(id->id.route.addr.dst_addr.sa_family,
		SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	if (id->source_given) {
		const int one = 1;
		setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
		if (bind(fd, src, softrdma_address_length(src)) != 0) {
			int ret = errno;
			softrdma_fork_close(fd);
			return ret;
		}
	}
	*fd_ptr = fd;
	return 0;
}

int
softrdma_handshake_connect(struct softrdma_id *id, const struct rdma_conn_param *param)
{
	static const struct rdma_conn_param nothing;
	const struct sockaddr *dst = &id->id.route.addr.dst_addr;
	if (param == NULL)
		param = &nothing;
	if (!softrdma_id_can_connect(id) || softrdma_address_length(dst) == 0)
		return EINVAL;
	if (id->state != SOFTRDMA_ID_IDLE && id->state != SOFTRDMA_ID_BOUND)
		return EINVAL;

	int fd = -1;
	int ret = softrdma_id_reserve(id);
	if (ret == 0)
		ret = connecting_socket(id, &fd);
	if (ret)
		return ret;
	int refused = softrdma_active_connect(fd, dst);
	struct softrdma_pending *pending = softrdma_active_new(&kind, fd, &ret);
	if (pending == NULL)
		return ret;
	struct softrdma_handshaker *hand = (struct softrdma_handshaker *)pending;
	hand->role = REQUESTING;
	hand->id = id;
	struct softrdma_handshake hs = { .type = request_type(id) };
	fill_qp(&hs, id, param);
	fill_parameters(&hs, param, NULL);
	softrdma_cm_msg_encode(&hand->pending.msg, &hs, param->private_data, param->private_data_len);
	id->asked = hs;
	id->handshaker = hand;
	id->state = SOFTRDMA_ID_CONNECTING;
	hand->patient_until =
		softrdma_now_ns() + (uint64_t)softrdma_refused_patience_ms() * SOFTRDMA_NS_PER_MS;
	if (refused)
		not_connected(hand, refused);
	return 0;
}

/* --- the passive side --- */

/* creates an id that has the addresses of the socket, and nothing else yet */
static struct softrdma_id *
id_of_request(struct softrdma_id *listener, int fd)
{
	pthread_mutex_lock(&listener->lock);
	struct softrdma_id *id = softrdma_id_new(listener->channel, listener->id.context, listener->id.ps);
	pthread_mutex_unlock(&listener->lock);
	if (id == NULL)
		return NULL;
	id->id.verbs = softrdma_context();
	id->id.port_num = 1;
	id->state = SOFTRDMA_ID_REQUESTED;
	socklen_t len = sizeof(id->id.route.addr.dst_storage);
	getpeername(fd, &id->id.route.addr.dst_addr, &len);
	remember_source(id, fd);
	return id;
}

static void
request_complete(struct softrdma_handshaker *hand)
{
	struct softrdma_id *listener = softrdma_listener_owner(hand->pending.listener);
	struct softrdma_id *id = id_of_request(listener, hand->pending.fd);
	if (id == NULL)
		goto err_busy;
	softrdma_pending_heard(&hand->pending);
	softrdma_timer_clear(&hand->pending.deadline); /* the application takes the time it needs */
	hand->role = AWAITING_DECISION;
	hand->id = id;
	id->handshaker = hand;
	id->peer = hand->pending.msg.peer;
	id->peer_known = true;
	if (softrdma_id_post(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &hand->pending.msg.peer,
		    hand->pending.msg.bytes + SOFTRDMA_HANDSHAKE_SIZE, id) == 0)
		return;
	id->handshaker = NULL;
	softrdma_id_free(id);
/* message(no-memory-for-event) */
err_busy:
	SOFTRDMA_LOG_FEW(&no_memory, ERROR, "no memory for a connection request: rejected");
	softrdma_pending_turn_away(&hand->pending, SOFTRDMA_REJECT_BUSY);
}

/* rejects in the name of the application, which does not learn of it */
static void
reject_by_fault(struct softrdma_handshaker *hand)
{
	char name[SOFTRDMA_NAME_SIZE];
	SOFTRDMA_LOG_FEW(&rejected_by_fault, NOTICE, "injected fault: the request of %s is rejected",
		softrdma_peer_name(hand->pending.fd, name, sizeof(name)));
	softrdma_pending_turn_away(&hand->pending, SOFTRDMA_REJECT_CONSUMER);
}

static void
tell_in_time(struct softrdma_handshaker *hand)
{
	if (softrdma_pending_sockets_is_time(hand->told_at, hand->pending.fd, &hand->pending.watched))
		request_complete(hand);
}

static void
await_look(struct softrdma_handshaker *hand)
{
	hand->role = AWAITING_LOOK;
	hand->told_at = softrdma_pending_sockets_look_after_next();
	tell_in_time(hand);
}

static void
read_request(struct softrdma_handshaker *hand)
{
	if (!softrdma_pending_read(&hand->pending))
		return;
	const uint8_t type = hand->pending.msg.peer.type;
	if (type != SOFTRDMA_HANDSHAKE_CONNECT && type != SOFTRDMA_HANDSHAKE_RESOLVE)
		softrdma_pending_not_understood(&hand->pending);
	else if (type != request_type(softrdma_listener_owner(hand->pending.listener)))
		softrdma_pending_turn_away(&hand->pending, SOFTRDMA_REJECT_NO_LISTENER);
	else if (softrdma_fault_plan_rejects())
		reject_by_fault(hand);
	else
		await_look(hand);
}

/* the application has not decided about it yet; all that can come is the end of the stream */
static void
watch_waiting_peer(struct softrdma_handshaker *hand)
{
	char byte;
	ssize_t n = softrdma_stream_peek(hand->pending.fd, hand->pending.tls, &byte);
	if (n == 0 || (n < 0 && errno != EAGAIN))
		hand->peer_gone = true;
}

/* 0 or an errno value */
static int
set_family_only(int fd, int family, enum softrdma_family_only only)
{
	const int value = only == SOFTRDMA_FAMILY_ONLY;
	if (family != AF_INET6 || only == SOFTRDMA_FAMILY_DEFAULT)
		return 0;
	return setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &value, sizeof(value)) == 0 ? 0 : errno;
}

int
softrdma_handshake_bind(struct sockaddr *addr, enum softrdma_family_only only, int *fd_ptr)
{
	const int one = 1;
	socklen_t len = softrdma_address_length(addr);
	if (len == 0)
		return EAFNOSUPPORT;
	int fd = softrdma_fork_socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	int ret = set_family_only(fd, addr->sa_family, only);
	if (ret == 0 &&
		(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
			bind(fd, addr, len) != 0 || getsockname(fd, addr, &len) != 0))
		ret = errno;
	if (ret)
		softrdma_fork_close(fd);
	else
		*fd_ptr = fd;
	return ret;
}

int
softrdma_handshake_listen(struct softrdma_id *id)
{
	if (id->state != SOFTRDMA_ID_IDLE && id->state != SOFTRDMA_ID_BOUND)
		return EINVAL;
	int ret = 0;
	if (id->bound_fd < 0) {
		id->id.route.addr.src_addr.sa_family = AF_INET; /* any address, any port */
		ret = softrdma_handshake_bind(&id->id.route.addr.src_addr, id->family_only, &id->bound_fd);
		if (ret)
			return ret;
	}
	ret = softrdma_listener_new(&kind, id->bound_fd, id->credentials, id, &id->listener);
	if (ret)
		return ret;
	id->bound_fd = -1;
	id->state = SOFTRDMA_ID_LISTENING;
	if (id->credentials == NULL)
		softrdma_cm_msg_warn_if_open(&id->id.route.addr.src_addr, "listening");
	return 0;
}

/* names the queue pair of datagrams; a client that is gone or shut out need not know. 0, or EINVAL: no datagrams can go to this number. */
static int
answer(struct softrdma_handshaker *hand, const struct rdma_conn_param *param)
{
	struct softrdma_id *id = hand->id;
	struct softrdma_cm_msg reply;
	struct softrdma_handshake hs = { .type = SOFTRDMA_HANDSHAKE_ACCEPT };
	fill_qp(&hs, id, param);
	if (!softrdma_datagram_id_can_name(hs.qp_num) || (id->id.qp && id->id.qp->qp_type != IBV_QPT_UD))
		return EINVAL;
	if (!softrdma_pending_is_shut_out(&hand->pending)) {
		softrdma_cm_msg_encode(&reply, &hs, param->private_data, param->private_data_len);
		softrdma_cm_msg_send(hand->pending.fd, hand->pending.tls, &reply);
		softrdma_cm_msg_read_away(hand->pending.fd);
	}
	end(hand);
	id->handshaker = NULL;
	id->state = SOFTRDMA_ID_CONNECTED;
	return 0;
}

int
softrdma_handshake_accept(struct softrdma_id *id, const struct rdma_conn_param *param)
{
	static const struct rdma_conn_param nothing;
	struct softrdma_handshaker *hand = id->handshaker;
	if (id->state != SOFTRDMA_ID_REQUESTED || !softrdma_id_can_connect(id))
		return EINVAL;
	if (id->external && !softrdma_external_qp_is_ready(id, false))
		return EINVAL;
	assert(hand); /* as long as it is a request */
	if (param == NULL)
		param = &nothing;
	if (softrdma_id_is_of_datagrams(id))
		return answer(hand, param);
	if (softrdma_id_reserve(id))
		return ENOMEM; /* still a request: it can be rejected, or tried again */

	softrdma_connection_of(id->link)->account = hand->pending.account;
	struct softrdma_cm_msg reply;
	struct softrdma_handshake hs = {
		.type = SOFTRDMA_HANDSHAKE_ACCEPT,
		.records = softrdma_cm_msg_agree(softrdma_cm_msg_wish(hand->pending.fd, hand->pending.tls),
			hand->pending.msg.peer.records),
	};
	fill_qp(&hs, id, param);
	fill_parameters(&hs, param, &hand->pending.msg.peer);
	softrdma_cm_msg_encode(&reply, &hs, param->private_data, param->private_data_len);
	const struct softrdma_handshake peer = hand->pending.msg.peer;
	bool gone = hand->peer_gone || softrdma_pending_is_shut_out(&hand->pending);
	struct softrdma_tls *tls;
	int fd = softrdma_pending_end_but_socket(&hand->pending, &tls);
	id->handshaker = NULL;
	id->state = SOFTRDMA_ID_CLOSED;
	int ret = gone ? ECONNRESET : softrdma_cm_msg_send(fd, tls, &reply);
	if (ret == 0)
		return softrdma_id_attach(id, fd, tls, &hs, &peer, NULL, false);
	/* as with hardware the acceptance itself succeeds, and an event reports that it did not arrive */
	softrdma_tls_delete(tls);
	softrdma_fork_close(fd);
	return softrdma_id_post(id, RDMA_CM_EVENT_CONNECT_ERROR, -ret, NULL, NULL, NULL);
}

int
softrdma_handshake_reject(struct softrdma_id *id, const void *private_data, uint8_t private_len)
{
	struct softrdma_handshaker *hand = id->handshaker;
	const bool awaits_qp = hand && hand->role == AWAITING_QP;
	if (id->state != SOFTRDMA_ID_REQUESTED && !awaits_qp)
		return EINVAL;
	assert(hand);     /* as long as it is a request */
	if (!awaits_qp) { /* else the peer sees the end of the stream */
		softrdma_account_refuse(hand->pending.account, SOFTRDMA_REFUSED_BY_APPLICATION);
		softrdma_cm_msg_reject(hand->pending.fd, hand->pending.tls, SOFTRDMA_REJECT_CONSUMER,
			private_data, private_len);
	}
	end(hand);
	id->handshaker = NULL;
	id->state = SOFTRDMA_ID_CLOSED;
	return 0;
}

void
softrdma_handshake_cancel(struct softrdma_id *id)
{
	struct softrdma_handshaker *hand = id->handshaker;
	if (hand == NULL && id->listener == NULL)
		return;
	if (id->listener)
		softrdma_listener_close(id->listener);
	id->listener = NULL;
	if (hand && hand->role == AWAITING_DECISION) {
		softrdma_account_refuse(hand->pending.account, SOFTRDMA_REFUSED_BY_APPLICATION);
		softrdma_cm_msg_reject(hand->pending.fd, hand->pending.tls, SOFTRDMA_REJECT_CONSUMER, NULL,
			0);
	}
	if (hand)
		end(hand);
	id->handshaker = NULL;
	id->state = SOFTRDMA_ID_CLOSED;
}

/* --- the progress thread --- */

static void
progress(struct softrdma_pending *pending, uint32_t events)
{
	struct softrdma_handshaker *hand = (struct softrdma_handshaker *)pending;
	switch (hand->role) {
	case REQUESTING:
		softrdma_active_progress(pending, events);
		break;
	case REFUSED:     /* a late event of the refused attempt */
	case AWAITING_QP: /* if the peer has left, the link finds that when it reads the stream */
		break;
	case READING_REQUEST:
		read_request(hand);
		break;
	case AWAITING_LOOK:
		tell_in_time(hand);
		break;
	case AWAITING_DECISION:
		watch_waiting_peer(hand);
		break;
	}
}

static void
expired(struct softrdma_pending *pending)
{
	struct softrdma_handshaker *hand = (struct softrdma_handshaker *)pending;
	if (hand->role == REFUSED)
		connect_again(hand);
	else if (pending->step == SOFTRDMA_ACTIVE_AWAITING_REPLY)
		no_reply(hand);
	else
		socket_failed(hand, ETIMEDOUT);
}
