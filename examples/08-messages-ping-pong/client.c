/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* client.c -- send a number, receive the next one, send that, for some rounds */

#include <stdio.h>

#include "completions.h"
#include "connection.h"
#include "ping.h"

int
main(int argc, char *argv[])
{
	struct ping_options options;
	struct counter counter = { 0 };
	struct rpma_peer *peer = NULL;
	struct rpma_conn *conn = NULL;

	if (!ping_parse(argc, argv, &options))
		return 2;

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer, NULL);
	if (ret == 0)
		ret = counter_open(peer, &counter);
	if (ret == 0)
		ret = client_connect(peer, argv[1], argv[2], NULL, NULL, &conn);
	if (ret == 0) {
		ret = ping_play(conn, &counter, &options, "Value sent", "Value received");
		ret = first_error(ret, conn_disconnect(&conn));
	}

	ret = first_error(ret, counter_close(&counter));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));

	return ret ? 1 : 0;
}
