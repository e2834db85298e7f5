/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * qp_connect.h -- connects queue pairs whose applications use no connection manager
 *
 * The applications have exchanged GIDs, queue pair numbers and first sequence numbers, and move their queue pairs
 * through INIT, RTR and RTS with ibv_modify_qp(). The device listens and connects for them. A queue pair in RTR
 * listens at the address that its GID names (gid.h). A queue pair in RTS also calls its peer: it makes a connection
 * attempt, and another one after a pause, until it is connected. The calling side sends JOIN with all that its
 * application has set. The other side responds with ACCEPT and its own values. An attempt for a queue pair that is not
 * in RTR yet is kept waiting.
 *
 *	IDLE       RESET, INIT: an attempt of the peer waits
 *	ACCEPTING  RTR: an attempt of the peer is accepted
 *	CONNECTING RTS: the same, and this side makes attempts
 *	CONNECTED  connected, and never again before RESET
 *	BY_MANAGER RTR, RTS: the connection manager brings the stream; no attempt is made or accepted
 *	FAILED     in error, or about to be reset or destroyed: no attempt is accepted
 *
 * Both sides may make an attempt at once. A side that has not sent JOIN yet gives up its outgoing attempt and accepts
 * the incoming one. If both have sent it, the side with the greater number does. A queue pair that is its own peer is
 * connected by a socket that is its own peer.
 *
 * The caller of each function holds the connection manager's lock unless stated otherwise.
 */

#ifndef SOFTRDMA_QP_CONNECT_H
#define SOFTRDMA_QP_CONNECT_H

#include "softrdma/cm/cm.h"
#include "softrdma/engine/timer.h"
#include "softrdma/verbs/gid.h"
#include "softrdma/verbs/qp.h"

struct softrdma_qp_attempt;
struct softrdma_qp_listener;

enum softrdma_qp_connect_state {
	SOFTRDMA_QP_CONNECT_IDLE,
	SOFTRDMA_QP_CONNECT_ACCEPTING,
	SOFTRDMA_QP_CONNECT_CONNECTING,
	SOFTRDMA_QP_CONNECT_CONNECTED,
	SOFTRDMA_QP_CONNECT_BY_MANAGER,
	SOFTRDMA_QP_CONNECT_FAILED,
};

struct softrdma_qp_connect {
	struct softrdma_qp *qp;
	struct ibv_qp_attr attr; /* all that ibv_modify_qp has set */
	bool io_user;            /* counts as a user of the progress thread; set by modify.c only */

	enum softrdma_qp_connect_state state;
	union ibv_gid gid;                     /* this side's, from RTR on */
	struct softrdma_qp_listener *listener; /* where the peer can reach it; NULL: no attempt is expected */
	struct softrdma_qp_attempt *outgoing;  /* this side's attempt; NULL: none now */
	struct softrdma_qp_attempt *incoming;  /* the peer's attempt, which must wait; NULL: none */
	unsigned pause_ms;                     /* before the next attempt */
	struct softrdma_timer next_attempt;    /* not set: none is planned */
	bool told;                             /* true if the log has a line about attempts that fail */

	struct softrdma_qp_connect *next; /* in the same bucket */
};

/* from add() on, the peer's attempts find the queue pair; remove() ends that, and rejects one that waits */
void softrdma_qp_connect_add(struct softrdma_qp_connect *qpc);
void softrdma_qp_connect_remove(struct softrdma_qp_connect *qpc);

/* finds that of the queue pair with this number; NULL: no such queue pair */
struct softrdma_qp_connect *softrdma_qp_connect_find(uint32_t qp_num);

/* listens at the address of this side's GID; 0 or an errno value */
int softrdma_qp_connect_listen(struct softrdma_qp_connect *qpc);
/* RTR: accepts the peer's attempt */
void softrdma_qp_connect_accept(struct softrdma_qp_connect *qpc);
/* RTS: makes attempts of its own */
void softrdma_qp_connect_start(struct softrdma_qp_connect *qpc);
/* the queue pair has failed or was reset: attempts are neither made nor accepted */
void softrdma_qp_connect_end(struct softrdma_qp_connect *qpc, enum softrdma_qp_connect_state state);

#endif /* SOFTRDMA_QP_CONNECT_H */
