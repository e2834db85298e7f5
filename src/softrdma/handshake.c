/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* handshake.c -- sockets that listen, and connections until both sides have agreed */

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "credentials.h"
#include "device.h"
#include "env.h"
#include "fault_plan.h"
#include "handshake.h"
#include "hello.h"
#include "io.h"
#include "source.h"
#include "stream.h"

#define NS_PER_MS 1000000u

enum role {
	LISTENING,
	CONNECTING,      /* active: the socket is not connected yet */
	REFUSED,         /* active: nobody listens; the socket is connected again at the deadline */
	SECURING,        /* active: TLS is being agreed on */
	AWAITING_REPLY,  /* active: CONNECT is sent */
	READING_REQUEST, /* passive: id is the listener's; TLS comes first */
	AWAITING_ANSWER, /* passive: id is the new one, the application has it or will get it */
};

struct softrdma_handshaker {
	struct softrdma_watched watched;
	enum role role;
	int fd;                   /* -1: cancelled */
	struct softrdma_tls *tls; /* NULL: plain */
	struct softrdma_id *id;
	struct softrdma_source source; /* incoming ones: who it is */
	unsigned rank;     /* incoming ones: how many of the source there were when it came, and itself */
	uint64_t deadline; /* ns, 0: none */
	uint64_t patient_until; /* CONNECTING, REFUSED: ns, how long a refusal is not the last word */
	bool try_again;         /* a listener that has not accepted all there is: the ticker goes on */
	bool peer_gone;         /* AWAITING_ANSWER: the other side has given up */

	struct softrdma_hello hello; /* received so far; CONNECTING, REFUSED: to be sent */

	struct softrdma_handshaker *next, *prev;
};

/* all handshakers, the newest first, for deadlines and caps; guarded by the manager's lock as everything here
 */
static struct softrdma_handshaker *all;
static unsigned incoming; /* READING_REQUEST and AWAITING_ANSWER */

/* caps on what comes in, from the environment when a listener is made */
static struct {
	unsigned pending, pending_per_address;
	unsigned wrong_keys; /* of one address; 0: no cap */
} caps;

static struct softrdma_log_limit turned_away = SOFTRDMA_LOG_LIMIT;
static struct softrdma_log_limit not_understood = SOFTRDMA_LOG_LIMIT;
static struct softrdma_log_limit too_late = SOFTRDMA_LOG_LIMIT;
static struct softrdma_log_limit not_trusted_here = SOFTRDMA_LOG_LIMIT;

/* TLS has stopped at a bound, and no edge tells of what is left: the others come first, and then this one */
static void
look_again_if_unread(struct softrdma_handshaker *hand)
{
	if (hand->fd >= 0 && softrdma_stream_is_unread(hand->tls))
		softrdma_io_look_again(hand->fd, &hand->watched);
}

static bool
is_incoming(const struct softrdma_handshaker *hand)
{
	return hand->role == READING_REQUEST || hand->role == AWAITING_ANSWER;
}

static void
set_try_again(struct softrdma_handshaker *listener, bool again)
{
	softrdma_io_timed(again - listener->try_again);
	listener->try_again = again;
}

static void handle(struct softrdma_watched *watched, uint32_t events);
static void tick(uint64_t now_ns);

static void
release(struct softrdma_watched *watched)
{
	free(watched);
}

/* watches the socket, which belongs to it from here on, also when it fails; NULL with *error */
static struct softrdma_handshaker *
new_handshaker(enum role role, int fd, struct softrdma_id *id, int *error)
{
	struct softrdma_handshaker *hand = calloc(1, sizeof(*hand));
	if (hand == NULL) {
		*error = ENOMEM;
		close(fd);
		return NULL;
	}
	hand->watched.handle = handle;
	hand->watched.release = release;
	hand->role = role;
	hand->fd = fd;
	hand->id = id;
	*error = softrdma_io_watch(fd, &hand->watched);
	if (*error) {
		close(fd);
		free(hand);
		return NULL;
	}
	hand->next = all;
	if (all)
		all->prev = hand;
	all = hand;
	if (is_incoming(hand))
		incoming++;
	softrdma_io_add_ticker(tick);
	return hand;
}

static void
leave_list(struct softrdma_handshaker *hand)
{
	softrdma_io_set_deadline(&hand->deadline, 0);
	set_try_again(hand, false);
	if (is_incoming(hand))
		incoming--;
	if (hand->prev)
		hand->prev->next = hand->next;
	else
		all = hand->next;
	if (hand->next)
		hand->next->prev = hand->prev;
}

/* it is over, or never came to anything; freed when the progress thread has let go of it */
static void
end(struct softrdma_handshaker *hand)
{
	int fd = hand->fd;
	leave_list(hand);
	softrdma_stream_leave(&hand->tls);
	hand->fd = -1;
	softrdma_io_unwatch(fd, &hand->watched);
}

/* it has come to an agreement: the socket goes on to live in a link */
static int
end_but_socket(struct softrdma_handshaker *hand, struct softrdma_tls **tls)
{
	int fd = hand->fd;
	leave_list(hand);
	*tls = hand->tls;
	hand->tls = NULL;
	hand->fd = -1;
	softrdma_io_forget(fd, &hand->watched);
	return fd;
}

/* --- messages --- */

static uint8_t
at_most(uint8_t value, uint8_t limit)
{
	return value < limit ? value : limit;
}

/* what the application asks for, within what the device and the peer (hs; NULL: not known yet) have */
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

/* --- agreement --- */

/*
 * The socket becomes the link's, the queue pair is ready to send. Under one hold of the link's lock, so that
 * no event of the link comes before ESTABLISHED of the active side. 0 or an errno value.
 */
static int
hand_over(struct softrdma_id *id, int fd, struct softrdma_tls *tls, const struct softrdma_handshake *own,
	const struct softrdma_handshake *peer, const uint8_t *peer_data, bool active)
{
	struct softrdma_link *link = id->link;
	if (link == NULL) {
		softrdma_tls_delete(tls);
		close(fd);
		return ECONNABORTED; /* the queue pair was destroyed meanwhile */
	}
	pthread_mutex_lock(&link->lock);
	softrdma_link_start(link, peer->seq, own->initiator_depth, own->responder_resources);
	link->rnr_retry = peer->rnr_retry;
	link->ready_due = active;
	if (!link->failed)
		link->qp->state = IBV_QPS_RTS;
	int ret = softrdma_io_attach(link, fd, tls, active ? peer->records : own->records);
	if (ret) {
		softrdma_link_lost(link);
	} else {
		id->state = SOFTRDMA_ID_CONNECTED;
		id->established = active;
		link->ops = &softrdma_id_link_ops;
		link->ops_arg = id;
		if (active)
			ret = softrdma_id_post(id, RDMA_CM_EVENT_ESTABLISHED, 0, peer, peer_data, NULL);
		else
			softrdma_io_deadline(link, SOFTRDMA_HANDSHAKE_TIMEOUT_MS);
		softrdma_io_send(link);
	}
	pthread_mutex_unlock(&link->lock);
	return ret;
}

/* --- the active side --- */

static void
attempt_failed(struct softrdma_handshaker *hand, enum rdma_cm_event_type type, int status,
	const struct softrdma_handshake *hs)
{
	struct softrdma_id *id = hand->id;
	id->handshaker = NULL;
	id->state = SOFTRDMA_ID_CLOSED;
	if (softrdma_id_post(id, type, status, hs, hand->hello.message + SOFTRDMA_HANDSHAKE_SIZE, NULL))
		SOFTRDMA_LOG(ERROR, "no memory for an event: a failed connection is not reported");
	end(hand);
}

static void
socket_failed(struct softrdma_handshaker *hand, int error)
{
	char name[SOFTRDMA_NAME_SIZE];
	const char *server = softrdma_hello_name(&hand->id->id.route.addr.dst_addr, name, sizeof(name));
	if (error == ECONNREFUSED) {
		SOFTRDMA_LOG(WARNING, "no software device listens at %s%s%s", server,
			*softrdma_refused_hint() ? "; " : "", softrdma_refused_hint());
		attempt_failed(hand, RDMA_CM_EVENT_REJECTED, SOFTRDMA_REJECT_NO_LISTENER, NULL);
	} else {
		SOFTRDMA_LOG(WARNING, "%s cannot be reached: %s", server, strerror(error));
		attempt_failed(hand, RDMA_CM_EVENT_UNREACHABLE, -error, NULL);
	}
}

/* the socket has an error before it was connected */
static void
not_connected(struct softrdma_handshaker *hand, int error)
{
	if (error == ECONNREFUSED && softrdma_now_ns() < hand->patient_until) {
		hand->role = REFUSED;
		softrdma_io_set_deadline(&hand->deadline, SOFTRDMA_REFUSED_RETRY_MS);
	} else {
		socket_failed(hand, error);
	}
}

/* Linux lets a socket that was refused connect again; the first call of two may only end the old attempt */
static void
connect_again(struct softrdma_handshaker *hand)
{
	const struct sockaddr *dst = &hand->id->id.route.addr.dst_addr;
	socklen_t len = dst->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	hand->role = CONNECTING;
	softrdma_io_set_deadline(&hand->deadline, SOFTRDMA_PEER_TIMEOUT_MS);
	int ret = connect(hand->fd, dst, len);
	if (ret != 0 && errno == ECONNABORTED)
		ret = connect(hand->fd, dst, len);
	if (ret != 0 && errno != EINPROGRESS)
		not_connected(hand, errno);
}

static void
no_answer_of_ours(struct softrdma_handshaker *hand, const char *what)
{
	char name[SOFTRDMA_NAME_SIZE];
	SOFTRDMA_LOG(ERROR, "%s %s%s%s",
		softrdma_hello_name(&hand->id->id.route.addr.dst_addr, name, sizeof(name)), what,
		*softrdma_refused_hint() ? "; " : "", softrdma_refused_hint());
	attempt_failed(hand, RDMA_CM_EVENT_REJECTED, -EPROTO, NULL);
}

static void
no_answer_of_this_version(struct softrdma_handshaker *hand)
{
	char what[128];
	snprintf(what, sizeof(what), "speaks version %u of the protocol of the software device, not %u",
		hand->hello.peer.version, SOFTRDMA_WIRE_VERSION);
	no_answer_of_ours(hand, what);
}

static void
remember_source(struct softrdma_id *id, int fd)
{
	socklen_t len = sizeof(id->id.route.addr.src_storage);
	getsockname(fd, &id->id.route.addr.src_addr, &len);
}

/* says CONNECT, on a stream that is ready for it */
static void
ask(struct softrdma_handshaker *hand)
{
	int error = softrdma_hello_ask(hand->fd, hand->tls, &hand->hello);
	if (error) {
		socket_failed(hand, error);
		return;
	}
	hand->role = AWAITING_REPLY;
	/* what was asked for is needed again when the answer comes */
	softrdma_handshake_decode(hand->hello.message, &hand->id->asked);
	hand->hello.length = 0;
	memset(&hand->hello.peer, 0, sizeof(hand->hello.peer));
	softrdma_io_set_deadline(&hand->deadline, SOFTRDMA_CONNECT_TIMEOUT_MS);
}

/* the server has not shown that it is trusted, or does not trust this side, and has ended the stream */
static void
not_trusted(struct softrdma_handshaker *hand)
{
	char name[SOFTRDMA_NAME_SIZE];
	const char *why = softrdma_tls_why(hand->tls);
	SOFTRDMA_LOG(ERROR, "no TLS with %s: %s",
		softrdma_hello_name(&hand->id->id.route.addr.dst_addr, name, sizeof(name)),
		*why ? why : "it has ended the connection, and may not use TLS");
	attempt_failed(hand, RDMA_CM_EVENT_REJECTED, -EPROTO, NULL);
}

/* goes on with the agreement on TLS */
static void
secure(struct softrdma_handshaker *hand)
{
	switch (softrdma_hello_secure(hand->tls)) {
	case SOFTRDMA_HELLO_INCOMPLETE:
		return;
	case SOFTRDMA_HELLO_COMPLETE:
		ask(hand);
		return;
	case SOFTRDMA_HELLO_NOT_OURS:
		no_answer_of_ours(hand, "does not use TLS, as this side must");
		return;
	default:
		not_trusted(hand);
		return;
	}
}

static void
begin_tls(struct softrdma_handshaker *hand)
{
	int error = softrdma_tls_new(hand->id->credentials->context, hand->fd, true, &hand->tls);
	if (error) {
		socket_failed(hand, error);
		return;
	}
	hand->role = SECURING;
	softrdma_io_set_deadline(&hand->deadline, SOFTRDMA_PEER_TIMEOUT_MS);
	secure(hand);
}

static void
socket_connected(struct softrdma_handshaker *hand)
{
	int error = 0;
	socklen_t len = sizeof(error);
	if (getsockopt(hand->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error) {
		not_connected(hand, error);
		return;
	}
	remember_source(hand->id, hand->fd);
	if (hand->id->credentials)
		begin_tls(hand);
	else
		ask(hand);
}

static void
accepted(struct softrdma_handshaker *hand)
{
	struct softrdma_id *id = hand->id;
	const struct softrdma_handshake peer = hand->hello.peer;
	struct softrdma_handshake own = id->asked;
	own.responder_resources = at_most(own.responder_resources, peer.initiator_depth);
	own.initiator_depth = at_most(own.initiator_depth, peer.responder_resources);

	uint8_t data[SOFTRDMA_PRIVATE_DATA_MAX];
	memcpy(data, hand->hello.message + SOFTRDMA_HANDSHAKE_SIZE, peer.private_len);
	id->handshaker = NULL;
	struct softrdma_tls *tls;
	int fd = end_but_socket(hand, &tls);
	int ret = hand_over(id, fd, tls, &own, &peer, data, true);
	if (ret) {
		SOFTRDMA_LOG(ERROR, "an accepted connection is given up: %s", strerror(ret));
		id->state = SOFTRDMA_ID_CLOSED;
		if (softrdma_id_post(id, RDMA_CM_EVENT_CONNECT_ERROR, -ret, NULL, NULL, NULL))
			SOFTRDMA_LOG(ERROR, "no memory for an event: a failed connection is not reported");
	}
}

static void
rejected(struct softrdma_handshaker *hand)
{
	char name[SOFTRDMA_NAME_SIZE];
	const char *server = softrdma_hello_name(&hand->id->id.route.addr.dst_addr, name, sizeof(name));
	if (hand->hello.peer.reason == SOFTRDMA_REJECT_VERSION)
		SOFTRDMA_LOG(ERROR, "%s speaks another version of the protocol than %u", server,
			SOFTRDMA_WIRE_VERSION);
	else if (hand->hello.peer.reason == SOFTRDMA_REJECT_DAMAGED)
		SOFTRDMA_LOG(ERROR, "%s got a request that was damaged on its way: try again", server);
	else if (hand->hello.peer.reason == SOFTRDMA_REJECT_BUSY)
		SOFTRDMA_LOG(WARNING, "%s has too many requests pending", server);
	else if (hand->hello.peer.reason == SOFTRDMA_REJECT_PLAIN)
		SOFTRDMA_LOG(ERROR, "%s speaks TLS only, and this side has no credentials for it", server);
	attempt_failed(hand, RDMA_CM_EVENT_REJECTED, hand->hello.peer.reason, &hand->hello.peer);
}

static void
read_reply(struct softrdma_handshaker *hand)
{
	switch (softrdma_hello_read(hand->fd, hand->tls, &hand->hello)) {
	case SOFTRDMA_HELLO_INCOMPLETE:
		return;
	case SOFTRDMA_HELLO_ENDED:
		if (hand->tls && *softrdma_tls_why(hand->tls)) {
			not_trusted(hand); /* the active side is looked at last */
			return;
		}
		no_answer_of_ours(hand, "has closed the connection without an answer");
		return;
	case SOFTRDMA_HELLO_NOT_OURS:
		no_answer_of_ours(hand, "does not speak the protocol of the software device");
		return;
	case SOFTRDMA_HELLO_OTHER_VERSION:
		no_answer_of_this_version(hand);
		return;
	case SOFTRDMA_HELLO_DAMAGED:
		no_answer_of_ours(hand, "has sent an answer that was damaged on its way (CRC32C)");
		return;
	default:
		break;
	}
	if (hand->hello.peer.type == SOFTRDMA_HANDSHAKE_ACCEPT)
		accepted(hand);
	else if (hand->hello.peer.type == SOFTRDMA_HANDSHAKE_REJECT)
		rejected(hand);
	else
		no_answer_of_ours(hand, "has answered with a request");
}

/* the socket an active id connects with: the one it was bound with, or a new one */
static int
connecting_socket(struct softrdma_id *id, int *fd_ptr)
{
	if (id->bound_fd >= 0) {
		*fd_ptr = id->bound_fd;
		id->bound_fd = -1;
		return 0;
	}
	const struct sockaddr *src = &id->id.route.addr.src_addr;
	int fd = socket(id->id.route.addr.dst_addr.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	if (id->source_given) {
		const int one = 1;
		setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
		socklen_t len =
			src->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
		if (bind(fd, src, len) != 0) {
			int ret = errno;
			close(fd);
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
	if (id->link == NULL || (dst->sa_family != AF_INET && dst->sa_family != AF_INET6))
		return EINVAL;
	if (id->state != SOFTRDMA_ID_IDLE && id->state != SOFTRDMA_ID_BOUND)
		return EINVAL;

	int fd = -1;
	int ret = softrdma_id_reserve(id);
	if (ret == 0)
		ret = connecting_socket(id, &fd);
	if (ret)
		return ret;
	socklen_t len = dst->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	int refused = connect(fd, dst, len) == 0 || errno == EINPROGRESS ? 0 : errno;
	struct softrdma_handshaker *hand = new_handshaker(CONNECTING, fd, id, &ret);
	if (hand == NULL)
		return ret;
	struct softrdma_handshake hs = {
		.type = SOFTRDMA_HANDSHAKE_CONNECT,
		.qp_num = id->id.qp->qp_num,
		.seq = id->link->seq,
	};
	fill_parameters(&hs, param, NULL);
	softrdma_hello_encode(&hand->hello, &hs, param->private_data, param->private_data_len);
	id->handshaker = hand;
	id->state = SOFTRDMA_ID_CONNECTING;
	softrdma_io_set_deadline(&hand->deadline, SOFTRDMA_PEER_TIMEOUT_MS);
	hand->patient_until = softrdma_now_ns() + (uint64_t)softrdma_refused_patience_ms() * NS_PER_MS;
	if (refused)
		not_connected(hand, refused);
	return 0;
}

/* --- the passive side --- */

/* the new id has the addresses of the socket and nothing else yet */
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
	struct softrdma_id *listener = hand->id;
	struct softrdma_id *id = id_of_request(listener, hand->fd);
	if (id == NULL)
		goto err_busy;
	softrdma_io_set_deadline(&hand->deadline, 0); /* the application takes the time it needs */
	hand->role = AWAITING_ANSWER;
	hand->id = id;
	id->handshaker = hand;
	if (softrdma_id_post(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &hand->hello.peer,
		    hand->hello.message + SOFTRDMA_HANDSHAKE_SIZE, id) == 0)
		return;
	id->handshaker = NULL;
	softrdma_id_free(id);
err_busy:
	SOFTRDMA_LOG(ERROR, "no memory for a connection request: rejected");
	softrdma_hello_reject(hand->fd, hand->tls, SOFTRDMA_REJECT_BUSY, NULL, 0);
	end(hand);
}

/* in the application's name, which does not learn of it */
static void
reject_by_fault(struct softrdma_handshaker *hand)
{
	char name[SOFTRDMA_NAME_SIZE];
	SOFTRDMA_LOG(NOTICE, "injected fault: the request of %s is rejected",
		softrdma_hello_peer_name(hand->fd, name, sizeof(name)));
	softrdma_hello_reject(hand->fd, hand->tls, SOFTRDMA_REJECT_CONSUMER, NULL, 0);
	end(hand);
}

/* whoever does not show that he is trusted gets no further; nobody but the log learns of him */
static void
turn_away_untrusted(struct softrdma_handshaker *hand)
{
	char name[SOFTRDMA_NAME_SIZE];
	const char *why = softrdma_tls_why(hand->tls);
	if (*why) /* else he has looked whether somebody is at home, and left */
		SOFTRDMA_LOG_FEW(&not_trusted_here, WARNING, "no TLS with %s: %s",
			softrdma_hello_peer_name(hand->fd, name, sizeof(name)), why);
	softrdma_hello_read_away(hand->fd);
	end(hand);
}

static void
turn_away_plain(struct softrdma_handshaker *hand)
{
	char name[SOFTRDMA_NAME_SIZE];
	SOFTRDMA_LOG_FEW(&not_trusted_here, WARNING, "%s does not use TLS, as it must here: rejected",
		softrdma_hello_peer_name(hand->fd, name, sizeof(name)));
	softrdma_hello_reject(hand->fd, NULL, SOFTRDMA_REJECT_PLAIN, NULL, 0);
	softrdma_hello_read_away(hand->fd);
	end(hand);
}

/* true: the stream is ready for a request; else nothing more can be done now, or it is over */
static bool
is_ready(struct softrdma_handshaker *hand)
{
	switch (softrdma_hello_secure(hand->tls)) {
	case SOFTRDMA_HELLO_COMPLETE:
		return true;
	case SOFTRDMA_HELLO_INCOMPLETE:
		return false;
	case SOFTRDMA_HELLO_NOT_OURS:
		turn_away_plain(hand);
		return false;
	default:
		turn_away_untrusted(hand);
		return false;
	}
}

static void
read_request(struct softrdma_handshaker *hand)
{
	char name[SOFTRDMA_NAME_SIZE];
	if (!is_ready(hand))
		return;
	switch (softrdma_hello_read(hand->fd, hand->tls, &hand->hello)) {
	case SOFTRDMA_HELLO_INCOMPLETE:
		return;
	case SOFTRDMA_HELLO_ENDED:
		end(hand); /* looked whether somebody is at home, and left */
		return;
	case SOFTRDMA_HELLO_OTHER_VERSION:
		SOFTRDMA_LOG_FEW(&not_understood, WARNING,
			"%s speaks version %u of the protocol, not %u: rejected",
			softrdma_hello_peer_name(hand->fd, name, sizeof(name)), hand->hello.peer.version,
			SOFTRDMA_WIRE_VERSION);
		softrdma_hello_reject(hand->fd, hand->tls, SOFTRDMA_REJECT_VERSION, NULL, 0);
		softrdma_hello_read_away(hand->fd);
		end(hand);
		return;
	case SOFTRDMA_HELLO_DAMAGED:
		SOFTRDMA_LOG_FEW(&not_understood, WARNING,
			"the request of %s was damaged on its way (CRC32C): rejected",
			softrdma_hello_peer_name(hand->fd, name, sizeof(name)));
		softrdma_hello_reject(hand->fd, hand->tls, SOFTRDMA_REJECT_DAMAGED, NULL, 0);
		softrdma_hello_read_away(hand->fd);
		end(hand);
		return;
	case SOFTRDMA_HELLO_COMPLETE:
		if (hand->hello.peer.type == SOFTRDMA_HANDSHAKE_CONNECT) {
			if (softrdma_fault_plan_rejects())
				reject_by_fault(hand);
			else
				request_complete(hand);
			return;
		}
		break;
	default:
		break;
	}
	bool tls = softrdma_hello_is_tls(&hand->hello);
	SOFTRDMA_LOG_FEW(&not_understood, WARNING, "%s %s: connection closed",
		softrdma_hello_peer_name(hand->fd, name, sizeof(name)),
		tls ? "speaks TLS, which this listener was given no credentials for"
		    : "does not speak the protocol of the software device");
	end(hand);
}

/* the application has not answered yet; all that can come is the end of the stream */
static void
watch_waiting_peer(struct softrdma_handshaker *hand)
{
	char byte;
	ssize_t n = softrdma_stream_peek(hand->fd, hand->tls, &byte);
	if (n == 0 || (n < 0 && errno != EAGAIN))
		hand->peer_gone = true;
}

static void
read_caps(void)
{
	struct rlimit files = { .rlim_cur = RLIM_INFINITY };
	uint64_t most = SOFTRDMA_PENDING_DEFAULT;
	getrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_cur / 2 < most)
		most = files.rlim_cur / 2 + 1;
	caps.pending = (unsigned)softrdma_setting("SOFTRDMA_MAX_PENDING", 1, SOFTRDMA_PENDING_MAX, most);
	caps.pending_per_address = (unsigned)softrdma_setting("SOFTRDMA_MAX_PENDING_PER_ADDRESS", 1,
		SOFTRDMA_PENDING_MAX, (caps.pending + 1) / 2);
	caps.wrong_keys = (unsigned)softrdma_setting("SOFTRDMA_MAX_WRONG_KEYS", 0, UINT32_MAX, 0);
}

/*
 * Room for one more under the caps, at the cost of one that is silent: an honest client says what it wants as
 * soon as it is connected. Of the same source that is the oldest. Of all it is one of the source that has the
 * most, and has come last there, by its rank; so whoever has one connection stays, however many others come
 * meanwhile. False: all that could go wait for the application.
 */
static bool
make_room(const struct softrdma_source *source, unsigned *rank)
{
	struct softrdma_handshaker *silent = NULL, *silent_alike = NULL;
	unsigned alike = 0;
	for (struct softrdma_handshaker *hand = all; hand; hand = hand->next) {
		if (!is_incoming(hand))
			continue;
		bool same = softrdma_source_equal(&hand->source, source);
		alike += same;
		if (hand->role != READING_REQUEST)
			continue;
		if (silent == NULL || hand->rank >= silent->rank)
			silent = hand;
		if (same)
			silent_alike = hand;
	}
	*rank = alike + 1;
	if (alike >= caps.pending_per_address)
		silent = silent_alike;
	else if (incoming < caps.pending)
		return true;
	if (silent)
		end(silent);
	return silent != NULL;
}

static void
take_socket(struct softrdma_handshaker *listener, int fd, const struct sockaddr *addr)
{
	int ret;
	unsigned rank;
	char name[SOFTRDMA_NAME_SIZE];
	const struct softrdma_source source = softrdma_source_of(addr);
	if (caps.wrong_keys && softrdma_source_accusations(&source, softrdma_now_ns()) >= caps.wrong_keys) {
		SOFTRDMA_LOG_FEW(&turned_away, WARNING, "%s is not heard: too many wrong keys from there",
			softrdma_hello_name(addr, name, sizeof(name)));
		close(fd);
		return;
	}
	if (!make_room(&source, &rank)) {
		SOFTRDMA_LOG_FEW(&turned_away, WARNING, "%s is rejected: too many requests are pending",
			softrdma_hello_name(addr, name, sizeof(name)));
		softrdma_hello_reject(fd, NULL, SOFTRDMA_REJECT_BUSY, NULL, 0);
		softrdma_hello_read_away(fd);
		close(fd);
		return;
	}
	struct softrdma_handshaker *hand = new_handshaker(READING_REQUEST, fd, listener->id, &ret);
	if (hand == NULL) {
		SOFTRDMA_LOG_FEW(&turned_away, ERROR, "an incoming connection is dropped: %s", strerror(ret));
		return;
	}
	hand->source = source;
	hand->rank = rank;
	softrdma_io_set_deadline(&hand->deadline, SOFTRDMA_HANDSHAKE_TIMEOUT_MS);
	struct softrdma_credentials *credentials = listener->id->credentials;
	ret = credentials ? softrdma_tls_new(credentials->context, fd, false, &hand->tls) : 0;
	if (ret) {
		SOFTRDMA_LOG_FEW(&turned_away, ERROR, "an incoming connection is dropped: %s", strerror(ret));
		end(hand);
		return;
	}
	read_request(hand);
	look_again_if_unread(hand);
}

enum softrdma_accept
softrdma_handshake_accept_socket(int listening, bool tell, struct sockaddr_storage *addr, int *fd)
{
	socklen_t len = sizeof(*addr);
	*addr = (struct sockaddr_storage){ 0 };
	*fd = accept4(listening, (struct sockaddr *)addr, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (*fd >= 0)
		return SOFTRDMA_ACCEPTED;
	switch (errno) {
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		if (tell)
			SOFTRDMA_LOG(ERROR, "incoming connections wait: %s (raise the limit of open files)",
				strerror(errno));
		return SOFTRDMA_ACCEPT_LATER;
	case EAGAIN:
	case EBADF:
	case EINVAL:
		return SOFTRDMA_ACCEPT_NONE;
	default:
		return SOFTRDMA_ACCEPT_FAILED;
	}
}

/* one accept(2); false: nothing more to accept now */
static bool
accept_one(struct softrdma_handshaker *listener)
{
	struct sockaddr_storage addr;
	int fd;
	switch (softrdma_handshake_accept_socket(listener->fd, !listener->try_again, &addr, &fd)) {
	case SOFTRDMA_ACCEPTED:
		take_socket(listener, fd, (const struct sockaddr *)&addr);
		return true;
	case SOFTRDMA_ACCEPT_FAILED:
		return true; /* the next */
	case SOFTRDMA_ACCEPT_LATER:
		set_try_again(listener, true);
		return false;
	default:
		set_try_again(listener, false);
		return false;
	}
}

static void
accept_sockets(struct softrdma_handshaker *listener)
{
	for (int turn = 0; turn < SOFTRDMA_ACCEPT_TURNS; turn++) {
		if (!accept_one(listener))
			return;
	}
	/* a tick would be late: it takes SOFTRDMA_ACCEPT_TURNS of the thousands that may wait */
	set_try_again(listener, softrdma_io_look_again(listener->fd, &listener->watched) != 0);
}

int
softrdma_handshake_bind(struct sockaddr *addr, int *fd_ptr)
{
	const int one = 1;
	socklen_t len =
		addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	if (addr->sa_family != AF_INET && addr->sa_family != AF_INET6)
		return EAFNOSUPPORT;
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	int ret = 0;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 || bind(fd, addr, len) != 0 ||
		getsockname(fd, addr, &len) != 0)
		ret = errno;
	if (ret)
		close(fd);
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
		ret = softrdma_handshake_bind(&id->id.route.addr.src_addr, &id->bound_fd);
		if (ret)
			return ret;
	}
	/* what is full here drops packets, and who is dropped comes again in a second */
	if (listen(id->bound_fd, SOMAXCONN) != 0)
		return errno;
	int fd = id->bound_fd;
	id->bound_fd = -1;
	read_caps();
	id->handshaker = new_handshaker(LISTENING, fd, id, &ret);
	if (id->handshaker == NULL)
		return ret;
	id->state = SOFTRDMA_ID_LISTENING;
	if (id->credentials == NULL)
		softrdma_hello_warn_if_open(&id->id.route.addr.src_addr, "listening");
	return 0;
}

int
softrdma_handshake_accept(struct softrdma_id *id, const struct rdma_conn_param *param)
{
	static const struct rdma_conn_param nothing;
	struct softrdma_handshaker *hand = id->handshaker;
	if (id->state != SOFTRDMA_ID_REQUESTED || id->link == NULL)
		return EINVAL;
	assert(hand); /* as long as it is a request */
	if (param == NULL)
		param = &nothing;
	if (softrdma_id_reserve(id))
		return ENOMEM; /* still a request: it can be rejected, or tried again */

	struct softrdma_hello answer;
	struct softrdma_handshake hs = {
		.type = SOFTRDMA_HANDSHAKE_ACCEPT,
		.qp_num = id->id.qp->qp_num,
		.seq = id->link->seq,
		.records = softrdma_hello_agree(softrdma_hello_wish(hand->fd, hand->tls),
			hand->hello.peer.records),
	};
	fill_parameters(&hs, param, &hand->hello.peer);
	softrdma_hello_encode(&answer, &hs, param->private_data, param->private_data_len);
	const struct softrdma_handshake peer = hand->hello.peer;
	bool gone = hand->peer_gone;
	struct softrdma_tls *tls;
	int fd = end_but_socket(hand, &tls);
	id->handshaker = NULL;
	id->state = SOFTRDMA_ID_CLOSED;
	int ret = gone ? ECONNRESET : softrdma_hello_send(fd, tls, &answer);
	if (ret == 0)
		return hand_over(id, fd, tls, &hs, &peer, NULL, false);
	/* as with hardware the acceptance itself succeeds, and an event tells that nobody heard it */
	softrdma_tls_delete(tls);
	close(fd);
	return softrdma_id_post(id, RDMA_CM_EVENT_CONNECT_ERROR, -ret, NULL, NULL, NULL);
}

int
softrdma_handshake_reject(struct softrdma_id *id, const void *private_data, uint8_t private_len)
{
	struct softrdma_handshaker *hand = id->handshaker;
	if (id->state != SOFTRDMA_ID_REQUESTED)
		return EINVAL;
	assert(hand); /* as long as it is a request */
	softrdma_hello_reject(hand->fd, hand->tls, SOFTRDMA_REJECT_CONSUMER, private_data, private_len);
	end(hand);
	id->handshaker = NULL;
	id->state = SOFTRDMA_ID_CLOSED;
	return 0;
}

/* requests that have not become ids yet end with their listener */
static void
end_requests_of(const struct softrdma_id *listener)
{
	struct softrdma_handshaker *next;
	for (struct softrdma_handshaker *hand = all; hand; hand = next) {
		next = hand->next;
		if (hand->role == READING_REQUEST && hand->id == listener) {
			softrdma_hello_reject(hand->fd, hand->tls, SOFTRDMA_REJECT_NO_LISTENER, NULL, 0);
			end(hand);
		}
	}
}

void
softrdma_handshake_cancel(struct softrdma_id *id)
{
	struct softrdma_handshaker *hand = id->handshaker;
	if (hand == NULL)
		return;
	if (hand->role == LISTENING)
		end_requests_of(id);
	if (hand->role == AWAITING_ANSWER)
		softrdma_hello_reject(hand->fd, hand->tls, SOFTRDMA_REJECT_CONSUMER, NULL, 0);
	end(hand);
	id->handshaker = NULL;
	id->state = SOFTRDMA_ID_CLOSED;
}

/* --- the progress thread --- */

static void
handle(struct softrdma_watched *watched, uint32_t events)
{
	struct softrdma_handshaker *hand = (struct softrdma_handshaker *)watched;
	softrdma_cm_lock();
	if (hand->fd >= 0) {
		switch (hand->role) {
		case LISTENING:
			accept_sockets(hand);
			break;
		case CONNECTING:
			if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
				socket_connected(hand);
			/* a server that talks before it is asked, in the same event */
			if (hand->fd >= 0 && hand->role == AWAITING_REPLY)
				read_reply(hand);
			break;
		case SECURING:
			secure(hand);
			/* and what TLS holds, which comes with no event */
			if (hand->fd >= 0 && hand->role == AWAITING_REPLY)
				read_reply(hand);
			break;
		case REFUSED: /* what is left to be said of the refusal */
			break;
		case AWAITING_REPLY:
			read_reply(hand);
			break;
		case READING_REQUEST:
			read_request(hand);
			break;
		case AWAITING_ANSWER:
			watch_waiting_peer(hand);
			break;
		}
		look_again_if_unread(hand);
	}
	softrdma_cm_unlock();
}

static void
deadline_passed(struct softrdma_handshaker *hand)
{
	char name[SOFTRDMA_NAME_SIZE];
	switch (hand->role) {
	case CONNECTING:
	case SECURING:
	case AWAITING_REPLY:
		socket_failed(hand, ETIMEDOUT);
		break;
	case REFUSED:
		connect_again(hand);
		break;
	default:
		assert(hand->role == READING_REQUEST);
		SOFTRDMA_LOG_FEW(&too_late, WARNING,
			"%s did not finish its request in time: connection closed",
			softrdma_hello_peer_name(hand->fd, name, sizeof(name)));
		end(hand);
		break;
	}
}

static void
tick(uint64_t now_ns)
{
	softrdma_cm_lock();
	struct softrdma_handshaker *next;
	for (struct softrdma_handshaker *hand = all; hand; hand = next) {
		next = hand->next;
		if (hand->deadline && now_ns >= hand->deadline)
			deadline_passed(hand);
	}
	/* a listener stays, but may end others to make room */
	for (struct softrdma_handshaker *hand = all; hand; hand = hand->next) {
		if (hand->try_again)
			accept_sockets(hand);
	}
	softrdma_cm_unlock();
}
