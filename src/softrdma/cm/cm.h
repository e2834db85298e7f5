/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * cm.h -- connection manager: ids, event channels and events
 *
 * An id is idle, bound, listening, connecting (active side), requested (passive side, until accepted or
 * rejected) or connected. Handshakes on sockets are in handshake.c; they report their outcome by events here.
 *
 * One lock for the whole manager guards states, listeners and handshakes: connecting is rare. It is taken
 * before the lock of a link. Events are queued under the lock of their id, because an id may move to another
 * channel at any time.
 */

#ifndef SOFTRDMA_CM_H
#define SOFTRDMA_CM_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrdma/core/link.h"
#include "softrdma/softrdma.h"
#include "softrdma/wire/wire.h"

struct softrdma_handshaker;
struct softrdma_listener;
struct softrdma_tls;

struct softrdma_event {
	struct rdma_cm_event event;
	struct softrdma_id *
		owner; /* that counts its acknowledgement: the id, or the listener for a connection request */
	struct softrdma_event *next;
	uint8_t private_data[SOFTRDMA_PRIVATE_DATA_MAX];
};

/*
 * Ids hold references: an application may destroy the channel of its listener before it destroys the id of a
 * request that came through it.
 */
struct softrdma_channel {
	struct rdma_event_channel channel;
	const struct ibv_context *process; /* the context of the process that created it */
	atomic_uint refs;
	pthread_mutex_t lock;
	bool destroyed; /* by the application, which fetches no further events */
	struct softrdma_event *first, *last;
};

enum softrdma_id_state {
	SOFTRDMA_ID_IDLE,
	SOFTRDMA_ID_BOUND,
	SOFTRDMA_ID_LISTENING,
	SOFTRDMA_ID_CONNECTING,
	SOFTRDMA_ID_REQUESTED,
	SOFTRDMA_ID_CONNECTED,
	SOFTRDMA_ID_CLOSED, /* rejected, failed, or disconnected */
};

/* whether an IPv6 address also stands for IPv4 (IPV6_V6ONLY in ipv6(7)) */
enum softrdma_family_only {
	SOFTRDMA_FAMILY_DEFAULT, /* as the system has it (net.ipv6.bindv6only) */
	SOFTRDMA_FAMILY_ONLY,
	SOFTRDMA_FAMILY_BOTH,
};

struct softrdma_id {
	struct rdma_cm_id id;
	const struct ibv_context *process; /* the context of the process that created it */

	/* guarded by the manager's lock */
	enum softrdma_id_state state;
	struct softrdma_handshaker *handshaker; /* connecting, requested */
	struct softrdma_listener *listener;     /* listening */
	int bound_fd; /* a socket that holds the address, from bind to listen; -1: none */
	enum softrdma_family_only family_only; /* of that socket */
	bool io_user;                          /* true if it counts as a user of the progress thread */
	struct softrdma_credentials
		*credentials;            /* of listeners and active ids; NULL: plain, or not looked up yet */
	bool source_given;               /* the application chose the source address of an active id */
	struct softrdma_handshake asked; /* what an active id requested, for comparison with the reply */
	/*
	 * Of id.qp, or of an external queue pair; with a reference. The program may move the queue pair to another id
	 * meanwhile, by id.qp: then it is brought up to date when the id is to connect.
	 */
	struct softrdma_link *link;
	bool external; /* true if the queue pair is the application's: external_qp.h */
	bool has_psn;
	uint32_t psn; /* sequence number of the first request of an external queue pair */
	bool peer_known;
	struct softrdma_handshake peer; /* the peer's CONNECT or ACCEPT */
	uint8_t ack_timeout;            /* for its queue pair */

	pthread_mutex_t lock; /* guards the channel and the events; taken after the link's lock */
	struct softrdma_channel *channel;
	bool sync;        /* true if created without a channel: calls wait for their own event */
	bool established; /* written under the link's lock */
	pthread_cond_t acked;
	atomic_uint taken;  /* events handed out; counted under the channel's lock */
	unsigned completed; /* events acknowledged */
	/*
	 * A connection reports two events: the outcome of the attempt, and DISCONNECTED. They are allocated
	 * before it begins, so that they can be reported even without memory. Linked by next.
	 */
	struct softrdma_event *reserve;
	void *user; /* for a library that exports the device under other names: what it keeps with the id,
		       and frees */
};

static inline struct softrdma_id *
softrdma_id_of(struct rdma_cm_id *id)
{
	return (struct softrdma_id *)id;
}

/* turns an errno value into what librdmacm's calls return: 0, or -1 with errno */
static inline int
softrdma_cm_result(int errnum)
{
	if (errnum == 0)
		return 0;
	errno = errnum;
	return -1;
}

/* true, with errno set, if the id belongs to the parent process: the call is refused. Any lock. */
bool softrdma_id_is_inherited(const struct rdma_cm_id *id, const char *call);

/* the same for a channel or an id that was created with this context */
bool softrdma_cm_is_inherited(const struct ibv_context *process, const char *call);

/* the manager's lock */
void softrdma_cm_lock(void);
void softrdma_cm_unlock(void);

/* an id in the IDLE state, with a reference to the channel; NULL: no memory */
struct softrdma_id *softrdma_id_new(struct softrdma_channel *channel, void *context, enum rdma_port_space ps);

/* frees what softrdma_id_new() made, of an id without events, handshake and link */
void softrdma_id_free(struct softrdma_id *id);

/* the calls by which a link reports to its id; arg is the id */
extern const struct softrdma_link_ops softrdma_id_link_ops;

/* queue pairs that the connection manager connects; it moves them through their states */
extern const struct softrdma_qp_kind softrdma_managed_qp;

/*
 * The id's link is that of the queue pair which the program stores in the id, until the id connects. The manager's lock is
 * held.
 */
void softrdma_id_follow_qp(struct softrdma_id *id);

/*
 * True if the id has a queue pair that no id has connected yet. An id of datagrams needs none: rdma_accept() may name another
 * one. The manager's lock is held.
 */
bool softrdma_id_can_connect(const struct softrdma_id *id);

/* makes a queue pair for an id that has none, and stores it in the id; 0 or an errno value. No lock held. */
int softrdma_id_give_qp(struct softrdma_id *id, struct ibv_qp_init_attr_ex *attr);
/* destroys the queue pair that the program has in the id. No lock held. */
void softrdma_id_destroy_qp(struct softrdma_id *id);

/* moves the queue pair of an id of datagrams to ERR, as rdma_disconnect(3) says. The manager's lock is held. */
void softrdma_id_fail_qp(const struct softrdma_id *id);

/*
 * The socket becomes the link's, and the queue pair is ready to send. This happens under one hold of the link's lock, so
 * that no event of the link comes before ESTABLISHED of the active side. The manager's lock is held. 0 or an errno value.
 */
int softrdma_id_attach(struct softrdma_id *id, int fd, struct softrdma_tls *tls,
	const struct softrdma_handshake *own, const struct softrdma_handshake *peer, const uint8_t *peer_data,
	bool active);

/* the id gives up its handshake, its link and its events; it is freed next. No lock held. */
void softrdma_id_let_go(struct softrdma_id *id);

#endif /* SOFTRDMA_CM_H */
