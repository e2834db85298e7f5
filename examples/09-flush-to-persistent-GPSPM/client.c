/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.c -- write a text into the server's memory and ask the server's program to make it durable
 *
 * If a file is given, the text is kept in persistent memory. It is another text at the next start.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "completions.h"
#include "connection.h"
#include "exchange.h"
#include "greeting.h"
#include "messages.h"
#include "numbers.h"

/* the response carries it back */
#define FLUSH_ID 0xf1a54

/* checks that the server has done the request of that number */
static int
check_response(const struct messages *messages, const struct ibv_wc *wc)
{
	ProtobufCMessage *message = messages_received(messages, wc, &gpspm__flush_response__descriptor);
	if (message == NULL)
		return RPMA_E_INVAL;

	uint64_t op_context = ((const Gpspm__FlushResponse *)message)->op_context;
	protobuf_c_message_free_unpacked(message, NULL);
	if (op_context != FLUSH_ID) {
		fprintf(stderr, "a response to a request that was not sent: 0x%" PRIX64 "\n", op_context);
		return RPMA_E_INVAL;
	}

	return 0;
}

/* Sends the request, and waits for its completion and for the response, in any order. */
static int
request_flush(struct rpma_conn *conn, struct messages *messages, size_t offset, size_t len)
{
	Gpspm__FlushRequest request = GPSPM__FLUSH_REQUEST__INIT;
	struct ibv_wc wc;

	request.offset = offset;
	request.length = len;
	request.op_context = FLUSH_ID;
	int ret = messages_receive(conn, messages);
	if (ret == 0)
		ret = messages_send(conn, messages, &request.base);
	for (int i = 0; ret == 0 && i < 2; i++) {
		ret = completions_next(conn, COMPLETIONS_MAIN, &wc);
		if (ret == 0 && wc.opcode != IBV_WC_SEND)
			ret = check_response(messages, &wc);
	}

	return ret;
}

static int
write_greeting(struct rpma_conn *conn, const struct rpma_mr_local *src, struct greeting_memory *mem,
	struct messages *messages)
{
	struct exchange server;

	int ret = checked("reading what the server says about its memory", exchange_unpack(conn, &server));
	if (ret)
		return ret;

	/* the server may have less room than the text needs */
	size_t room = server.size - server.data_offset;
	size_t len = room < GREETING_SIZE ? room : GREETING_SIZE;
	if (len <= strlen(greeting_text(mem))) {
		fprintf(stderr, "the server's memory is too small: %zu bytes\n", room);
		ret = RPMA_E_INVAL;
	}

	/* asks for no completion: the response implies that the data has arrived, and more */
	if (ret == 0)
		ret = checked("rpma_write",
			rpma_write(conn, server.mr, server.data_offset, src, 0, len,
				RPMA_F_COMPLETION_ON_ERROR, NULL));
	if (ret == 0)
		ret = request_flush(conn, messages, server.data_offset, len);
	exchange_release(&server);

	return ret;
}

int
main(int argc, char *argv[])
{
	struct greeting_memory mem;
	struct messages messages = { 0 };
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *src = NULL;
	struct rpma_conn_cfg *cfg = NULL;
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
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, greeting_text(&mem), GREETING_SIZE, RPMA_MR_USAGE_WRITE_SRC, &src));
	if (ret == 0)
		ret = messages_open(peer, &messages);
	if (ret == 0)
		ret = checked("rpma_conn_cfg_new", rpma_conn_cfg_new(&cfg));
	if (ret == 0)
		ret = completions_configure(cfg);
	if (ret == 0)
		ret = client_connect(peer, argv[1], argv[2], cfg, NULL, &conn);
	if (ret == 0) {
		ret = write_greeting(conn, src, &mem, &messages);
		ret = first_error(ret, conn_disconnect(&conn));
	}
	/* the server has it: the next text will be another one */
	if (ret == 0)
		greeting_translate(&mem);

	ret = first_error(ret, checked("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg)));
	ret = first_error(ret, messages_close(&messages));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&src)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	greeting_close(&mem);

	return ret ? 1 : 0;
}
