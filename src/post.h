/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * post.h -- work requests on their way to the device: posted at once, or held back to be rung together
 */

#ifndef RPMAI_POST_H
#define RPMAI_POST_H

#include <pthread.h>
#include <stdatomic.h>

#include "public.h"
#include "rdma.h"

/* a work request of ibv_post_send, or one that only extended operations have */
struct work_request {
	/*
	 * the first member. opcode may also be RPMAI_WR_FLUSH, which has no pieces, and RPMAI_WR_ATOMIC_WRITE
	 * of the 8 bytes at sg_list[0].addr; both with wr.rdma. next is the chain's.
	 */
	struct ibv_send_wr wr;
	struct ibv_sge sge; /* for sg_list of requests with one piece */
	size_t flush_len;
	uint8_t flush_type; /* RPMAI_FLUSH_* */
};

struct held_post;

/* what RPMA_F_MORE holds back, of one connection */
struct held_posts {
	pthread_mutex_t lock;
	atomic_int count;       /* written under the lock; read without it to pass an empty list */
	int capacity;           /* elements of the list */
	struct held_post *list; /* the first count elements are in use; NULL until something was held back */
};

void rpmai_post_init(struct held_posts *held);

/* frees what is held back; it is never posted */
void rpmai_post_fini(struct held_posts *held);

/*
 * Posts count requests (1 or 2) in one go, after those held back; or holds them back if flags have
 * RPMA_F_MORE. All or none of them: a failure leaves nothing posted or held, unless earlier requests were
 * held back, which then all are. RPMA_E_NOMEM, RPMA_E_AGAIN (full), RPMA_E_PROVIDER
 */
int rpmai_post(struct rpma_conn *conn, struct work_request *reqs, int count, int flags);

/*
 * The same with the lock of the connection's held posts taken. *taken is how many of the requests are posted
 * or held now, also after a failure: a device without extended operations may take the first of two.
 */
int rpmai_post_locked(struct rpma_conn *conn, struct work_request *reqs, int count, int flags, int *taken);

/* forgets what is held back, and says so in the log */
void rpmai_post_drop(struct rpma_conn *conn);

#endif /* RPMAI_POST_H */
