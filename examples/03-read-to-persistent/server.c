/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* server.c -- read a text from the client's memory and keep it in persistent memory */

#include <stdio.h>

#include "connection.h"
#include "exchange.h"
#include "greeting.h"

#define READ_ID ((const void *)(uintptr_t)0x4ead)

static int
read_greeting(struct rpma_conn *conn, struct rpma_mr_local *dst, struct greeting_memory *mem)
{
	struct exchange client;

	/* the description of the client's memory came with its request */
	int ret = checked("reading what the client says about its memory", exchange_unpack(conn, &client));
	if (ret)
		return ret;

	size_t there = client.size - client.data_offset;
	size_t len = there < GREETING_SIZE ? there : GREETING_SIZE;
	ret = checked("rpma_read",
		rpma_read(conn, dst, mem->text_offset, client.mr, client.data_offset, len,
			RPMA_F_COMPLETION_ALWAYS, READ_ID));
	if (ret == 0)
		ret = conn_wait_completion(conn, READ_ID);
	exchange_release(&client);
	/* the text has arrived; this side must make it durable, since it is this side's memory */
	if (ret == 0)
		greeting_persist(mem);

	return ret;
}

int
main(int argc, char *argv[])
{
	struct greeting_memory mem;
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *mr = NULL;
	struct rpma_ep *ep = NULL;
	struct rpma_conn *conn = NULL;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: %s <server_address> <port> [<pmem-path>]\n", argv[0]);
		return 2;
	}
	show_log();

	if (greeting_open(argc > 3 ? argv[3] : NULL, 0, "", &mem))
		return 1;
	if (mem.file.map)
		greeting_print("Old value", &mem);

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, mem.ptr, mem.size, RPMA_MR_USAGE_READ_DST, &mr));
	if (ret == 0)
		ret = checked("rpma_ep_listen", rpma_ep_listen(peer, argv[1], argv[2], &ep));
	if (ret == 0)
		ret = server_accept(ep, NULL, NULL, &conn);
	/* the client waits until it is disconnected */
	if (ret == 0) {
		ret = read_greeting(conn, mr, &mem);
		ret = first_error(ret, conn_disconnect(&conn));
	}
	if (ret == 0)
		greeting_print("New value", &mem);

	ret = first_error(ret, checked("rpma_ep_shutdown", rpma_ep_shutdown(&ep)));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	greeting_close(&mem);

	return ret ? 1 : 0;
}
