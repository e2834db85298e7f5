/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* pending.c -- connections that are not established yet (half-open), and the sockets that listen for them */

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/sockaddr.h"
#include "softrdma/base/variables.h"
#include "softrdma/cm/cm.h"
#include "softrdma/cm/pending.h"
#include "softrdma/engine/accounts.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/pending_sockets.h"
#include "softrdma/wire/credentials.h"
#include "softrdma/wire/stream.h"

/*
 * connections accepted in one turn: in a flood other threads need the lock, and established connections the
 * thread
 */
#define ACCEPT_TURNS 16

struct softrdma_listener {
	struct softrdma_watched watched; /* first: the progress thread finds the listener by it */
	const struct softrdma_pending_kind *kind;
	int fd; /* -1: closed */
	struct softrdma_credentials *credentials;
	void *owner;
	unsigned account;
	bool try_again; /* true if connections are left that accept(2) could not take: the next beat tries again */
	struct softrdma_listener *next, *prev;
};
static_assert(offsetof(struct softrdma_listener, watched) == 0,
	"the progress thread knows the first member only");
static_assert(offsetof(struct softrdma_pending, watched) == 0,
	"the progress thread knows the first member only");

/* guarded by the manager's lock, like everything here; the newest first */
static struct softrdma_pending *all;
static struct softrdma_listener *listeners;

static void
after_fork(void)
{
	softrdma_fork_keep(all);
	softrdma_fork_keep(listeners);
	all = NULL;
	listeners = NULL;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

/* caps on incoming connections, read from the environment when a listener is opened */
static struct {
	unsigned pending, pending_per_address;
} caps;

static struct softrdma_log_limit turned_away = SOFTRDMA_LOG_LIMIT;
static struct softrdma_log_limit not_understood = SOFTRDMA_LOG_LIMIT;
static struct softrdma_log_limit too_late = SOFTRDMA_LOG_LIMIT;
static struct softrdma_log_limit not_trusted = SOFTRDMA_LOG_LIMIT;
static struct softrdma_log_limit must_wait = SOFTRDMA_LOG_ONCE;

static void tick(uint64_t now_ns);

static void
put(struct softrdma_watched *watched)
{
	free(watched);
}

/* --- one connection --- */

/*
 * TLS may have stopped at a bound with bytes left, and no edge comes for these: it gets another turn after
 * the others
 */
static void
make_progress(struct softrdma_pending *pending, uint32_t events)
{
	pending->kind->progress(pending, events);
	if (pending->fd >= 0 && softrdma_stream_is_unread(pending->tls))
		softrdma_pending_sockets_look_again(pending->fd, &pending->watched);
}

static void
handle(struct softrdma_watched *watched, uint32_t events)
{
	struct softrdma_pending *pending = (struct softrdma_pending *)watched;
	softrdma_cm_lock();
	if (pending->fd >= 0)
		make_progress(pending, events);
	softrdma_cm_unlock();
}

struct softrdma_pending *
softrdma_pending_new(const struct softrdma_pending_kind *kind, int fd, int *error)
{
	struct softrdma_pending *pending = calloc(1, kind->size);
	if (pending == NULL) {
		*error = ENOMEM;
		softrdma_fork_close(fd);
		return NULL;
	}
	pending->watched.handle = handle;
	pending->watched.put = put;
	pending->kind = kind;
	pending->fd = fd;
	/* so that a TLS message sent in several parts leaves at once; this cannot fail on a TCP socket */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	*error = softrdma_pending_sockets_watch(fd, &pending->watched);
	if (*error) {
		softrdma_fork_close(fd);
		free(pending);
		return NULL;
	}
	pending->next = all;
	if (all)
		all->prev = pending;
	all = pending;
	softrdma_engine_at_beat(SOFTRDMA_BEAT_DEADLINES, tick);
	return pending;
}

static void
leave_list(struct softrdma_pending *pending)
{
	if (pending->kind->forget)
		pending->kind->forget(pending);
	softrdma_timer_clear(&pending->deadline);
	if (pending->incoming.origin)
		softrdma_incoming_remove(&pending->incoming);
	if (pending->prev)
		pending->prev->next = pending->next;
	else
		all = pending->next;
	if (pending->next)
		pending->next->prev = pending->prev;
}

void
softrdma_pending_end(struct softrdma_pending *pending)
{
	int fd = pending->fd;
	leave_list(pending);
	softrdma_stream_leave(&pending->tls);
	pending->fd = -1;
	softrdma_pending_sockets_unwatch(fd, &pending->watched);
}

int
softrdma_pending_end_but_socket(struct softrdma_pending *pending, struct softrdma_tls **tls)
{
	int fd = pending->fd;
	leave_list(pending);
	*tls = pending->tls;
	pending->tls = NULL;
	pending->fd = -1;
	softrdma_pending_sockets_forget(fd, &pending->watched);
	return fd;
}

static void
log_shut_out(const char *name)
{
	/*
	 * message(connected, not-heard): the address has reached `SOFTRDMA_MAX_WRONG_KEYS` -> It is heard
	 * again a minute after the last one. All clients behind one address share the count.
	 */
	SOFTRDMA_LOG_FEW(&turned_away, WARNING, "%s is not heard: too many wrong keys from there", name);
}

bool
softrdma_pending_is_shut_out(const struct softrdma_pending *pending)
{
	char name[SOFTRDMA_NAME_SIZE];
	assert(pending->incoming.origin);
	if (!softrdma_source_is_shut_out(softrdma_incoming_source(&pending->incoming), softrdma_now_ns()))
		return false;
	log_shut_out(softrdma_peer_name(pending->fd, name, sizeof(name)));
	softrdma_account_refuse(pending->account, SOFTRDMA_REFUSED_SHUT_OUT);
	return true;
}

/* no default: the compiler names a reason that is missing */
static enum softrdma_refusal
refusal_of(enum softrdma_reject_reason reason)
{
	switch (reason) {
	case SOFTRDMA_REJECT_BUSY:
		return SOFTRDMA_REFUSED_BUSY;
	case SOFTRDMA_REJECT_NO_LISTENER:
		return SOFTRDMA_REFUSED_CLOSED;
	case SOFTRDMA_REJECT_VERSION:
		return SOFTRDMA_REFUSED_VERSION;
	case SOFTRDMA_REJECT_DAMAGED:
		return SOFTRDMA_REFUSED_DAMAGED;
	case SOFTRDMA_REJECT_PLAIN: /* turn_away_plain() counts it by itself */
	case SOFTRDMA_REJECT_CONSUMER:
		break;
	}
	return SOFTRDMA_REFUSED_BY_APPLICATION;
}

void
softrdma_pending_turn_away(struct softrdma_pending *pending, enum softrdma_reject_reason reason)
{
	softrdma_account_refuse(pending->account, refusal_of(reason));
	softrdma_cm_msg_reject(pending->fd, pending->tls, reason, NULL, 0);
	softrdma_cm_msg_read_away(pending->fd);
	softrdma_pending_end(pending);
}

/* --- the first message of an incoming one --- */

/* closes the connection of a peer that has not proved its identity; the application does not learn of it */
static void
turn_away_untrusted(struct softrdma_pending *pending)
{
	char name[SOFTRDMA_NAME_SIZE];
	const char *why = softrdma_tls_why(pending->tls);
	if (*why) { /* else it was a probe for a listener, and has left */
		SOFTRDMA_LOG_FEW(&not_trusted, WARNING, "no TLS with %s: %s",
			softrdma_peer_name(pending->fd, name, sizeof(name)), why);
		softrdma_account_refuse(pending->account, SOFTRDMA_REFUSED_UNTRUSTED);
	}
	softrdma_cm_msg_read_away(pending->fd);
	softrdma_pending_end(pending);
}

static void
turn_away_plain(struct softrdma_pending *pending)
{
	char name[SOFTRDMA_NAME_SIZE];
	/* message(other-side-without-tls) */
	SOFTRDMA_LOG_FEW(&not_trusted, WARNING, "%s does not use TLS, as it must here: rejected",
		softrdma_peer_name(pending->fd, name, sizeof(name)));
	softrdma_account_refuse(pending->account, SOFTRDMA_REFUSED_PLAIN);
	softrdma_cm_msg_reject(pending->fd, NULL, SOFTRDMA_REJECT_PLAIN, NULL, 0);
	softrdma_cm_msg_read_away(pending->fd);
	softrdma_pending_end(pending);
}

/* true if the stream is ready for a message; else TLS waits for more bytes, or the connection has ended */
static bool
is_secure(struct softrdma_pending *pending)
{
	switch (softrdma_cm_msg_secure(pending->tls)) {
	case SOFTRDMA_CM_MSG_COMPLETE:
		return true;
	case SOFTRDMA_CM_MSG_INCOMPLETE:
		return false;
	case SOFTRDMA_CM_MSG_NOT_OURS:
		turn_away_plain(pending);
		return false;
	default:
		turn_away_untrusted(pending);
		return false;
	}
}

/* a plain stream that ends without a message was a probe for a listener: nothing to log */
static void
message_ended(struct softrdma_pending *pending)
{
	if (pending->tls)
		turn_away_untrusted(pending);
	else
		softrdma_pending_end(pending);
}

static void
log_too_many(const char *name)
{
	/* message(too-many-requests) */
	SOFTRDMA_LOG_FEW(&turned_away, WARNING,
		"%s is rejected: too many requests are pending (SOFTRDMA_MAX_PENDING)", name);
}

/* true if its request may wait for the owner of its listener; else it was turned away */
static bool
may_wait(struct softrdma_pending *pending)
{
	char name[SOFTRDMA_NAME_SIZE];
	if (softrdma_incoming_may_wait(&pending->incoming, caps.pending, caps.pending_per_address))
		return true;
	log_too_many(softrdma_peer_name(pending->fd, name, sizeof(name)));
	softrdma_pending_turn_away(pending, SOFTRDMA_REJECT_BUSY);
	return false;
}

bool
softrdma_pending_read(struct softrdma_pending *pending)
{
	char name[SOFTRDMA_NAME_SIZE];
	assert(pending->incoming.silent);
	if (softrdma_pending_is_shut_out(pending)) {
		softrdma_pending_end(pending);
		return false;
	}
	if (!is_secure(pending))
		return false;
	switch (softrdma_cm_msg_read(pending->fd, pending->tls, &pending->msg)) {
	case SOFTRDMA_CM_MSG_COMPLETE:
		return may_wait(pending);
	case SOFTRDMA_CM_MSG_INCOMPLETE:
		return false;
	case SOFTRDMA_CM_MSG_ENDED:
		message_ended(pending);
		return false;
	case SOFTRDMA_CM_MSG_OTHER_VERSION:
		/* message(versions) */
		SOFTRDMA_LOG_FEW(&not_understood, WARNING,
			"%s speaks version %u of the protocol, not %u: rejected",
			softrdma_peer_name(pending->fd, name, sizeof(name)), pending->msg.peer.version,
			SOFTRDMA_WIRE_VERSION);
		softrdma_pending_turn_away(pending, SOFTRDMA_REJECT_VERSION);
		return false;
	case SOFTRDMA_CM_MSG_DAMAGED:
		/* message(damaged-request) */
		SOFTRDMA_LOG_FEW(&not_understood, WARNING,
			"the request of %s was damaged on its way (CRC32C): rejected",
			softrdma_peer_name(pending->fd, name, sizeof(name)));
		softrdma_pending_turn_away(pending, SOFTRDMA_REJECT_DAMAGED);
		return false;
	default:
		softrdma_pending_not_understood(pending);
		return false;
	}
}

void
softrdma_pending_heard(struct softrdma_pending *pending)
{
	softrdma_incoming_heard(&pending->incoming);
	pending->listener = NULL;
}

void
softrdma_pending_not_understood(struct softrdma_pending *pending)
{
	char name[SOFTRDMA_NAME_SIZE];
	const char *peer = softrdma_peer_name(pending->fd, name, sizeof(name));
	/*
	 * message(tls): at a server without credentials -> Set the variables at the server and start it
	 * again.
	 */
	if (softrdma_cm_msg_is_tls(&pending->msg))
		SOFTRDMA_LOG_FEW(&not_understood, WARNING,
			"%s speaks TLS, which this listener was given no credentials for: connection closed",
			peer);
	else
		/*
		 * message(connect): at the server: a client of another protocol came (a browser, a port
		 * scanner) -> Nothing, if it stays alone. Else look at who connects, and keep strangers
		 * away by a firewall.
		 */
		SOFTRDMA_LOG_FEW(&not_understood, WARNING,
			"%s does not speak the protocol of the software device: connection closed", peer);
	softrdma_account_refuse(pending->account, SOFTRDMA_REFUSED_NOT_UNDERSTOOD);
	softrdma_pending_end(pending);
}

/* --- listeners --- */

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
	softrdma_source_set_limit((unsigned)softrdma_setting("SOFTRDMA_MAX_WRONG_KEYS", 0, UINT32_MAX, 0));
}

static void
end_silent(struct softrdma_pending *pending)
{
	softrdma_account_refuse(pending->account, SOFTRDMA_REFUSED_SILENT);
	softrdma_pending_end(pending);
}

static struct softrdma_pending *
pending_of(struct softrdma_incoming *incoming)
{
	return (struct softrdma_pending *)((char *)incoming - offsetof(struct softrdma_pending, incoming));
}

/*
 * Makes room for one more incoming connection under the caps, by closing a silent one: of the same source if that
 * has too many. An honest client is not hurt: it sends its request as soon as it is connected. False: none that could be
 * closed is silent.
 */
static bool
make_room(const struct softrdma_source *source)
{
	struct softrdma_incoming *silent;
	if (softrdma_incoming_count_of(source) >= caps.pending_per_address)
		silent = softrdma_incoming_oldest_of(source);
	else if (softrdma_incoming_count() >= caps.pending)
		silent = softrdma_incoming_first_to_go();
	else
		return true;
	if (silent)
		end_silent(pending_of(silent));
	return silent != NULL;
}

/* true if the connection may go on; else it has been closed */
static bool
is_welcome(unsigned account, int fd, const struct sockaddr *addr, const struct softrdma_source *source)
{
	char name[SOFTRDMA_NAME_SIZE];
	if (softrdma_source_is_shut_out(source, softrdma_now_ns())) {
		log_shut_out(softrdma_address_name(addr, name, sizeof(name)));
		softrdma_account_refuse(account, SOFTRDMA_REFUSED_SHUT_OUT);
		softrdma_fork_close(fd);
		return false;
	}
	if (make_room(source))
		return true;
	log_too_many(softrdma_address_name(addr, name, sizeof(name)));
	softrdma_account_refuse(account, SOFTRDMA_REFUSED_BUSY);
	softrdma_cm_msg_reject(fd, NULL, SOFTRDMA_REJECT_BUSY, NULL, 0);
	softrdma_cm_msg_read_away(fd);
	softrdma_fork_close(fd);
	return false;
}

static void
drop(unsigned account, int error)
{
	softrdma_account_refuse(account, SOFTRDMA_REFUSED_BUSY);
	/* message(given-up) */
	SOFTRDMA_LOG_FEW(&turned_away, ERROR, "an incoming connection is dropped: %s", strerror(error));
}

static void
take_socket(struct softrdma_listener *listener, int fd, const struct sockaddr *addr)
{
	int ret;
	const struct softrdma_source source = softrdma_source_of(addr);
	if (!is_welcome(listener->account, fd, addr, &source))
		return;
	struct softrdma_pending *pending = softrdma_pending_new(listener->kind, fd, &ret);
	if (pending == NULL) {
		drop(listener->account, ret);
		return;
	}
	if (!softrdma_incoming_add(&pending->incoming, &source)) {
		drop(listener->account, ENOMEM);
		softrdma_pending_end(pending);
		return;
	}
	pending->listener = listener;
	pending->account = listener->account;
	softrdma_timer_set_ms(&pending->deadline, SOFTRDMA_HANDSHAKE_TIMEOUT_MS);
	struct softrdma_credentials *credentials = listener->credentials;
	ret = credentials ? softrdma_credentials_start_tls(credentials, fd, false, &pending->tls) : 0;
	if (ret) {
		drop(listener->account, ret);
		softrdma_pending_end(pending);
		return;
	}
	/* TLS gets a turn of its own: bytes that have come already raise an event */
	if (credentials == NULL)
		make_progress(pending, 0);
}

static void
set_try_again(struct softrdma_listener *listener, bool again)
{
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, again - listener->try_again);
	listener->try_again = again;
}

/* accept(2) has failed, and can be tried again: says what is missing, and what to set */
static void
tell_that_they_wait(int error)
{
	struct rlimit files = { 0 };
	getrlimit(RLIMIT_NOFILE, &files);
	/*
	 * message(limits, incoming-wait): a server has no descriptor for the next client -> Raise the
	 * limit, or close what is not needed. Clients wait meanwhile, and time out.
	 */
	if (error == EMFILE)
		SOFTRDMA_LOG_FEW(&must_wait, ERROR,
			"incoming connections wait: this process may have %llu descriptors, and each connection "
			"takes one, and others for its events: raise the limit (ulimit -n, LimitNOFILE= of "
			"systemd)",
			(unsigned long long)files.rlim_cur);
	else if (error == ENFILE)
		/* message(incoming-wait) */
		SOFTRDMA_LOG_FEW(&must_wait, ERROR,
			"incoming connections wait: this machine has reached its limit of descriptors: raise the "
			"limit (sysctl fs.file-max)");
	else
		/* message(incoming-wait) */
		SOFTRDMA_LOG_FEW(&must_wait, ERROR, "incoming connections wait: %s", strerror(error));
}

/* calls accept(2) once; false: nothing more to accept now */
static bool
accept_one(struct softrdma_listener *listener)
{
	struct sockaddr_storage addr = { 0 };
	socklen_t len = sizeof(addr);
	int fd = softrdma_fork_accept(listener->fd, (struct sockaddr *)&addr, &len,
		SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		take_socket(listener, fd, (const struct sockaddr *)&addr);
		return true;
	}
	switch (errno) {
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		/* no new edge comes for connections that wait already */
		if (!listener->try_again)
			tell_that_they_wait(errno);
		set_try_again(listener, true);
		return false;
	case EAGAIN:
	case EBADF:
	case EINVAL:
		set_try_again(listener, false);
		return false;
	default:
		return true; /* this connection has failed (accept(2)); others may wait */
	}
}

static void
accept_sockets(struct softrdma_listener *listener)
{
	/* the progress of a connection may close its listener */
	for (int turn = 0; turn < ACCEPT_TURNS && listener->fd >= 0; turn++) {
		if (!accept_one(listener))
			return;
	}
	/* thousands may wait, and a tick accepts only ACCEPT_TURNS: ask for another turn at once */
	if (listener->fd >= 0)
		set_try_again(listener,
			softrdma_pending_sockets_look_again(listener->fd, &listener->watched) != 0);
}

static void
handle_listener(struct softrdma_watched *watched, uint32_t events)
{
	struct softrdma_listener *listener = (struct softrdma_listener *)watched;
	(void)events;
	softrdma_cm_lock();
	if (listener->fd >= 0)
		accept_sockets(listener);
	softrdma_cm_unlock();
}

static unsigned
account_at(int fd)
{
	union softrdma_address addr = { .any.sa_family = AF_UNSPEC };
	socklen_t len = sizeof(addr);
	getsockname(fd, &addr.any, &len);
	return softrdma_account_of(&addr.any);
}

int
softrdma_listener_new(const struct softrdma_pending_kind *kind, int fd,
	struct softrdma_credentials *credentials, void *owner, struct softrdma_listener **listener_ptr)
{
	struct softrdma_listener *listener = calloc(1, sizeof(*listener));
	if (listener == NULL)
		return ENOMEM;
	listener->watched.handle = handle_listener;
	listener->watched.put = put;
	listener->kind = kind;
	listener->fd = fd;
	listener->credentials = credentials;
	listener->owner = owner;
	/*
	 * the longest backlog: a full one drops packets, and a dropped client tries again only after a
	 * second
	 */
	int ret = listen(fd, SOMAXCONN) == 0 ? softrdma_pending_sockets_watch(fd, &listener->watched) : errno;
	if (ret) {
		free(listener);
		return ret;
	}
	read_caps();
	listener->account = kind->has_accounts ? account_at(fd) : SOFTRDMA_ACCOUNT_OF_NO_LISTENER;
	listener->next = listeners;
	if (listeners)
		listeners->prev = listener;
	listeners = listener;
	softrdma_engine_at_beat(SOFTRDMA_BEAT_DEADLINES, tick);
	*listener_ptr = listener;
	return 0;
}

/* ends the requests that are not complete yet, with their listener */
static void
end_silent_ones(const struct softrdma_listener *listener)
{
	struct softrdma_pending *next;
	for (struct softrdma_pending *pending = all; pending; pending = next) {
		next = pending->next;
		if (pending->incoming.silent && pending->listener == listener)
			softrdma_pending_turn_away(pending, SOFTRDMA_REJECT_NO_LISTENER);
	}
}

void
softrdma_listener_close(struct softrdma_listener *listener)
{
	end_silent_ones(listener);
	if (listener->prev)
		listener->prev->next = listener->next;
	else
		listeners = listener->next;
	if (listener->next)
		listener->next->prev = listener->prev;
	set_try_again(listener, false);
	int fd = listener->fd;
	listener->fd = -1;
	softrdma_pending_sockets_unwatch(fd, &listener->watched);
}

void *
softrdma_listener_owner(const struct softrdma_listener *listener)
{
	return listener->owner;
}

/* --- the progress thread --- */

static void
deadline_passed(struct softrdma_pending *pending)
{
	char name[SOFTRDMA_NAME_SIZE];
	if (!pending->incoming.silent) {
		pending->kind->expired(pending);
		return;
	}
	/*
	 * message(connect): a client connected and sent nothing for five seconds -> Nothing, if it stays
	 * alone: a probe, or a slow network.
	 */
	SOFTRDMA_LOG_FEW(&too_late, WARNING, "%s did not finish its request in time: connection closed",
		softrdma_peer_name(pending->fd, name, sizeof(name)));
	end_silent(pending);
}

/*
 * A connection that expires may end others. Their deadlines are cleared and this thread frees them later, so
 * the walk can go on through them. New connections are put in front of the list.
 */
static void
tick(uint64_t now_ns)
{
	softrdma_cm_lock();
	struct softrdma_pending *next;
	for (struct softrdma_pending *pending = all; pending; pending = next) {
		next = pending->next;
		if (softrdma_timer_has_expired(&pending->deadline, now_ns))
			deadline_passed(pending);
	}
	struct softrdma_listener *next_listener;
	for (struct softrdma_listener *listener = listeners; listener; listener = next_listener) {
		next_listener = listener->next;
		if (listener->try_again)
			accept_sockets(listener);
	}
	softrdma_cm_unlock();
}
