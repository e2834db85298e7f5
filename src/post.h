/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * post.h -- posting work requests to the device: at once, or held back until one doorbell rings for all
 * (doorbell batching)
 */

#ifndef RPMAI_POST_H
#define RPMAI_POST_H

#include <pthread.h>
#include <stdatomic.h>

#include "public.h"
#include "rdma.h"

/* a work request of ibv_post_send, or one that only the extended operations have */
struct work_request {
	/*
	 * This must be the first member. opcode may also be RPMAI_WR_FLUSH, which has no SGEs, or
	 * RPMAI_WR_ATOMIC_WRITE, which writes the 8 bytes at sg_list[0].addr. Both use wr.rdma. next links a
	 * chain.
	 */
	struct ibv_send_wr wr;
	struct ibv_sge sge; /* the sg_list of requests with one SGE */
	size_t flush_len;
	uint8_t flush_type; /* RPMAI_FLUSH_* */
};

/* the batched posts of one connection, which RPMA_F_MORE holds back */
struct held_posts {
	pthread_mutex_t lock;
	atomic_int count; /* written under the lock; read without it to skip an empty list */
	char *list;       /* NULL while nothing is held back: an idle connection needs no room for it */
};

void rpmai_post_init(struct rpma_conn *conn);

/* after rpmai_post_drop() */
void rpmai_post_fini(struct rpma_conn *conn);

/*
 * Posts count requests (1 or 2) together, after those held back; or, if flags has RPMA_F_MORE, holds them
 * back. After a failure none of them is posted or held, except the first of two, see below. Each of the
 * requests that were held back before is posted or still held. RPMA_E_NOMEM, RPMA_E_AGAIN (full),
 * RPMA_E_PROVIDER
 */
int rpmai_post(struct rpma_conn *conn, struct work_request *reqs, int count, int flags);

/*
 * The same with the lock of the connection's held posts taken. *taken is the number of requests that are now
 * posted or held, after a failure 0 or 1: a device without extended operations may take the first of two.
 */
int rpmai_post_locked(struct rpma_conn *conn, struct work_request *reqs, int count, int flags, int *taken);

/* drops the posts that are held back and logs how many */
void rpmai_post_drop(struct rpma_conn *conn);

#endif /* RPMAI_POST_H */
