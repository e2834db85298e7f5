/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* server.c -- give one client a log to append to, and print it after the client has disconnected */

#include <stdio.h>

#include "connection.h"
#include "exchange.h"
#include "words.h"

int
main(int argc, char *argv[])
{
	int usage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
	uint8_t description[EXCHANGE_SIZE];
	struct rpma_conn_private_data pdata;
	struct words words;
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *mr = NULL;
	struct rpma_ep *ep = NULL;
	struct rpma_conn *conn = NULL;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: %s <server_address> <port> [<pmem-path>]\n", argv[0]);
		return 2;
	}
	show_log();

	if (words_open(argc > 3 ? argv[3] : NULL, &words))
		return 1;
	if (words.file.map)
		usage |= RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg", rpma_mr_reg(peer, words.ptr, WORDS_SIZE, usage, &mr));
	/* the client's data begins at used: the client does not need the signature */
	if (ret == 0)
		ret = checked("describing the memory",
			exchange_pack(description, mr, NULL, WORDS_USED_OFFSET, &pdata));
	if (ret == 0)
		ret = checked("rpma_ep_listen", rpma_ep_listen(peer, argv[1], argv[2], &ep));
	if (ret == 0)
		ret = server_accept(ep, NULL, &pdata, &conn);
	if (ret == 0)
		ret = conn_wait_closed(&conn);
	if (ret == 0)
		words_print(&words);

	ret = first_error(ret, checked("rpma_ep_shutdown", rpma_ep_shutdown(&ep)));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	words_close(&words);

	return ret ? 1 : 0;
}
