/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* server.c -- reply to each number with the next one; receives complete in a queue of their own */

#include <inttypes.h>
#include <stdio.h>

#include "connection.h"
#include "counter.h"
#include "queues.h"

/* takes the next value from the queue that has only receives */
static int
next_value(struct rpma_conn *conn, struct counter *counter, uint64_t *value)
{
	struct ibv_wc wc;

	int ret = completions_next(conn, COMPLETIONS_RECEIVES, &wc);
	if (ret == 0)
		ret = counter_received(&wc, counter, value);
	if (ret == 0 && *value != COUNTER_END)
		printf("SERVER: Value received: %" PRIu64 "\n", *value);

	return ret;
}

static int
play(struct rpma_conn *conn, struct counter *counter)
{
	struct ibv_wc wc;
	uint64_t value = COUNTER_END;

	int ret = next_value(conn, counter, &value);
	while (ret == 0 && value != COUNTER_END) {
		uint64_t answer = value + 1;
		/* before the reply, because the client sends the next message at once */
		ret = counter_receive(conn, counter);
		if (ret == 0)
			ret = counter_send(conn, counter, answer);
		if (ret == 0)
			printf("SERVER: Value sent: %" PRIu64 "\n", answer);
		/* from the main queue, which has only sends */
		if (ret == 0)
			ret = completions_next(conn, COMPLETIONS_MAIN, &wc);
		if (ret == 0)
			ret = next_value(conn, counter, &value);
	}

	return ret;
}

int
main(int argc, char *argv[])
{
	struct counter counter = { 0 };
	struct rpma_peer *peer = NULL;
	struct rpma_conn_cfg *cfg = NULL;
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
		ret = configure_queues(&cfg);
	if (ret == 0)
		ret = checked("rpma_ep_listen", rpma_ep_listen(peer, argv[1], argv[2], &ep));
	if (ret == 0)
		ret = checked("rpma_ep_next_conn_req", rpma_ep_next_conn_req(ep, cfg, &req));
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
	ret = first_error(ret, checked("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg)));
	ret = first_error(ret, counter_close(&counter));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));

	return ret ? 1 : 0;
}
