/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* conn.h -- a connection, from the request on */

#ifndef RPMAI_CONN_H
#define RPMAI_CONN_H

#include <pthread.h>
#include <stdatomic.h>

#include "cq.h"
#include "private_data.h"
#include "srq.h"

struct flush_scratch;

/*
 * A request is a connection that has not been made yet. What is set before it is one (by rpmai_conn_new and
 * rpmai_conn_open_events) never changes, so posting needs no lock: verbs calls are thread-safe.
 */
struct rpma_conn {
	const struct rpma_peer *peer;
	struct rdma_cm_id *id;                   /* with the queue pair */
	struct ibv_qp_ex *qp_ex;                 /* NULL: no native flush, no native atomic write */
	struct ibv_comp_channel *shared_channel; /* NULL: each completion queue has its own */
	struct rpma_cq *cq;
	struct rpma_cq *rcq;   /* NULL: receives complete in cq */
	bool rcq_is_borrowed;  /* it is the shared receive queue's */
	struct rpma_srq *srq;  /* NULL: receives are the connection's own */
	uint32_t max_msg_size; /* of the port, in bytes */

	struct flush_scratch *flush_scratch;      /* NULL where reading does not flush */
	struct rdma_event_channel *event_channel; /* NULL until rpmai_conn_open_events */

	atomic_bool direct_write_to_pmem; /* the other side declared it */
	atomic_bool is_closed;            /* RPMA_CONN_CLOSED has been reported */

	pthread_mutex_t lock;                       /* of private_data */
	struct rpma_conn_private_data private_data; /* set once; the bytes stay until the deletion */
};

/* makes queues on an id, which becomes the connection's on success only. RPMA_E_INVAL, _NOMEM, _PROVIDER */
int rpmai_conn_new(const struct rpma_peer *peer, struct rdma_cm_id *id, const struct rpma_conn_cfg *cfg,
	struct rpma_conn **conn_ptr);

/* moves its id to an event channel of its own. RPMA_E_PROVIDER, and then it can only be deleted */
int rpmai_conn_open_events(struct rpma_conn *conn);

#endif /* RPMAI_CONN_H */
