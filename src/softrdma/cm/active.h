/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * active.h -- the steps of an outgoing connection, from connect(2) to the reply
 *
 * Ids of the connection manager (handshake.c) and queue pairs that are connected by hand (qp_connect.c) share this.
 * The owner makes a connection of a socket that connects, and writes its first message (CONNECT, JOIN) to pending.msg.
 * Then the connection takes these steps:
 *
 *	CONNECTING      the socket is not connected yet
 *	SECURING        TLS is being agreed on; left out if the owner has no credentials
 *	AWAITING_REPLY  the message is sent, and pending.msg is what has been received since
 *
 * The owner is told what comes of it, by the calls of struct softrdma_active_ops, and decides what that means: its
 * log lines and events are its own. A refused socket may connect again: then its step is CONNECTING still.
 *
 * The caller holds the connection manager's lock in all calls.
 */

#ifndef SOFTRDMA_ACTIVE_H
#define SOFTRDMA_ACTIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct softrdma_credentials;
struct softrdma_pending;
struct softrdma_pending_kind;

enum softrdma_active_step {
	SOFTRDMA_ACTIVE_CONNECTING,
	SOFTRDMA_ACTIVE_SECURING,
	SOFTRDMA_ACTIVE_AWAITING_REPLY,
};

enum softrdma_active_failure {
	SOFTRDMA_ACTIVE_NOT_CONNECTED, /* the socket has an error instead of a connection; it may connect again */
	SOFTRDMA_ACTIVE_NOT_SENT,      /* TLS cannot begin, or the message cannot be sent */
	SOFTRDMA_ACTIVE_NO_TLS,        /* the peer does not use TLS, as this side must */
	SOFTRDMA_ACTIVE_NOT_TRUSTED, /* TLS has ended the stream; softrdma_tls_why() has the reason, if any */
	SOFTRDMA_ACTIVE_ENDED,       /* the stream has ended or failed before the reply was complete */
	SOFTRDMA_ACTIVE_NOT_OURS,    /* the reply is not of this protocol */
	SOFTRDMA_ACTIVE_OTHER_VERSION, /* the reply is of the version pending.msg.peer.version */
	SOFTRDMA_ACTIVE_DAMAGED,       /* the reply was damaged on its way */
};

/* what the owner does; each call may end the connection */
struct softrdma_active_ops {
	/* TCP is connected. False: the connection ends here, because the owner has taken the socket */
	bool (*connected)(struct softrdma_pending *pending);
	/* for TLS; NULL: plain. Asked when TLS would begin, because an application may set them until then. */
	struct softrdma_credentials *(*credentials)(const struct softrdma_pending *pending);
	/* pending.msg is the peer's reply, of any type */
	void (*replied)(struct softrdma_pending *pending);
	/* errnum: of NOT_CONNECTED and NOT_SENT, else 0. The owner ends the connection, or connects the socket again. */
	void (*failed)(struct softrdma_pending *pending, enum softrdma_active_failure failure, int errnum);
};

/* begins to connect the socket; 0 (it may be connected already), or an errno value */
int softrdma_active_connect(int fd, const struct sockaddr *peer);

/*
 * Makes a pending connection of a socket that connects, with SOFTRDMA_PEER_TIMEOUT_MS for CONNECTING and SECURING
 * together; an owner may set another deadline. Owns the socket, and fails, as softrdma_pending_new() does.
 */
struct softrdma_pending *softrdma_active_new(const struct softrdma_pending_kind *kind, int fd, int *error);

/* takes the steps that are possible by now; events (EPOLL*) are those of the socket */
void softrdma_active_progress(struct softrdma_pending *pending, uint32_t events);

#endif /* SOFTRDMA_ACTIVE_H */
