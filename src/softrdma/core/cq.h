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

#include "softrdma/base/readable.h"
#include "softrdma/softrdma.h"

struct softrdma_link;
struct softrdma_comp_channel;

enum softrdma_armed {
	SOFTRDMA_NOT_ARMED,
	SOFTRDMA_ARMED_SOLICITED, /* a solicited or failed completion raises an event */
	SOFTRDMA_ARMED_ANY,
};

/*
 * The connections that complete in the queues of one channel, or in one queue without a channel, and whether the threads
 * of the program that wait there, or poll there, lead: then those read the sockets. engine/lead.h tells the rest.
 */
struct softrdma_lead {
	struct softrdma_comp_channel *channel; /* NULL: of a queue without one */

	/* a thread that serves the connections holds the lock */
	pthread_mutex_t lock;
	atomic_uint wanted; /* threads that wait for it: pollers leave it to them; no lock */
	struct softrdma_link **links;
	atomic_uint link_count; /* peeked at without the lock */
	unsigned link_capacity;
	/* those whose acknowledgements may wait for a reply; none completes elsewhere, too */
	struct softrdma_link *repliers;

	/* lead.c only; changed under the lock, unless stated otherwise */
	atomic_bool on;
	/* an epoll that the program does not see, opened when it is needed first; a channel keeps it; -1: none */
	atomic_int hidden_fd;
	/* while it is on, the sockets are there, and not in that of the channel */
	atomic_bool is_hidden;
	/* while sockets may be there: where, by a descriptor of our own */
	atomic_int epoll_fd;
	/* hidden, and on for a program that polls */
	atomic_bool ends_if_armed;
	/* in the list of those that are on; guarded by the list's lock */
	struct softrdma_lead *next, **at;
	/* in a row without a long pause, and when the last one was; no lock */
	atomic_uint polls;
	atomic_uint_least64_t polled_ns;
	/* bytes that came made the channel's descriptor readable, and gave no event; no lock */
	atomic_bool owes;
	/* how often a thread has looked at it, and which one was the last */
	atomic_uint looks, looker;
	/* how often when the list was last checked, and whether no thread has looked since then; guarded by the list's lock */
	unsigned looks_seen;
	bool is_left;
	/* it is not on before this time, because input had to wait; for how long */
	uint64_t again_ns, pause_ns;
};

struct softrdma_comp_channel {
	struct ibv_comp_channel channel;
	struct softrdma_readable readable;
	pthread_mutex_t lock;
	struct softrdma_cq *first, *last; /* queues that have events for the application */
	struct softrdma_cq *members;      /* all its queues */
	bool told;                        /* the descriptor is readable because of events */
	struct softrdma_lead lead;
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

	atomic_uint connections;       /* that complete here; no lock */
	struct softrdma_lead own_lead; /* of a queue without a channel */
	struct softrdma_lead *lead;    /* that one, or the channel's */
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

/*
 * attach(): the connection's requests complete in these queues from now on, which may be one; 0 or ENOMEM. detach(): they
 * no longer do. No lock held.
 */
int softrdma_cq_attach(struct softrdma_cq *send_cq, struct softrdma_cq *recv_cq, struct softrdma_link *link);
void softrdma_cq_detach(struct softrdma_cq *send_cq, struct softrdma_cq *recv_cq, struct softrdma_link *link);

/* an empty one, of the channel or of a queue without one */
void softrdma_lead_init(struct softrdma_lead *lead, struct softrdma_comp_channel *channel);
void softrdma_lead_fini(struct softrdma_lead *lead);
/* takes the lead's lock, also if threads poll without a pause */
void softrdma_lead_lock(struct softrdma_lead *lead);

/*
 * From now on the calling thread raises events of this channel for itself. It takes one of them next, so they need not
 * go through the descriptor; if it leaves any, the descriptor becomes readable then. NULL ends this.
 */
void softrdma_comp_channel_serve(struct softrdma_comp_channel *channel);

/* the epoll of the channel has reported that it is readable, so that it no longer is. Any lock but the channel's. */
void softrdma_comp_channel_tell_again(struct softrdma_comp_channel *channel);

/* true if the next completion of one of its queues raises an event. Any lock but the channel's and those of its queues. */
bool softrdma_comp_channel_is_armed(struct softrdma_comp_channel *channel);

/* true if the channel has an event for the application. No lock held. */
bool softrdma_comp_channel_has_event(struct softrdma_comp_channel *channel);

/* takes the oldest event: the queue that it is for, or NULL if the channel has none. No lock held. */
struct softrdma_cq *softrdma_comp_channel_take(struct softrdma_comp_channel *channel);

/*
 * Raises an event without a completion, for a program that has found the descriptor readable, unless the channel has one.
 * The queue stays armed. True if it raises one. No lock held.
 */
bool softrdma_comp_channel_owe(struct softrdma_comp_channel *channel);

#endif /* SOFTRDMA_CQ_H */
