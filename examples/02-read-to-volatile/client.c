/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.c -- read a text out of the server's memory
 */

#include <stdio.h>
#include <stdlib.h>

#include "connection.h"
#include "exchange.h"
#include "text.h"

#define SIZE 1024 /* bytes to read, if the server has that many */

#define READ_ID ((const void *)(uintptr_t)0x4ead)

static int
read_text(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t *len)
{
	struct exchange server;

	/* the description of the server's memory came with its acceptance */
	int ret = checked("reading what the server says about its memory", exchange_unpack(conn, &server));
	if (ret)
		return ret;

	size_t there = server.size - server.data_offset;
	*len = there < SIZE ? there : SIZE;
	ret = checked("rpma_read",
		rpma_read(conn, dst, 0, server.mr, server.data_offset, *len, RPMA_F_COMPLETION_ALWAYS,
			READ_ID));
	/* the content of the memory is unknown until this completion */
	if (ret == 0)
		ret = conn_wait_completion(conn, READ_ID);
	exchange_release(&server);

	return ret;
}

int
main(int argc, char *argv[])
{
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *mr = NULL;
	struct rpma_conn *conn = NULL;
	char text[SIZE + 1];
	size_t len = 0;

	if (argc != 3) {
		fprintf(stderr, "usage: %s <server_address> <port>\n", argv[0]);
		return 2;
	}

	char *memory = memory_new(SIZE);
	if (memory == NULL)
		return 1;

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg", rpma_mr_reg(peer, memory, SIZE, RPMA_MR_USAGE_READ_DST, &mr));
	if (ret == 0)
		ret = client_connect(peer, argv[1], argv[2], NULL, NULL, &conn);
	if (ret == 0) {
		ret = read_text(conn, mr, &len);
		ret = first_error(ret, conn_disconnect(&conn));
	}
	if (ret == 0)
		printf("Read a message: %s\n", text_copy(text, sizeof(text), memory, len));

	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	free(memory);

	return ret ? 1 : 0;
}
