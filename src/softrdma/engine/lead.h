/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * lead.h -- whether the threads of the program read the sockets of a channel, or the progress threads do
 *
 * A lead is the connections that complete in the queues of one completion channel, or in one queue without a channel. As a
 * rule the progress threads read their sockets, and wake the program. If the program's threads wait there or poll there
 * densely, the lead goes on: a progress thread that has received something hands the connection over, its socket moves into
 * the epoll that is the channel's descriptor, and a thread that waits for that descriptor, or polls, reads it. The progress thread
 * goes on sending where a socket was full. If the descriptor blocks, the socket moves into another epoll instead, which only
 * threads in ibv_get_cq_event() wait for. A connection whose two queues have different leads is never handed over.
 *
 * The first progress thread looks every 2 ms whether threads of the program still look at the leads that are on: at this one
 * if it hides its sockets, else at any. If not, or if a thread computes for long between two looks, a lead goes off, and stays
 * so for a while if input has waited.
 *
 * No lock is held in the calls, unless stated otherwise.
 */

#ifndef SOFTRDMA_LEAD_H
#define SOFTRDMA_LEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/core/cq.h"
#include "softrdma/engine/connection.h"

/* --- for the calls of the application --- */

/*
 * Receives what has come to the connections of the lead, if no other thread does so. If it is off, only a few connections
 * are looked at. True if something came.
 */
bool softrdma_lead_poll(struct softrdma_lead *lead);
/* The same for a poller that waits next: nothing is received, but acknowledgements leave that still wait for its replies. */
void softrdma_lead_no_replies(struct softrdma_lead *lead);
/*
 * The poller sleeps until one of the connections has input, for SOFTRDMA_NAP_NS at most, because threads that compute want
 * its processor.
 */
void softrdma_lead_nap(struct softrdma_lead *lead);
/* true if the descriptor reports the input of the connections */
static inline bool
softrdma_lead_is_on(const struct softrdma_lead *lead)
{
	return atomic_load_explicit(&lead->on, memory_order_relaxed);
}
/*
 * The channel has no event. Receives if the lead is on. If the descriptor was readable for bytes that came, now or when
 * a queue was polled, the channel has an event when the call returns. True if something came, or the channel has an event.
 */
bool softrdma_lead_collect(struct softrdma_lead *lead);
/* a queue was armed: a program that polls is about to wait for an event */
void softrdma_lead_armed(struct softrdma_lead *lead);
/* the calling thread has taken an event of the channel; has_blocked: it has waited for it in softrdma_waiter_wait() */
void softrdma_lead_took_event(struct softrdma_lead *lead, bool has_blocked);
/* the channel, or the queue without one, is about to go; it has no connections */
void softrdma_lead_end(struct softrdma_lead *lead);

/* --- for waiter.c --- */

/*
 * The epoll that reports bytes which the channel's descriptor does not, now or when the lead has gone on, as long as the
 * channel lives; -1 if it could not be opened, so that the lead does not go on.
 */
int softrdma_lead_hidden_fd(struct softrdma_lead *lead);
/* the channel's descriptor no longer blocks, so the lead hides no sockets from it */
void softrdma_lead_show(struct softrdma_lead *lead);
/* receives from all connections; the lock is not waited for. True if something came. */
bool softrdma_lead_look(struct softrdma_lead *lead);
/* The descriptor was readable: the same from those that have input. Another thread that serves them is waited for. */
bool softrdma_lead_look_at_reported(struct softrdma_lead *lead);

/* --- for the other files of the engine --- */

/*
 * Another thread than those that look at the lead receives from the connection. If a lead has it, that owes the program an
 * event: the descriptor may have been readable for what is received. Called before, so that a thread which then finds nothing
 * has the event, and after, because a thread may have taken it although the bytes were still there. Under its link's lock.
 */
void softrdma_lead_receives(struct softrdma_connection *conn);
/* A progress thread has received something for the connection, and hands it over if its lead is on. Under its link's lock. */
void softrdma_lead_received(struct softrdma_connection *conn);
/* The progress thread reads the connection's socket from here on, whatever lead has it. Under its link's lock. */
void softrdma_lead_lose(struct softrdma_connection *conn);
/* the engines end: all leads go off */
void softrdma_lead_end_all(void);

#endif /* SOFTRDMA_LEAD_H */
