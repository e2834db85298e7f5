/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * server.c -- register memory with a text in it, tell the client where it is, and wait until the client has
 * disconnected
 */

#include <stdio.h>
#include <stdlib.h>

#include "connection.h"
#include "exchange.h"

#define SIZE 1024 /* bytes, all of which the client may read */

int
main(int argc, char *argv[])
{
	uint8_t description[EXCHANGE_SIZE];
	struct rpma_conn_private_data pdata;
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *mr = NULL;
	struct rpma_ep *ep = NULL;
	struct rpma_conn *conn = NULL;

	if (argc != 3) {
		fprintf(stderr, "usage: %s <server_address> <port>\n", argv[0]);
		return 2;
	}
	show_log();

	char *text = memory_new(SIZE);
	if (text == NULL)
		return 1;
	snprintf(text, SIZE, "Hello client!");

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer, NULL);
	/* the other side can only read memory of this process that is registered for it */
	if (ret == 0)
		ret = checked("rpma_mr_reg", rpma_mr_reg(peer, text, SIZE, RPMA_MR_USAGE_READ_SRC, &mr));
	/* anyone with the description may read the memory, so it goes only to the client */
	if (ret == 0)
		ret = checked("describing the memory", exchange_pack(description, mr, NULL, 0, &pdata));
	if (ret == 0)
		ret = checked("rpma_ep_listen", rpma_ep_listen(peer, argv[1], argv[2], &ep));
	if (ret == 0)
		ret = server_accept(ep, NULL, &pdata, &conn);
	/* meanwhile the client reads, without help from here */
	if (ret == 0)
		ret = conn_wait_closed(&conn);

	ret = first_error(ret, checked("rpma_ep_shutdown", rpma_ep_shutdown(&ep)));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	free(text);

	return ret ? 1 : 0;
}
