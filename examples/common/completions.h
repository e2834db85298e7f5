/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * completions.h -- waiting for the completions of a connection, in one of two ways
 *
 * A program is linked with one of the files
 *
 *	completions_separate.c   each completion queue has a channel of its own: rpma_cq_wait
 *	completions_shared.c     the queues of a connection share one channel: rpma_conn_wait says whose turn
 * it is
 *
 * All functions return 0 or the librpma error, and have told the user what went wrong.
 */

#ifndef EXAMPLES_COMPLETIONS_H
#define EXAMPLES_COMPLETIONS_H

#include <stdbool.h>

#include <librpma.h>

/* which of a connection's completion queues */
enum completions_of {
	COMPLETIONS_MAIN,
	COMPLETIONS_RECEIVES, /* the connection must have been configured with a queue for them */
};

/* what the connection must be configured with for this way of waiting */
int completions_configure(struct rpma_conn_cfg *cfg);

/* for poll and epoll: readable when the main queue may have got completions */
int completions_fd(const struct rpma_conn *conn, int *fd);

/*
 * after that: take the notification, then collect one completion if there is one. *found says whether. The
 * caller looks at wc->status. One operation at a time may be outstanding.
 */
int completions_notified(struct rpma_conn *conn, struct ibv_wc *wc, bool *found);

/* collect the next completion of one of the queues, waiting for it; its operation has succeeded */
int completions_next(struct rpma_conn *conn, enum completions_of of, struct ibv_wc *wc);

#endif /* EXAMPLES_COMPLETIONS_H */
