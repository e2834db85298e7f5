/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * pending.h -- connections that are not established yet, and the sockets that listen for them
 *
 * Ids of the connection manager (handshake.c) and queue pairs that are connected by hand (rendezvous.c) share
 * this. A pending connection is outgoing or incoming, and both have a deadline. An incoming one begins
 * silent: TLS, if there is any, and the first message must be complete within a deadline. Then the owner of
 * its listener decides, and it stays pending until then.
 *
 * Incoming connections are strangers, so they are capped, in all and for each address, whatever they are for
 * (softrdma(7), SOFTRDMA_MAX_PENDING). A silent one is closed to make room for another one. Every line that
 * they cause in the log is limited.
 *
 * The connection manager's lock is held in all calls.
 */

#ifndef SOFTRDMA_PENDING_H
#define SOFTRDMA_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softrdma/base/source.h"
#include "softrdma/engine/timer.h"
#include "softrdma/engine/watched.h"
#include "softrdma/wire/hello.h"

struct softrdma_credentials;
struct softrdma_listener;
struct softrdma_pending;

/* what differs between the owners of pending connections */
struct softrdma_pending_kind {
	size_t size; /* of the structure that begins with struct softrdma_pending */
	/* its socket has something (EPOLL*), or TLS has; also when an incoming one is new, without events */
	void (*progress)(struct softrdma_pending *pending, uint32_t events);
	/* the deadline of one that is not silent has passed */
	void (*expired)(struct softrdma_pending *pending);
	/* it ends: the owner must not refer to it from here on. NULL: the owner keeps no reference */
	void (*forget)(struct softrdma_pending *pending);
};

struct softrdma_pending {
	struct softrdma_watched watched; /* first: the progress thread finds the connection by it */
	const struct softrdma_pending_kind *kind;
	int fd;                      /* -1: over */
	struct softrdma_tls *tls;    /* NULL: plain */
	struct softrdma_hello hello; /* received so far, or to be sent */
	struct softrdma_timer deadline;

	bool incoming;
	bool silent;                        /* incoming: the first message is not complete */
	struct softrdma_listener *listener; /* of a silent one */
	struct softrdma_source source;      /* incoming: where it comes from */
	unsigned rank; /* incoming: how many of the source there were when it came, and itself */

	struct softrdma_pending *next, *prev;
};

/*
 * Watches the socket of an outgoing connection. The socket belongs to the connection from here on, also when
 * this fails. NULL with *error.
 */
struct softrdma_pending *softrdma_pending_new(const struct softrdma_pending_kind *kind, int fd, int *error);
/* it is over, or never came to anything; freed when the progress thread has let go of it */
void softrdma_pending_end(struct softrdma_pending *pending);
/* it is established: the result is the socket, which lives on, as does *tls */
int softrdma_pending_end_but_socket(struct softrdma_pending *pending, struct softrdma_tls **tls);
/* rejects an incoming one, and ends it */
void softrdma_pending_turn_away(struct softrdma_pending *pending, enum softrdma_reject_reason reason);

/*
 * Goes on with TLS and with the first message of a silent one. True: the message is complete, and looked at
 * by softrdma_pending_heard() or softrdma_pending_not_understood(). False: more must come, or it is over.
 */
bool softrdma_pending_read(struct softrdma_pending *pending);
/* the message is one that is expected: from here on it waits for its listener's owner */
void softrdma_pending_heard(struct softrdma_pending *pending);
/* the message does not belong here: logs that, and ends the connection */
void softrdma_pending_not_understood(struct softrdma_pending *pending);

/*
 * Listens at a socket that is bound, and reads the caps from the environment. *credentials (NULL: plain) stay
 * the owner's, and valid until the listener is closed. 0 or an errno value, and then the socket stays the
 * caller's.
 */
int softrdma_listener_new(const struct softrdma_pending_kind *kind, int fd,
	const struct softrdma_credentials *credentials, void *owner, struct softrdma_listener **listener_ptr);
/* those that are still silent are rejected. It may be called while a connection of it makes progress. */
void softrdma_listener_close(struct softrdma_listener *listener);
void *softrdma_listener_owner(const struct softrdma_listener *listener);

#endif /* SOFTRDMA_PENDING_H */
