/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conn.h -- a connection, from its request on */

#ifndef RPMAI_CONN_H
#define RPMAI_CONN_H

#include <pthread.h>
#include <stdatomic.h>

#include "conn_cfg.h"
#include "cq.h"
#include "post.h"
#include "private_data.h"
#include "srq.h"
#include "stats.h"

struct connect_timer;
struct flush_scratch;

/* the most segments (SGEs) of one operation that a connection can ask for: they are kept on the stack */
#define MAX_SGE 64

/*
 * A request is a connection that has not been established yet. rpmai_conn_new, rpmai_conn_make_queues and
 * rpmai_conn_open_events set most members before that, and these never change afterwards. Therefore posting
 * needs no lock: verbs calls are thread-safe.
 */
struct rpma_conn {
	struct rpma_peer *peer;
	struct rdma_cm_id *id;                   /* owns the queue pair */
	struct ibv_qp_ex *qp_ex;                 /* NULL: no native flush and no native atomic write */
	struct ibv_comp_channel *shared_channel; /* NULL: each completion queue has its own */
	struct rpma_cq *cq;
	struct rpma_cq *rcq;   /* NULL: receives complete in cq */
	bool rcq_is_borrowed;  /* true if rcq belongs to the shared receive queue */
	struct rpma_srq *srq;  /* NULL: receives are the connection's own */
	uint32_t qp_num;       /* the number of the queue pair */
	uint32_t max_msg_size; /* of the port, in bytes */
	uint32_t sq_size;      /* entries of the send queue, as granted */
	uint32_t max_sge;      /* segments (SGEs) of one operation, at most MAX_SGE */
	uint32_t inline_size;  /* in bytes */

	struct flush_scratch *flush_scratch;      /* NULL if a READ does not flush */
	struct rdma_event_channel *event_channel; /* NULL until rpmai_conn_open_events */
	struct connect_timer *connect_timer;      /* NULL: no limit on the time to connect */
	bool has_timed_out;                       /* connecting took too long; rpma_conn_next_event only */

	struct held_posts held;
	struct conn_counters stats;

	atomic_bool direct_write_to_pmem; /* true if the other side declared it */
	atomic_bool is_closed;            /* true if RPMA_CONN_CLOSED has been reported */

	pthread_mutex_t lock;                       /* guards private_data */
	struct rpma_conn_private_data private_data; /* set once; the bytes stay until deletion */
};

/*
 * Makes a connection without queues. It takes over the id, but only if it succeeds. RPMA_E_INVAL (two
 * settings of params exclude each other), RPMA_E_NOMEM, RPMA_E_NOSUPP (beyond the limits of the device)
 */
int rpmai_conn_new(struct rpma_peer *peer, struct rdma_cm_id *id, const struct conn_params *params,
	struct rpma_conn **conn_ptr);

/* makes all the queues of a connection, or none; called once. RPMA_E_NOMEM, RPMA_E_PROVIDER */
int rpmai_conn_make_queues(struct rpma_conn *conn, const struct conn_params *params, bool is_passive);

/*
 * Moves the connection's id to an event channel of its own. RPMA_E_NOMEM, RPMA_E_PROVIDER; after a failure
 * the connection can only be deleted.
 */
int rpmai_conn_open_events(struct rpma_conn *conn, int connect_timeout_ms);

#endif /* RPMAI_CONN_H */
