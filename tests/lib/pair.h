/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* pair.h -- two connected peers in one process, for tests that need a connection but no second program */

#ifndef TEST_PAIR_H
#define TEST_PAIR_H

#include <librpma.h>

#include "net.h"

struct pair_side {
	struct rpma_peer *peer; /* its own protection domain */
	struct rpma_conn *conn;
	struct rpma_cq *cq; /* the connection's main CQ */
};

struct pair {
	struct rpma_ep *ep;
	char port[NET_PORT_LEN];
	struct pair_side client;
	struct pair_side server;
};

/*
 * Connects two peers over the address; a NULL configuration means the default. One thread runs both sides.
 * Returns 0 or the first error; pair_close() is needed in both cases.
 */
int pair_open(struct pair *p, const char *addr, const struct rpma_conn_cfg *client_cfg,
	const struct rpma_conn_cfg *server_cfg);

/*
 * Disconnects, waits for the end on both sides, and deletes everything. Safe on a pair that was opened only
 * partly.
 */
void pair_close(struct pair *p);

/*
 * Creates an endpoint on a port from the kernel, and tries again if another process binds the port first.
 * Returns 0 or an error of rpma_ep_listen().
 */
int pair_listen(struct rpma_peer *peer, const char *addr, char port[NET_PORT_LEN], struct rpma_ep **ep);

#endif /* TEST_PAIR_H */
