/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * cq.h -- completion queues and completion channels: the ring, the events, and the connections that complete here
 *
 * The ring holds completions (CQEs) as struct ibv_wc. The calls of the application are in completion.c.
 */

#ifndef SOFTRDMA_CQ_H
#define SOFTRDMA_CQ_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrdma/softrdma.h"

struct softrdma_link;

enum softrdma_armed {
	SOFTRDMA_NOT_ARMED,
	SOFTRDMA_ARMED_SOLICITED, /* a solicited or failed completion raises an event */
	SOFTRDMA_ARMED_ANY,
};

struct softrdma_comp_channel {
	struct ibv_comp_channel channel;
	pthread_mutex_t lock;
	struct softrdma_cq *first, *last; /* queues that have events for the application */
	struct softrdma_cq *members;      /* all its queues */
	unsigned untold; /* number of events not counted by the descriptor: a waiter is about to take one */
};

struct softrdma_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex;
	};
	struct softrdma_pd *domain; /* the parent domain that it was created with; NULL: none */

	/*
	 * Extended polling: the program holds the lock from ibv_start_poll to ibv_end_poll, and polled is the current
	 * completion. Only ibv_start_poll takes it, before all other locks; the program may make other calls under it.
	 */
	pthread_mutex_t poll_lock;
	struct ibv_wc polled;

	pthread_mutex_t lock; /* guards the ring; no other lock is taken under it */
	struct ibv_wc *ring;
	uint32_t capacity;
	uint32_t head;     /* oldest entry */
	atomic_uint count; /* written under the lock, peeked at without it */
	/*
	 * true if a completion was lost: none is put in after it, and polling fails once the ring is empty; peeked at without
	 * the lock, too
	 */
	atomic_bool overrun;
	enum softrdma_armed armed;
	/* no poll has found it empty since it was armed: its program is about to wait; no lock, a hint for pollers */
	atomic_bool armed_anew;

	/* guarded by the channel's lock */
	unsigned events;          /* number that wait for the application */
	unsigned events_taken;    /* number that ibv_get_cq_event has returned since creation */
	struct softrdma_cq *next; /* in the channel's list while events > 0 */
	struct softrdma_cq *next_member;

	/* connections that complete here; a thread that polls the queue holds the lock while it serves them */
	pthread_mutex_t links_lock;
	struct softrdma_link **links;
	unsigned link_count, link_capacity;
	/* true if a poller may own the sockets of some of them; no lock, a hint for a thread that arms the queue */
	atomic_bool has_owned;
};

static inline struct softrdma_comp_channel *
softrdma_comp_channel_of(struct ibv_comp_channel *channel)
{
	return (struct softrdma_comp_channel *)channel;
}

static inline struct softrdma_cq *
softrdma_cq_of(struct ibv_cq *cq)
{
	return (struct softrdma_cq *)cq;
}

/*
 * Puts one completion in. False if there is no room: the queue is overrun, which no queue pair of it survives, as
 * on hardware. Any thread, under the lock of the completion's connection.
 */
bool softrdma_cq_push(struct softrdma_cq *cq, const struct ibv_wc *wc, bool solicited);

/* takes up to num_entries completions out, and returns their number; -1 if the queue is overrun and empty */
int softrdma_cq_pop(struct softrdma_cq *cq, int num_entries, struct ibv_wc *wc);

/*
 * Removes the completions of a queue pair that is destroyed or reset, as drivers of hardware do: nothing of its earlier
 * life shows under its number later. Events that these completions have raised stay. Under the lock of the connection.
 */
void softrdma_cq_purge(struct softrdma_cq *cq, uint32_t qp_num);

/* arms the queue: the next completion raises an event, or only the next solicited or failed one. No lock held. */
void softrdma_cq_arm(struct softrdma_cq *cq, bool solicited_only);

/* a new queue becomes a member of the channel. No lock held. */
void softrdma_cq_join_channel(struct softrdma_cq *cq, struct softrdma_comp_channel *channel);
/*
 * The queue leaves its channel. Events that the application has not fetched vanish. The call waits until the
 * application has acknowledged those that it has fetched (ibv_get_cq_event(3)). No lock held.
 */
void softrdma_cq_leave_channel(struct softrdma_cq *cq);

/* attach(): the connection's requests complete here from now on; 0 or ENOMEM. detach(): they no longer do. */
int softrdma_cq_attach(struct softrdma_cq *cq, struct softrdma_link *link);
void softrdma_cq_detach(struct softrdma_cq *cq, struct softrdma_link *link);

/*
 * From now on the calling thread raises events of this channel for itself. It takes one of them next, so they need not
 * go through the descriptor; those that it leaves are written to the descriptor then. NULL ends this.
 */
void softrdma_comp_channel_serve(struct softrdma_comp_channel *channel);

/* true if the channel has an event for the application. No lock held. */
bool softrdma_comp_channel_has_event(struct softrdma_comp_channel *channel);

/* takes the oldest event: the queue that it is for, or NULL if the channel has none. No lock held. */
struct softrdma_cq *softrdma_comp_channel_take(struct softrdma_comp_channel *channel);

/*
 * Gives at most max connections that complete in queues of the channel, each with a reference for the caller. The
 * result is their number; 0 if there are more, or if another thread uses one of these queues. No lock held.
 */
unsigned softrdma_comp_channel_links(struct softrdma_comp_channel *channel, struct softrdma_link **links,
	unsigned max);

#endif /* SOFTRDMA_CQ_H */
