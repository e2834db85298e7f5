/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* qp.h -- queue pairs: what applications hold of a link */

#ifndef SOFTRDMA_QP_H
#define SOFTRDMA_QP_H

#include "link.h"
#include "recv_queue.h"

/* room for the struct ibv_qp_ex of newer headers than the one this was built with: it grows at its end */
#define SOFTRDMA_QP_EX_ROOM 1024

struct softrdma_rendezvous;

struct softrdma_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
		char room[SOFTRDMA_QP_EX_ROOM];
	};
	struct softrdma_link *link; /* with a reference */
	/* of before the last RESET: a thread that posts while another one resets may still hold it */
	struct softrdma_link *link_before;
	struct softrdma_rendezvous *by_hand;   /* NULL: the connection manager connects it */
	struct softrdma_recv_queue recv_queue; /* unused with a shared one */
	struct ibv_qp_cap cap;
	bool sq_sig_all;
	uint8_t ack_timeout; /* of the connection manager's: what queries show. TCP has one of its own. */
	struct {
		uint32_t count; /* requests since ibv_wr_start, all committed */
		int errnum;     /* the first mistake */
		struct softrdma_send *current;
	} batch; /* under the link's lock */
};

static inline struct softrdma_qp *
softrdma_qp_of(struct ibv_qp *qp)
{
	return (struct softrdma_qp *)qp;
}

/* a queue pair in the INIT state; NULL with errno */
struct softrdma_qp *softrdma_qp_new(struct ibv_pd *pd, struct ibv_qp_init_attr_ex *attr);
/* the same in the RESET state, of a number that holds a port (gid.h) */
struct softrdma_qp *softrdma_qp_new_by_hand(struct ibv_pd *pd, struct ibv_qp_init_attr_ex *attr,
	uint32_t qp_num, struct softrdma_rendezvous *by_hand);

/*
 * To RESET, which forgets the connection and all that is posted, without completions; as if it had just been
 * made. 0, or an errno value and nothing has changed.
 */
int softrdma_qp_reset(struct softrdma_qp *qp);

/* says DISCONNECT to the peer if it is connected; completions that are queued stay */
void softrdma_qp_delete(struct softrdma_qp *qp);

#endif /* SOFTRDMA_QP_H */
