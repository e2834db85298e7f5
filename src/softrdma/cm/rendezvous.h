/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * rendezvous.h -- connects queue pairs whose applications use no connection manager (not the rendezvous of MPI)
 *
 * The applications have exchanged GIDs, queue pair numbers and first sequence numbers, and move their queue pairs
 * through INIT, RTR and RTS with ibv_modify_qp(). The device listens and connects for them. A queue pair in RTR can be
 * called at the address that its GID names (gid.h). A queue pair in RTS also calls its peer, and again after a pause,
 * until it is connected. The calling side sends JOIN with all that its application has set. The called side responds
 * with ACCEPT and its own values. A call for a queue pair that is not in RTR yet is kept waiting.
 *
 *	ASIDE      RESET, INIT: a call waits
 *	EXPECTING  RTR: a call is accepted
 *	CALLING    RTS: the same, and this side calls
 *	MET        connected, and never again before RESET
 *	BY_MANAGER RTR, RTS: the connection manager brings the stream; no call is made or accepted
 *	OVER       in error: no call is accepted
 *
 * Both sides may call at once. A side that has not sent JOIN yet gives up its own call and accepts the other. If both
 * have sent it, the side with the greater number does. A queue pair that is its own peer is connected by a socket that
 * is its own peer.
 *
 * The caller of each function holds the connection manager's lock unless stated otherwise.
 */

#ifndef SOFTRDMA_RENDEZVOUS_H
#define SOFTRDMA_RENDEZVOUS_H

#include "softrdma/cm/cm.h"
#include "softrdma/engine/timer.h"
#include "softrdma/verbs/gid.h"
#include "softrdma/verbs/qp.h"

struct softrdma_caller;
struct softrdma_qp_listener;

enum softrdma_rendezvous_state {
	SOFTRDMA_RENDEZVOUS_ASIDE,
	SOFTRDMA_RENDEZVOUS_EXPECTING,
	SOFTRDMA_RENDEZVOUS_CALLING,
	SOFTRDMA_RENDEZVOUS_MET,
	SOFTRDMA_RENDEZVOUS_BY_MANAGER,
	SOFTRDMA_RENDEZVOUS_OVER,
};

struct softrdma_rendezvous {
	struct softrdma_qp *qp;
	struct ibv_qp_attr attr; /* all that ibv_modify_qp has set */
	bool io_user;            /* counts as a user of the progress thread; set by modify.c only */

	enum softrdma_rendezvous_state state;
	union ibv_gid gid;                     /* this side's, from RTR on */
	struct softrdma_qp_listener *listener; /* where the peer can call it; NULL: no call is expected */
	struct softrdma_caller *own_call;      /* this side's call; NULL: none now */
	struct softrdma_caller *guest;         /* the peer's call, which must wait; NULL: none */
	unsigned pause_ms;                     /* before the next call */
	struct softrdma_timer next_call;       /* not set: none is planned */
	bool told;                             /* true if the log has a line about calls that fail */

	struct softrdma_rendezvous *next; /* in the same bucket */
};

/* from add() on the queue pair can be called; remove() ends that, and rejects a call that waits */
void softrdma_rendezvous_add(struct softrdma_rendezvous *meet);
void softrdma_rendezvous_remove(struct softrdma_rendezvous *meet);

/* finds that of the queue pair with this number; NULL: no such queue pair */
struct softrdma_rendezvous *softrdma_rendezvous_find(uint32_t qp_num);

/* listens for callers at the address of this side's GID; 0 or an errno value */
int softrdma_rendezvous_open(struct softrdma_rendezvous *meet);
/* RTR: accepts the peer's call */
void softrdma_rendezvous_expect(struct softrdma_rendezvous *meet);
/* RTS: calls the peer */
void softrdma_rendezvous_call(struct softrdma_rendezvous *meet);
/* the queue pair has failed or was reset: calls are neither made nor accepted */
void softrdma_rendezvous_end(struct softrdma_rendezvous *meet, enum softrdma_rendezvous_state state);

#endif /* SOFTRDMA_RENDEZVOUS_H */
