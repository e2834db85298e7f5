/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * rendezvous.h -- queue pairs that are connected by hand find each other
 *
 * The applications have told each other GIDs, queue pair numbers and the numbers of the first requests, and
 * move their queue pairs through INIT, RTR and RTS by themselves; neither listens or connects in a way that it
 * knows of. A queue pair in RTR waits for its peer at the address that its GID tells (gid.h). One in RTS calls
 * too, and again after a pause, until it is connected. A caller says JOIN, with all that it was told, and
 * whoever is called answers ACCEPT, with the same from the other side; a caller whose queue pair is not in RTR
 * yet is kept waiting.
 *
 *	ASIDE      RESET, INIT: a caller waits
 *	EXPECTING  RTR: a caller is let in
 *	CALLING    RTS: the same, and calls itself
 *	MET        connected, and never again before RESET
 *	BY_MANAGER RTR, RTS: the connection manager brings the stream; nobody calls, and nobody is let in
 *	OVER       in error: nobody is let in
 *
 * Both may call at once. Whoever has not said JOIN yet, and of two that have the one with the greater number,
 * gives its own call up and lets the other one in. A queue pair that is its own peer is connected by a socket
 * that is.
 *
 * The connection manager's lock is held in all calls unless said otherwise.
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
	bool io_user;            /* counts as a user of the progress thread; the modifying thread's own */

	enum softrdma_rendezvous_state state;
	union ibv_gid gid;                     /* own one; from RTR on */
	struct softrdma_qp_listener *listener; /* where it can be called; NULL: it need not be called */
	struct softrdma_caller *own_call;      /* that it makes; NULL: none now */
	struct softrdma_caller *guest;         /* that has called and must wait */
	unsigned pause_ms;                     /* before the next call */
	struct softrdma_timer next_call;       /* not set: none is planned */
	bool told;                             /* the log has a line about calls that fail */

	struct softrdma_rendezvous *next; /* of the same bucket */
};

/* the queue pair can be called from here on; and from here on no more: whoever waits is told so */
void softrdma_rendezvous_add(struct softrdma_rendezvous *meet);
void softrdma_rendezvous_remove(struct softrdma_rendezvous *meet);

/* the one of the queue pair with this number; NULL: there is none */
struct softrdma_rendezvous *softrdma_rendezvous_find(uint32_t qp_num);

/* can be called at the address of the own GID; 0, or an errno value and nothing has changed */
int softrdma_rendezvous_open(struct softrdma_rendezvous *meet);
/* RTR: lets the peer in */
void softrdma_rendezvous_expect(struct softrdma_rendezvous *meet);
/* RTS: calls the peer */
void softrdma_rendezvous_call(struct softrdma_rendezvous *meet);
/* the queue pair has failed or is taken back: no more calls, and nobody is expected */
void softrdma_rendezvous_end(struct softrdma_rendezvous *meet, enum softrdma_rendezvous_state state);

#endif /* SOFTRDMA_RENDEZVOUS_H */
