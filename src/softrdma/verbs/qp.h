/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* qp.h -- queue pairs: the application's side of a link */

#ifndef SOFTRDMA_QP_H
#define SOFTRDMA_QP_H

#include "softrdma/core/link.h"
#include "softrdma/core/recv_queue.h"

/* bytes: struct ibv_qp_ex grows at its end, so newer headers than those of this build may need more room */
#define SOFTRDMA_QP_EX_ROOM 1024

struct softrdma_datagram_qp;
struct softrdma_qp;
struct softrdma_qp_connect;

/* what queue pairs of one kind do in their own way; the rest of verbs is the same for all */
struct softrdma_qp_kind {
	enum ibv_qp_type type;
	bool resets; /* true if the application may move it to RESET, which gives it another link */
	/* makes the device's side, without a socket; NULL: no memory */
	struct softrdma_link *(*new_link)(void);
	/* the link has its queues now: 0 or ENOMEM. NULL: nothing is left to do. */
	int (*prepare)(struct softrdma_link *link);
	/* of datagrams: 0, or EINVAL: there is no work request like this one, which is filled in */
	int (*check)(const struct softrdma_send *send);
	/* implement ibv_modify_qp(3) and ibv_destroy_qp(3) */
	int (*modify)(struct softrdma_qp *qp, const struct ibv_qp_attr *attr, int mask);
	void (*destroy)(struct softrdma_qp *qp);
	/* sets what ibv_query_qp(3) shows of the link; under the locks of the connection manager and the link */
	void (*query)(const struct softrdma_qp *qp, struct ibv_qp_attr *attr);
};

struct softrdma_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
		char room[SOFTRDMA_QP_EX_ROOM];
	};
	const struct softrdma_qp_kind *kind;
	bool resets; /* that of the kind, because each post asks for it */
	/* with a reference. A RESET replaces it, so others call softrdma_qp_lock_link() */
	struct softrdma_link *link;
	pthread_mutex_t link_lock;              /* guards the pointer, if it can change */
	struct softrdma_qp_connect *by_hand;    /* of a reliable connection that the application connects */
	struct softrdma_datagram_qp *datagrams; /* of a queue pair of datagrams */
	struct softrdma_recv_queue recv_queue;  /* unused if the queue pair has a shared receive queue */
	struct ibv_qp_cap cap;
	bool sq_sig_all;
	uint8_t ack_timeout; /* only shown by ibv_query_qp(); TCP has a timeout of its own */
	/* of the send queue: held by a list, and by a batch from its start to its end */
	pthread_mutex_t sq_lock;
	struct {
		/* with a reference: a RESET does not wait for the end of a batch */
		struct softrdma_link *link;
		uint32_t first; /* the sequence number of its first request */
		uint32_t count; /* requests since ibv_wr_start, in slots after the last posted one */
		uint32_t room;  /* for this number of requests there was room at the last look */
		int errnum;     /* the first error */
		struct softrdma_send *current;
	} batch; /* of extended operations; under sq_lock */
};

static inline struct softrdma_qp *
softrdma_qp_of(struct ibv_qp *qp)
{
	return (struct softrdma_qp *)qp;
}

/*
 * Returns the link that the queue pair has now, with its lock taken. As long as the caller holds that, the link is not
 * replaced, and it is not freed. The lock of the pointer is held until then.
 */
static inline struct softrdma_link *
softrdma_qp_lock_link(struct softrdma_qp *qp)
{
	if (qp->resets)
		pthread_mutex_lock(&qp->link_lock);
	struct softrdma_link *link = qp->link;
	pthread_mutex_lock(&link->lock);
	if (qp->resets)
		pthread_mutex_unlock(&qp->link_lock);
	return link;
}

/* 0 for reliable connections and for datagrams that may be used; else EOPNOTSUPP, and a line about the call. Any thread, any lock. */
int softrdma_qp_check_type(const char *call, enum ibv_qp_type type);
/* the same for a kind, which has one type */
int softrdma_qp_check_kind(const struct softrdma_qp_kind *kind, enum ibv_qp_type type);

/*
 * Makes a queue pair with this number (0: any), in the RESET state if its kind has that, else in the INIT state. NULL with
 * errno.
 */
struct softrdma_qp *softrdma_qp_new(struct ibv_pd *pd, struct ibv_qp_init_attr_ex *attr,
	const struct softrdma_qp_kind *kind, uint32_t qp_num);

/*
 * Moves the queue pair to RESET. It drops the connection, all posted work requests and the completions that the
 * program has not collected, so the queue pair is like a new one. 0, or an errno value and nothing has changed.
 */
int softrdma_qp_reset(struct softrdma_qp *qp);

/* moves it to ERR: the work requests of both its queues are flushed. Not under the link's lock. */
void softrdma_qp_fail(struct softrdma_qp *qp);

/* sends DISCONNECT to the peer if it is connected; completions that the program has not collected vanish */
void softrdma_qp_delete(struct softrdma_qp *qp);

#endif /* SOFTRDMA_QP_H */
