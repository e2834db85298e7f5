/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.c -- offer a text to the server, which reads it, and wait until the server has it
 *
 * If a file is given, the text is kept in persistent memory. It is another text at the next start.
 */

#include <stdio.h>

#include "connection.h"
#include "exchange.h"
#include "greeting.h"
#include "numbers.h"

int
main(int argc, char *argv[])
{
	uint8_t description[EXCHANGE_SIZE];
	struct rpma_conn_private_data pdata;
	struct greeting_memory mem;
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *mr = NULL;
	struct rpma_conn *conn = NULL;
	uint64_t offset = 0;

	if (argc < 3 || argc > 5 || (argc == 5 && !parse_number(argv[4], SIZE_MAX, &offset))) {
		fprintf(stderr, "usage: %s <server_address> <port> [<pmem-path> [<pmem-offset>]]\n", argv[0]);
		return 2;
	}

	if (greeting_open(argc > 3 ? argv[3] : NULL, (size_t)offset, GREETING_FIRST, &mem))
		return 1;
	greeting_print("Next value", &mem);

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer, NULL);
	/* only the text is registered: the server must not read the rest of the file */
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, greeting_text(&mem), GREETING_SIZE, RPMA_MR_USAGE_READ_SRC, &mr));
	if (ret == 0)
		ret = checked("describing the memory", exchange_pack(description, mr, NULL, 0, &pdata));
	/* the description travels with the request, so the server can read as soon as it has accepted */
	if (ret == 0)
		ret = client_connect(peer, argv[1], argv[2], NULL, &pdata, &conn);
	if (ret == 0)
		ret = conn_wait_closed(&conn);
	/* the server has read it: the next text will be another one */
	if (ret == 0)
		greeting_translate(&mem);

	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	greeting_close(&mem);

	return ret ? 1 : 0;
}
