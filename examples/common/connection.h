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

/* say on stderr which call failed and why */
void report(const char *call, int ret);

/* a peer on the device that serves addr (local) or that reaches it (remote); *device (if not NULL) is its
 * name */
int peer_new_by_addr(const char *addr, enum rpma_util_ibv_context_type type, struct rpma_peer **peer,
	const char **device);

/* ask the server for a connection and wait until it is established */
int client_connect(struct rpma_peer *peer, const char *addr, const char *port, struct rpma_conn **conn);

/* wait for one client, give it pdata and wait until the connection is established */
int server_accept(struct rpma_ep *ep, const struct rpma_conn_private_data *pdata, struct rpma_conn **conn);

/* wait until the other side has disconnected, and delete the connection */
int conn_wait_closed(struct rpma_conn **conn);

/* disconnect, wait until that is done, and delete the connection */
int conn_disconnect(struct rpma_conn **conn);

/* wait for the next completion of the connection: its operation must have succeeded */
int conn_wait_completion(struct rpma_conn *conn, const void *op_context);

#endif /* EXAMPLES_CONNECTION_H */
