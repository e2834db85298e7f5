/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * pending.h -- connections that are not established yet (half-open), and the sockets that listen for them
 *
 * Ids of the connection manager (handshake.c) and queue pairs that are connected by hand (qp_connect.c) share
 * this. A pending connection is outgoing or incoming; both have a deadline. The steps of an outgoing one are in
 * active.h. An incoming one begins silent: TLS, if it is used, and the first message must be complete before
 * the deadline. Then it stays pending until the owner of its listener decides.
 *
 * Incoming connections come from strangers. So they are capped, in total and for each address, whatever they
 * are for (softrdma(7), SOFTRDMA_MAX_PENDING). A silent one is closed to make room for another one. Every log
 * line that they can cause is limited.
 *
 * The caller holds the connection manager's lock in all calls.
 */

#ifndef SOFTRDMA_PENDING_H
#define SOFTRDMA_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softrdma/cm/active.h"
#include "softrdma/cm/incoming.h"
#include "softrdma/engine/timer.h"
#include "softrdma/engine/watched.h"
#include "softrdma/wire/cm_msg.h"

struct softrdma_credentials;
struct softrdma_listener;
struct softrdma_pending;

/* what differs between the owners of pending connections */
struct softrdma_pending_kind {
	size_t size;       /* of the structure that begins with struct softrdma_pending */
	bool has_accounts; /* true if the addresses of its listeners have accounts of their own */
	/*
	 * its socket has events (EPOLL*), or TLS holds bytes; also called without events for a new incoming
	 * one
	 */
	void (*progress)(struct softrdma_pending *pending, uint32_t events);
	/* the deadline of one that is not silent has passed */
	void (*expired)(struct softrdma_pending *pending);
	/* it ends: the owner must not refer to it from here on. NULL: the owner keeps no reference */
	void (*forget)(struct softrdma_pending *pending);
	const struct softrdma_active_ops *active; /* of its outgoing ones */
};

struct softrdma_pending {
	struct softrdma_watched watched; /* first: the progress thread finds the connection by it */
	const struct softrdma_pending_kind *kind;
	int fd;                     /* -1: over */
	struct softrdma_tls *tls;   /* NULL: plain */
	struct softrdma_cm_msg msg; /* received so far, or to be sent */
	struct softrdma_timer deadline;

	enum softrdma_active_step step; /* outgoing: how far it is */

	struct softrdma_incoming incoming;  /* its origin is NULL if it is outgoing */
	struct softrdma_listener *listener; /* of a silent one */
	unsigned account;                   /* incoming: of its listener (accounts.h) */

	struct softrdma_pending *next, *prev;
};

/*
 * Makes a pending connection of the socket and watches it; the caller marks it if it is incoming. The
 * connection owns the socket from here on, and has closed it if this fails. NULL with *error.
 */
struct softrdma_pending *softrdma_pending_new(const struct softrdma_pending_kind *kind, int fd, int *error);
/* ends it and closes its socket; it is freed when the progress thread no longer refers to it */
void softrdma_pending_end(struct softrdma_pending *pending);
/* ends it because it is established: returns its socket, which stays open, and its TLS state in *tls */
int softrdma_pending_end_but_socket(struct softrdma_pending *pending, struct softrdma_tls **tls);
/*
 * True if the source of an incoming one has used too many wrong keys since it came: the caller ends it. A peer may
 * connect many times before its first wrong key. Logs it.
 */
bool softrdma_pending_is_shut_out(const struct softrdma_pending *pending);
/* rejects an incoming one, and ends it */
void softrdma_pending_turn_away(struct softrdma_pending *pending, enum softrdma_reject_reason reason);

/*
 * Goes on with TLS and with the first message of a silent one. True if the message is complete: the caller
 * then calls softrdma_pending_heard(), or ends the connection. False: more must come, or the connection has
 * ended.
 */
bool softrdma_pending_read(struct softrdma_pending *pending);
/* the message is one that is expected: from here on the connection waits for the owner of its listener */
void softrdma_pending_heard(struct softrdma_pending *pending);
/* the message does not belong here: logs that, and ends the connection */
void softrdma_pending_not_understood(struct softrdma_pending *pending);

/*
 * Listens at a bound socket, and reads the caps from the environment. *credentials (NULL: plain) belong to
 * the owner, and must stay valid until the listener is closed. 0, or an errno value; the socket is then still
 * the caller's.
 */
int softrdma_listener_new(const struct softrdma_pending_kind *kind, int fd,
	struct softrdma_credentials *credentials, void *owner, struct softrdma_listener **listener_ptr);
/*
 * rejects its connections that are still silent. It may be called while one of its connections makes
 * progress.
 */
void softrdma_listener_close(struct softrdma_listener *listener);
void *softrdma_listener_owner(const struct softrdma_listener *listener);

#endif /* SOFTRDMA_PENDING_H */
