/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * external_qp.h -- queue pairs that the application made by itself, and connects by the connection manager
 *
 * The application makes a queue pair by ibv_create_qp() and gives its number to rdma_connect() or
 * rdma_accept(). It moves the queue pair by itself, with the attributes that rdma_init_qp_attr() gives. Their
 * GID is that of no address: such a queue pair neither listens nor calls (rendezvous.h). The stream of the id
 * becomes its own:
 *
 *	passive  in rdma_accept(): the queue pair is in RTR or RTS by then
 *	active   in rdma_establish(), after CONNECT_RESPONSE: the queue pair is in RTS by then
 *
 * The connection manager's lock is held in all calls unless said otherwise.
 */

#ifndef SOFTRDMA_EXTERNAL_QP_H
#define SOFTRDMA_EXTERNAL_QP_H

#include "cm.h"
#include "link.h"

/* the id has no queue pair, and gets the one with this number; 0 or an errno value: there is none, or it is in use */
int softrdma_external_qp_take(struct softrdma_id *id, uint32_t qp_num);
/* gives it back, if the id has one */
void softrdma_external_qp_drop(struct softrdma_id *id);
/* can the stream be attached now? */
bool softrdma_external_qp_is_ready(const struct softrdma_id *id, bool active);
/* the first request of the peer has this number; the stream comes next. Link's lock held. */
void softrdma_external_qp_start(struct softrdma_link *link, uint32_t peer_seq);

#endif /* SOFTRDMA_EXTERNAL_QP_H */
