/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conn.h -- a connection, from the request on */

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

/* pieces of one operation that a connection can ask for: they are kept on the stack */
#define MAX_SGE 64

/*
 * A request is a connection that has not been made yet. What is set before it is one (by rpmai_conn_new,
 * rpmai_conn_make_queues and rpmai_conn_open_events) never changes, so posting needs no lock: verbs calls are
 * thread-safe.
 */
struct rpma_conn {
	struct rpma_peer *peer;
	struct rdma_cm_id *id;                   /* with the queue pair */
	struct ibv_qp_ex *qp_ex;                 /* NULL: no native flush, no native atomic write */
	struct ibv_comp_channel *shared_channel; /* NULL: each completion queue has its own */
	struct rpma_cq *cq;
	struct rpma_cq *rcq;   /* NULL: receives complete in cq */
	bool rcq_is_borrowed;  /* it is the shared receive queue's */
	struct rpma_srq *srq;  /* NULL: receives are the connection's own */
	uint32_t qp_num;       /* of the queue pair */
	uint32_t max_msg_size; /* of the port, in bytes */
	uint32_t sq_size;      /* entries of the send queue, as granted */
	uint32_t max_sge;      /* pieces of one operation, at most MAX_SGE */
	uint32_t inline_size;  /* bytes */

	struct flush_scratch *flush_scratch;      /* NULL where reading does not flush */
	struct rdma_event_channel *event_channel; /* NULL until rpmai_conn_open_events */
	struct connect_timer *connect_timer;      /* NULL: it may take for ever */
	bool has_timed_out;                       /* it took too long; for rpma_conn_next_event alone */

	struct held_posts held;
	struct conn_counters stats;

	atomic_bool direct_write_to_pmem; /* the other side declared it */
	atomic_bool is_closed;            /* RPMA_CONN_CLOSED has been reported */

	pthread_mutex_t lock;                       /* of private_data */
	struct rpma_conn_private_data private_data; /* set once; the bytes stay until the deletion */
};

/*
 * Takes over an id, on success only; there are no queues yet. RPMA_E_INVAL (what params ask for excludes each
 * other), RPMA_E_NOMEM, RPMA_E_NOSUPP (the device cannot do so much)
 */
int rpmai_conn_new(struct rpma_peer *peer, struct rdma_cm_id *id, const struct conn_params *params,
	struct rpma_conn **conn_ptr);

/* makes all its queues, or none; once. RPMA_E_NOMEM, RPMA_E_PROVIDER */
int rpmai_conn_make_queues(struct rpma_conn *conn, const struct conn_params *params, bool is_passive);

/*
 * Moves its id to an event channel of its own. RPMA_E_NOMEM, RPMA_E_PROVIDER, and then it can only be deleted
 */
int rpmai_conn_open_events(struct rpma_conn *conn, int connect_timeout_ms);

#endif /* RPMAI_CONN_H */
