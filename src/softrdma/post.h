/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * post.h -- work requests enter a queue pair
 *
 * Two interfaces, of lists (post.c) and of the extended operations (post_ex.c), fill the same slots of the
 * requester. The link's lock is held in all calls but those behind the ibv_* names.
 */

#ifndef SOFTRDMA_POST_H
#define SOFTRDMA_POST_H

#include "qp.h"

/* a free slot of a queue pair that may send; 0 or an errno value */
int softrdma_post_slot(struct softrdma_qp *qp, struct softrdma_send **send);

/* enum ibv_send_flags */
void softrdma_post_take_flags(const struct softrdma_qp *qp, struct softrdma_send *send, unsigned int flags);

/* copies the pieces, or their content if it is inline; 0 or an errno value */
int softrdma_post_take_sges(const struct softrdma_qp *qp, struct softrdma_send *send,
	const struct ibv_sge *sge, size_t num_sge);

/* copies one more piece of inline data, whose bytes are bounded, but not their pieces; 0 or an errno value */
int softrdma_post_append_inline(const struct softrdma_qp *qp, struct softrdma_send *send, const void *addr,
	size_t length);

/* can it be done with the data that it was given? 0 or an errno value */
int softrdma_post_check(struct softrdma_send *send);

/* what follows from a committed request whatever is sent: it may fail at once */
void softrdma_post_accepted(struct softrdma_qp *qp, uint32_t seq);

/* behind ibv_post_send and ibv_post_recv */
int softrdma_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int softrdma_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* Wakes the senders that wait for the receives that were posted. No lock is held. */
void softrdma_post_feed(struct softrdma_recv_queue *queue);

/* fills in the functions behind ibv_wr_* */
void softrdma_post_ex_init(struct ibv_qp_ex *qp);

#endif /* SOFTRDMA_POST_H */
