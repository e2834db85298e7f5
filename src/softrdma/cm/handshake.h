/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * handshake.h -- listeners of ids, and connections of ids until both sides have agreed
 *
 * The active side connects, sends CONNECT and waits for ACCEPT or REJECT. The passive side accepts the
 * socket, reads CONNECT within a deadline, creates an id for it and waits for the application. From ACCEPT on
 * the socket belongs to the link. The caller holds the manager's lock in all calls.
 */

#ifndef SOFTRDMA_HANDSHAKE_H
#define SOFTRDMA_HANDSHAKE_H

#include "softrdma/cm/cm.h"

/* 0 or an errno value */
int softrdma_handshake_listen(struct softrdma_id *id);
int softrdma_handshake_connect(struct softrdma_id *id, const struct rdma_conn_param *param);
int softrdma_handshake_accept(struct softrdma_id *id, const struct rdma_conn_param *param);
/* gives the stream of a connection that the peer has accepted to the external queue pair, which is ready for it */
int softrdma_handshake_establish(struct softrdma_id *id);
int softrdma_handshake_reject(struct softrdma_id *id, const void *private_data, uint8_t private_len);

/* ends the id's handshake: closes the listener, gives up the attempt, or refuses the request */
void softrdma_handshake_cancel(struct softrdma_id *id);

/* a socket bound to the address; 0 with *fd_ptr and the port filled in, or an errno value */
int softrdma_handshake_bind(struct sockaddr *addr, enum softrdma_family_only only, int *fd_ptr);

#endif /* SOFTRDMA_HANDSHAKE_H */
