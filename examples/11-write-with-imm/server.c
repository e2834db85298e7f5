/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* server.c -- be notified by immediate data that a client has written, and print what it wrote */

#include <stdio.h>
#include <stdlib.h>

#include "connection.h"
#include "exchange.h"
#include "imm.h"

/*
 * The memory: the value, followed by the memory of the receive. A write with immediate data puts nothing into
 * the latter.
 */
#define VALUE 0
#define RECEIVED IMM_SIZE
#define SIZE (IMM_SIZE + IMM_SIZE)

static int
wait_for_value(struct rpma_conn *conn, const uint8_t *memory)
{
	struct ibv_wc wc;

	int ret = conn_next_completion(conn, &wc);
	if (ret)
		return ret;
	if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
		fprintf(stderr, "the client has sent a message, and was to write\n");
		return RPMA_E_INVAL;
	}

	/* the completion comes after the data, so the value is there */
	uint32_t imm;
	uint32_t value = imm_get(memory + VALUE);
	ret = imm_checked(&wc, value, &imm);
	if (ret == 0)
		printf("The value '%u' was written together with immediate data '%u'\n", value, imm);

	return ret;
}

int
main(int argc, char *argv[])
{
	uint8_t description[EXCHANGE_SIZE];
	struct rpma_conn_private_data pdata;
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *value_mr = NULL;
	struct rpma_mr_local *receive_mr = NULL;
	struct rpma_ep *ep = NULL;
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;

	if (argc != 3) {
		fprintf(stderr, "usage: %s <server_address> <port>\n", argv[0]);
		return 2;
	}
	show_log();

	uint8_t *memory = memory_new(SIZE);
	if (memory == NULL)
		return 1;
	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer, NULL);
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, memory + VALUE, IMM_SIZE, RPMA_MR_USAGE_WRITE_DST, &value_mr));
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, memory + RECEIVED, IMM_SIZE, RPMA_MR_USAGE_RECV, &receive_mr));
	if (ret == 0)
		ret = checked("describing the memory", exchange_pack(description, value_mr, NULL, 0, &pdata));
	if (ret == 0)
		ret = checked("rpma_ep_listen", rpma_ep_listen(peer, argv[1], argv[2], &ep));
	if (ret == 0)
		ret = checked("rpma_ep_next_conn_req", rpma_ep_next_conn_req(ep, NULL, &req));
	/* a write with immediate data consumes a receive, as a message does */
	if (ret == 0)
		ret = checked("rpma_conn_req_recv", rpma_conn_req_recv(req, receive_mr, 0, IMM_SIZE, NULL));
	if (ret == 0)
		ret = conn_establish(&req, &pdata, &conn);
	if (ret == 0) {
		ret = wait_for_value(conn, memory);
		ret = first_error(ret, ret ? conn_disconnect(&conn) : conn_wait_closed(&conn));
	}

	ret = first_error(ret, checked("rpma_conn_req_delete", rpma_conn_req_delete(&req)));
	ret = first_error(ret, checked("rpma_ep_shutdown", rpma_ep_shutdown(&ep)));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&receive_mr)));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&value_mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	free(memory);

	return ret ? 1 : 0;
}
