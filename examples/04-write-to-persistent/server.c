/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* server.c -- give one client memory to write to, and print it after the client has disconnected */

#include <stdio.h>

#include "connection.h"
#include "exchange.h"
#include "greeting.h"

int
main(int argc, char *argv[])
{
	uint8_t description[EXCHANGE_SIZE];
	struct rpma_conn_private_data pdata;
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
	/* readable as well: the client reads to make sure that its writes have arrived */
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, mem.ptr, mem.size, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC,
				&mr));
	if (ret == 0)
		ret = checked("describing the memory",
			exchange_pack(description, mr, NULL, mem.text_offset, &pdata));
	if (ret == 0)
		ret = checked("rpma_ep_listen", rpma_ep_listen(peer, argv[1], argv[2], &ep));
	if (ret == 0)
		ret = server_accept(ep, NULL, &pdata, &conn);
	if (ret == 0)
		ret = conn_wait_closed(&conn);
	if (ret == 0) {
		/* not every device has made it durable by now: see the README */
		greeting_persist(&mem);
		greeting_print("New value", &mem);
	}

	ret = first_error(ret, checked("rpma_ep_shutdown", rpma_ep_shutdown(&ep)));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	greeting_close(&mem);

	return ret ? 1 : 0;
}
