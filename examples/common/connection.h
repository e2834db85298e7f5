/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * connection.h -- from an address to an established connection, and back
 *
 * All functions return 0 or the librpma error, and have told the user what went wrong.
 */

#ifndef EXAMPLES_CONNECTION_H
#define EXAMPLES_CONNECTION_H

#include <librpma.h>

/*
 * say on stderr which call failed and why. A name that begins with "rpma_" is that of the call of librpma
 * that this thread has made last; anything else is said as it is.
 */
void report(const char *call, int ret);

/* report the call if ret says that it failed; returns ret */
int checked(const char *call, int ret);

/* for what is done at the end in any case: the error that came first, or 0 */
int first_error(int earlier, int later);

/* let librpma say on stderr what it does, as the servers do */
void show_log(void);

/* a peer on the device that serves addr (local) or that reaches it (remote); *device (if not NULL) is its
 * name */
int peer_new_by_addr(const char *addr, enum rpma_util_ibv_context_type type, struct rpma_peer **peer,
	const char **device);

/* memory of whole pages, zeroed, for free(); NULL after it has told the user */
void *memory_new(size_t size);

/* ask the server for a connection and wait until it is established; cfg and pdata may be NULL */
int client_connect(struct rpma_peer *peer, const char *addr, const char *port,
	const struct rpma_conn_cfg *cfg, const struct rpma_conn_private_data *pdata, struct rpma_conn **conn);

/*
 * wait for one client, give it pdata and wait until the connection is established; cfg and pdata may be NULL
 */
int server_accept(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg,
	const struct rpma_conn_private_data *pdata, struct rpma_conn **conn);

/* the second half of both: send or accept the request, which is used up, and wait until that is done */
int conn_establish(struct rpma_conn_req **req, const struct rpma_conn_private_data *pdata,
	struct rpma_conn **conn);

/* wait until the other side has disconnected, and delete the connection */
int conn_wait_closed(struct rpma_conn **conn);

/* disconnect, wait until that is done, and delete the connection */
int conn_disconnect(struct rpma_conn **conn);

/* has the operation that a completion is about succeeded? */
int wc_checked(const struct ibv_wc *wc);

/* collect the next completion of a queue that has its own channel, waiting for it; its operation has
 * succeeded */
int cq_next(struct rpma_cq *cq, struct ibv_wc *wc);

/* collect the next completion of the connection's main queue, waiting for it; its operation has succeeded */
int conn_next_completion(struct rpma_conn *conn, struct ibv_wc *wc);

/* wait for the next completion, which must be that of the operation with this op_context */
int conn_wait_completion(struct rpma_conn *conn, const void *op_context);

#endif /* EXAMPLES_CONNECTION_H */
