/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * qp_listener.h -- listeners for queue pairs that are connected without the connection manager
 *
 * All queue pairs that wait for their peers at the address of one GID share a listener. The caller holds the
 * connection manager's lock in all calls.
 */

#ifndef SOFTRDMA_QP_LISTENER_H
#define SOFTRDMA_QP_LISTENER_H

#include "softrdma/cm/pending.h"
#include "softrdma/verbs/gid.h"

struct softrdma_qp_listener {
	struct softrdma_listener *socket;
	union softrdma_address address;
	union ibv_gid gid;
	unsigned users;
	struct softrdma_credentials *credentials; /* of the environment when it was opened; NULL: plain */
	struct softrdma_qp_listener *next;
};

/*
 * The listener for the queue pair with this GID and number, opened if it does not exist yet; kind is that of the connections
 * that come in. 0 or an errno value.
 */
int softrdma_qp_listener_get(const struct softrdma_pending_kind *kind, const union ibv_gid *gid,
	uint32_t qp_num, struct softrdma_qp_listener **listener_ptr);
/* drops a user; the last one closes the listener */
void softrdma_qp_listener_put(struct softrdma_qp_listener *listener);

#endif /* SOFTRDMA_QP_LISTENER_H */
