/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * server.c -- accept one client, exchange a message with it as private data, and let it go
 */

#include <stdio.h>

#include "connection.h"
#include "message.h"

static char answer[] = "Hello client!";

int
main(int argc, char *argv[])
{
	struct rpma_peer *peer = NULL;
	struct rpma_ep *ep = NULL;
	struct rpma_conn *conn = NULL;
	struct rpma_conn_private_data pdata = { answer, sizeof(answer) };

	if (argc != 3) {
		fprintf(stderr, "usage: %s <server_address> <port>\n", argv[0]);
		return 2;
	}
	show_log();

	/* a peer is a device in use; an endpoint listens on an address of it */
	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_ep_listen", rpma_ep_listen(peer, argv[1], argv[2], &ep));
	/* the reply travels with the acceptance, so the client has it as soon as it is connected */
	if (ret == 0)
		ret = server_accept(ep, NULL, &pdata, &conn);
	if (ret == 0) {
		ret = print_message(conn);
		ret = first_error(ret, conn_wait_closed(&conn));
	}

	ret = first_error(ret, checked("rpma_ep_shutdown", rpma_ep_shutdown(&ep)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));

	return ret ? 1 : 0;
}
