/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* event.h -- event channels of the connection manager, and the events in them */

#ifndef SOFTRDMA_EVENT_H
#define SOFTRDMA_EVENT_H

#include "softrdma/cm/cm.h"

/* allocates the events of a connection in advance; 0 or ENOMEM. The manager's lock is held, and no handshake runs. */
int softrdma_id_reserve(struct softrdma_id *id);

/*
 * Posts an event for the application. hs (may be NULL) holds the peer's parameters and the length of its private
 * data. request is the new id of a connection request, else NULL. 0, ENOMEM, or ENOTCONN if the channel is
 * destroyed. Any thread; takes the id's lock.
 */
int softrdma_id_post(struct softrdma_id *id, enum rdma_cm_event_type type, int status,
	const struct softrdma_handshake *hs, const uint8_t *private_data, struct softrdma_id *request);

/* frees the events that were allocated in advance and not used */
void softrdma_id_free_reserve(struct softrdma_id *id);

/* true if the id's channel has an event. Takes the id's lock. */
bool softrdma_id_has_events(struct softrdma_id *id);
/* waits until the application has acknowledged all events of the id. The id's lock is held. */
void softrdma_id_wait_for_acks(struct softrdma_id *id);
/*
 * A synchronous id waits for the event of the call that it has just made, and keeps it until the next call. Meanwhile the
 * thread can be cancelled if cancel_state, that of the application, allows it. No lock held.
 */
int softrdma_id_finish_call(struct softrdma_id *id, int cancel_state);
/* acknowledges that event, if the id keeps one */
void softrdma_id_drop_event(struct softrdma_id *id);

/* takes all events of the id out of the channel, as a list. The id's lock is held. */
struct softrdma_event *softrdma_event_take_all(struct softrdma_id *id, struct softrdma_channel *channel);
/* frees a list of events that the application never sees, with the ids of connection requests among them */
void softrdma_event_free_unseen(struct softrdma_event *events);

static inline struct softrdma_channel *
softrdma_channel_of(struct rdma_event_channel *channel)
{
	return (struct softrdma_channel *)channel;
}

/* true, with errno set, if the channel belongs to the parent process: the call is refused. Any lock. */
bool softrdma_channel_is_inherited(const struct rdma_event_channel *channel, const char *call);

/* drops a reference; the last one frees the channel */
void softrdma_channel_put(struct softrdma_channel *channel);

#endif /* SOFTRDMA_EVENT_H */
