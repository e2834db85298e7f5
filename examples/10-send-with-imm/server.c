/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* server.c -- receive a word with immediate data, and compare that with the announced data */

#include <stdio.h>
#include <stdlib.h>

#include "connection.h"
#include "imm.h"
#include "text.h"

#define WORD_SIZE 1024 /* most bytes of a word, with the terminating zero */

static int
receive_word(struct rpma_conn *conn, const char *memory, uint32_t announced)
{
	char word[WORD_SIZE];
	struct ibv_wc wc;
	uint32_t imm;

	int ret = conn_next_completion(conn, &wc);
	if (ret == 0)
		ret = imm_checked(&wc, announced, &imm);
	if (ret)
		return ret;

	/* the device writes at most as many bytes as the receive has room for; it may be none */
	size_t len = wc.byte_len < WORD_SIZE ? wc.byte_len : WORD_SIZE;
	printf("Received value '%s' with immediate data '%u'\n", text_copy(word, sizeof(word), memory, len),
		imm);

	return 0;
}

int
main(int argc, char *argv[])
{
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *mr = NULL;
	struct rpma_ep *ep = NULL;
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;
	uint32_t announced = 0;

	if (argc != 3) {
		fprintf(stderr, "usage: %s <server_address> <port>\n", argv[0]);
		return 2;
	}
	show_log();

	char *memory = memory_new(WORD_SIZE);
	if (memory == NULL)
		return 1;
	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg", rpma_mr_reg(peer, memory, WORD_SIZE, RPMA_MR_USAGE_RECV, &mr));
	if (ret == 0)
		ret = checked("rpma_ep_listen", rpma_ep_listen(peer, argv[1], argv[2], &ep));
	if (ret == 0)
		ret = checked("rpma_ep_next_conn_req", rpma_ep_next_conn_req(ep, NULL, &req));
	/* a request can be read before it is accepted; one without an announcement is rejected */
	if (ret == 0)
		ret = imm_announced(req, &announced);
	/* before the connection, because the client may send as soon as it is connected */
	if (ret == 0)
		ret = checked("rpma_conn_req_recv", rpma_conn_req_recv(req, mr, 0, WORD_SIZE, NULL));
	if (ret == 0)
		ret = conn_establish(&req, NULL, &conn);
	if (ret == 0) {
		ret = receive_word(conn, memory, announced);
		ret = first_error(ret, ret ? conn_disconnect(&conn) : conn_wait_closed(&conn));
	}

	ret = first_error(ret, checked("rpma_conn_req_delete", rpma_conn_req_delete(&req)));
	ret = first_error(ret, checked("rpma_ep_shutdown", rpma_ep_shutdown(&ep)));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	free(memory);

	return ret ? 1 : 0;
}
