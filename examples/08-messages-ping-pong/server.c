/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* server.c -- reply to each number with the next one */

#include <inttypes.h>
#include <stdio.h>

#include "connection.h"
#include "counter.h"

/* *value was received: sends the next number, and receives another value meanwhile */
static int
answer(struct rpma_conn *conn, struct counter *counter, uint64_t *value)
{
	uint64_t next = *value + 1;
	struct ibv_wc wc;

	printf("Value received: %" PRIu64 "\n", *value);
	/* before the reply, because the client sends the next message at once */
	int ret = counter_receive(conn, counter);
	if (ret == 0)
		ret = counter_send(conn, counter, next);
	if (ret)
		return ret;
	printf("Value sent: %" PRIu64 "\n", next);

	/* the next message may complete before the reply does */
	for (int i = 0; ret == 0 && i < 2; i++) {
		ret = conn_next_completion(conn, &wc);
		if (ret == 0 && wc.opcode != IBV_WC_SEND)
			ret = counter_received(&wc, counter, value);
	}

	return ret;
}

static int
play(struct rpma_conn *conn, struct counter *counter)
{
	struct ibv_wc wc;
	uint64_t value = 0;

	int ret = conn_next_completion(conn, &wc);
	if (ret == 0)
		ret = counter_received(&wc, counter, &value);
	while (ret == 0 && value != COUNTER_END)
		ret = answer(conn, counter, &value);

	return ret;
}

int
main(int argc, char *argv[])
{
	struct counter counter = { 0 };
	struct rpma_peer *peer = NULL;
	struct rpma_ep *ep = NULL;
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;

	if (argc != 3) {
		fprintf(stderr, "usage: %s <server_address> <port>\n", argv[0]);
		return 2;
	}
	show_log();

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer, NULL);
	if (ret == 0)
		ret = counter_open(peer, &counter);
	if (ret == 0)
		ret = checked("rpma_ep_listen", rpma_ep_listen(peer, argv[1], argv[2], &ep));
	if (ret == 0)
		ret = checked("rpma_ep_next_conn_req", rpma_ep_next_conn_req(ep, NULL, &req));
	/* before the connection, because the client may send as soon as it is connected */
	if (ret == 0)
		ret = counter_receive_first(req, &counter);
	if (ret == 0)
		ret = conn_establish(&req, NULL, &conn);
	if (ret == 0) {
		ret = play(conn, &counter);
		/* after a failure there is no need to wait for the client */
		ret = first_error(ret, ret ? conn_disconnect(&conn) : conn_wait_closed(&conn));
	}

	ret = first_error(ret, checked("rpma_conn_req_delete", rpma_conn_req_delete(&req)));
	ret = first_error(ret, checked("rpma_ep_shutdown", rpma_ep_shutdown(&ep)));
	ret = first_error(ret, counter_close(&counter));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));

	return ret ? 1 : 0;
}
