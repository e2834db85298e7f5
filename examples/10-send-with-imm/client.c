/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.c -- send a word, or nothing at all, with 4 bytes of immediate data
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "imm.h"
#include "numbers.h"

#define WORD_SIZE 1024 /* in bytes, with the terminating zero */

#define SEND_ID ((const void *)(uintptr_t)0x5e4d)

int
main(int argc, char *argv[])
{
	const char *word = argc > 4 ? argv[4] : "";
	uint8_t announced[IMM_SIZE];
	const struct rpma_conn_private_data pdata = { announced, IMM_SIZE };
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *mr = NULL;
	struct rpma_conn *conn = NULL;
	uint64_t imm;

	if (argc < 4 || argc > 5 || !parse_number(argv[3], UINT32_MAX, &imm) || strlen(word) >= WORD_SIZE) {
		fprintf(stderr, "usage: %s <server_address> <port> <imm> [word]\n", argv[0]);
		return 2;
	}

	/* tells the server in advance what to expect */
	imm_put(announced, (uint32_t)imm);
	char *memory = memory_new(WORD_SIZE);
	if (memory == NULL)
		return 1;
	memcpy(memory, word, strlen(word) + 1);

	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg", rpma_mr_reg(peer, memory, WORD_SIZE, RPMA_MR_USAGE_SEND, &mr));
	if (ret == 0)
		ret = client_connect(peer, argv[1], argv[2], NULL, &pdata, &conn);
	if (ret == 0) {
		printf("Sending value '%s' with immediate data '%u'\n", word, (uint32_t)imm);
		/* without a word there is no memory to send from, only the immediate data */
		if (argc > 4)
			ret = rpma_send_with_imm(conn, mr, 0, strlen(word) + 1, RPMA_F_COMPLETION_ALWAYS,
				(uint32_t)imm, SEND_ID);
		else
			ret = rpma_send_with_imm(conn, NULL, 0, 0, RPMA_F_COMPLETION_ALWAYS, (uint32_t)imm,
				SEND_ID);
		ret = checked("rpma_send_with_imm", ret);
		if (ret == 0)
			ret = conn_wait_completion(conn, SEND_ID);
		ret = first_error(ret, conn_disconnect(&conn));
	}

	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	free(memory);

	return ret ? 1 : 0;
}
