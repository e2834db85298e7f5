/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * completions.h -- waiting for the completions of a connection, in one of two ways
 *
 * A program is linked with one of the files
 *
 *	completions_separate.c   each completion queue has a channel of its own: rpma_cq_wait
 *	completions_shared.c     the queues of a connection share one channel: rpma_conn_wait tells the queue
 *
 * All functions return 0 or the librpma error, after they have told the user what went wrong.
 */

#ifndef EXAMPLES_COMPLETIONS_H
#define EXAMPLES_COMPLETIONS_H

#include <stdbool.h>

#include <librpma.h>

/* one of a connection's completion queues */
enum completions_of {
	COMPLETIONS_MAIN,
	COMPLETIONS_RECEIVES, /* the connection must have been configured with a queue for them */
};

/* configures a connection for this way of waiting */
int completions_configure(struct rpma_conn_cfg *cfg);

/* a descriptor for poll and epoll: readable when the main queue may have completions */
int completions_fd(const struct rpma_conn *conn, int *fd);

/*
 * Call this when the descriptor is readable: it takes the notification, then collects one completion if there
 * is one. *found is true if it collected one. The caller checks wc->status. At most one operation may be in
 * flight.
 */
int completions_notified(struct rpma_conn *conn, struct ibv_wc *wc, bool *found);

/* waits for and collects the next completion of one of the queues; fails if its operation has failed */
int completions_next(struct rpma_conn *conn, enum completions_of of, struct ibv_wc *wc);

#endif /* EXAMPLES_COMPLETIONS_H */
