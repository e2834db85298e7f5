/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * post.h -- posting work requests to a queue pair
 *
 * Two interfaces, lists (post.c) and extended operations (post_ex.c), fill the same slots of the requester, both under
 * the lock of the send queue (`qp->sq_lock`). A list holds the link's lock as well; a batch of extended operations takes it at
 * its end. So a program may make any other call while a batch is open.
 */

#ifndef SOFTRDMA_POST_H
#define SOFTRDMA_POST_H

#include "softrdma/verbs/qp.h"

/* true if the queue pair has this link, and its state allows posting; under the link's lock */
bool softrdma_post_is_allowed(const struct softrdma_link *link);

/* sets the members of send that flags (enum ibv_send_flags) determine */
void softrdma_post_take_flags(const struct softrdma_qp *qp, struct softrdma_send *send, unsigned int flags);

/* copies the SGEs, or their content if it is inline; 0 or an errno value */
int softrdma_post_take_sges(const struct softrdma_qp *qp, struct softrdma_send *send,
	const struct ibv_sge *sge, size_t num_sge);

/* appends inline data: its bytes are limited, the number of buffers is not; 0 or an errno value */
int softrdma_post_append_inline(const struct softrdma_qp *qp, struct softrdma_send *send, const void *addr,
	size_t length);

/*
 * Sets where a datagram goes. 0; EINVAL: the queue pair sends none, ah is NULL or of another protection domain, or the number
 * has more than 24 bits; ESTALE: ah is one of the parent process.
 */
int softrdma_post_take_destination(const struct softrdma_qp *qp, struct softrdma_send *send,
	struct ibv_ah *ah, uint32_t qp_num, uint32_t qkey);

/* checks a request that is filled in, and completes it; 0 or EINVAL */
int softrdma_post_check(const struct softrdma_qp *qp, struct softrdma_send *send);

/*
 * Call it after softrdma_send_ring_commit(), under the link's lock: flushes the request if the queue pair has failed;
 * fails one that is too long.
 */
void softrdma_post_accepted(struct softrdma_link *link, uint32_t seq);

/*
 * The doorbell: what was posted from this sequence number on leaves now, or together with requests that follow, when the
 * next response comes. A program need not poll for that. The link's lock is held.
 */
void softrdma_post_ring(struct softrdma_link *link, uint32_t from);

/* the implementations of ibv_post_send and ibv_post_recv */
int softrdma_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int softrdma_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* wakes connections that wait for a receive, after receives were posted. The caller holds no lock. */
void softrdma_post_replenished(struct softrdma_recv_queue *queue);

/* sets the function pointers that ibv_wr_* call */
void softrdma_post_ex_init(struct ibv_qp_ex *qp);

#endif /* SOFTRDMA_POST_H */
