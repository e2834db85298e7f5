/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * external_qp.h -- queue pairs that the application creates itself and connects with the connection manager
 *
 * The application creates a queue pair with ibv_create_qp() and gives its number to rdma_connect() or
 * rdma_accept(). It moves the queue pair itself, with the attributes that rdma_init_qp_attr() gives. The GID among
 * them belongs to no address, so such a queue pair neither listens nor connects (qp_connect.h). Instead it takes
 * over the stream of the id:
 *
 *	passive  in rdma_accept(): the queue pair is in RTR or RTS by then
 *	active   in rdma_establish(), after CONNECT_RESPONSE: the queue pair is in RTS by then
 *
 * The caller holds the connection manager's lock in all calls unless stated otherwise.
 */

#ifndef SOFTRDMA_EXTERNAL_QP_H
#define SOFTRDMA_EXTERNAL_QP_H

#include "softrdma/cm/cm.h"
#include "softrdma/core/link.h"

/* gives an id without a queue pair the one with this number; EINVAL if it does not exist or is in use */
int softrdma_external_qp_take(struct softrdma_id *id, uint32_t qp_num);
/* takes the queue pair away from the id, if it has one */
void softrdma_external_qp_drop(struct softrdma_id *id);
/* true if the queue pair can take over the stream now. Takes the link's lock. */
bool softrdma_external_qp_is_ready(const struct softrdma_id *id, bool active);
/*
 * Prepares the link for the stream, which the caller attaches next; peer_seq is the sequence number of the peer's
 * first request. False, and nothing has changed: the queue pair is no longer ready. The caller holds the link's lock.
 */
bool softrdma_external_qp_start(const struct softrdma_id *id, bool active, uint32_t peer_seq);

#endif /* SOFTRDMA_EXTERNAL_QP_H */
