/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * connection.h -- from an address to an established connection, and back
 *
 * All functions return 0 or the librpma error, after they have told the user what went wrong.
 */

#ifndef EXAMPLES_CONNECTION_H
#define EXAMPLES_CONNECTION_H

#include <librpma.h>

/*
 * Prints on stderr which call failed and why. A name that begins with "rpma_" must be the call of librpma
 * that this thread made last; any other text is printed as it is.
 */
void report(const char *call, int ret);

/* reports the call if ret is an error; returns ret */
int checked(const char *call, int ret);

/* for cleanup that is done in any case: the first error, or 0 */
int first_error(int earlier, int later);

/* shows on stderr what librpma does, as the servers do */
void show_log(void);

/*
 * Makes a peer on the device that has addr (local) or that reaches it (remote). *device (if device is not
 * NULL) becomes the device's name.
 */
int peer_new_by_addr(const char *addr, enum rpma_util_ibv_context_type type, struct rpma_peer **peer,
	const char **device);

/* allocates zeroed memory of whole pages, for free(); NULL after it has told the user */
void *memory_new(size_t size);

/* requests a connection to the server and waits until it is established; cfg and pdata may be NULL */
int client_connect(struct rpma_peer *peer, const char *addr, const char *port,
	const struct rpma_conn_cfg *cfg, const struct rpma_conn_private_data *pdata, struct rpma_conn **conn);

/*
 * Waits for one client, sends it pdata, and waits until the connection is established; cfg and pdata may be
 * NULL.
 */
int server_accept(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg,
	const struct rpma_conn_private_data *pdata, struct rpma_conn **conn);

/* the second half of both: sends or accepts the request, which it consumes, and waits until that is done */
int conn_establish(struct rpma_conn_req **req, const struct rpma_conn_private_data *pdata,
	struct rpma_conn **conn);

/* waits until the other side has disconnected, and deletes the connection */
int conn_wait_closed(struct rpma_conn **conn);

/* disconnects, waits until that is done, and deletes the connection */
int conn_disconnect(struct rpma_conn **conn);

/* checks that the operation of the completion has succeeded */
int wc_checked(const struct ibv_wc *wc);

/*
 * Waits for and collects the next completion of a queue that has its own channel. Fails if its operation has
 * failed.
 */
int cq_next(struct rpma_cq *cq, struct ibv_wc *wc);

/* the same for the connection's main queue */
int conn_next_completion(struct rpma_conn *conn, struct ibv_wc *wc);

/* the same; fails if the completion is not that of the operation with this op_context */
int conn_wait_completion(struct rpma_conn *conn, const void *op_context);

#endif /* EXAMPLES_CONNECTION_H */
