/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* client.c -- write a number into the server's memory, and notify the server by immediate data */

#include <stdio.h>
#include <stdlib.h>

#include "connection.h"
#include "exchange.h"
#include "imm.h"
#include "numbers.h"

#define WRITE_ID ((const void *)(uintptr_t)0x3417e)

static int
write_value(struct rpma_conn *conn, const struct rpma_mr_local *src, uint32_t imm)
{
	struct exchange server;

	int ret = checked("reading what the server says about its memory", exchange_unpack(conn, &server));
	if (ret)
		return ret;

	printf("Writing value '%u' with immediate data '%u'\n", imm, imm);
	ret = checked("rpma_write_with_imm",
		rpma_write_with_imm(conn, server.mr, server.data_offset, src, 0, IMM_SIZE,
			RPMA_F_COMPLETION_ALWAYS, imm, WRITE_ID));
	if (ret == 0)
		ret = conn_wait_completion(conn, WRITE_ID);
	exchange_release(&server);

	return ret;
}

int
main(int argc, char *argv[])
{
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *mr = NULL;
	struct rpma_conn *conn = NULL;
	uint64_t imm;

	if (argc != 4 || !parse_number(argv[3], UINT32_MAX, &imm)) {
		fprintf(stderr, "usage: %s <server_address> <port> <imm>\n", argv[0]);
		return 2;
	}

	uint8_t *memory = memory_new(IMM_SIZE);
	if (memory == NULL)
		return 1;
	imm_put(memory, (uint32_t)imm);

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, memory, IMM_SIZE, RPMA_MR_USAGE_WRITE_SRC, &mr));
	if (ret == 0)
		ret = client_connect(peer, argv[1], argv[2], NULL, NULL, &conn);
	if (ret == 0) {
		ret = write_value(conn, mr, (uint32_t)imm);
		ret = first_error(ret, conn_disconnect(&conn));
	}

	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	free(memory);

	return ret ? 1 : 0;
}
