/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* server.c -- give one client memory to write to, and make durable what it requests */

#include <inttypes.h>
#include <stdio.h>

#include "completions.h"
#include "connection.h"
#include "exchange.h"
#include "greeting.h"
#include "messages.h"

/* the range of the request comes from the network, so check that it is within the memory */
static int
make_durable(struct greeting_memory *mem, const Gpspm__FlushRequest *request)
{
	printf("Flush request received: {offset: 0x%" PRIX64 ", length: 0x%" PRIX64 ", op_context: 0x%" PRIX64
	       "}\n",
		request->offset, request->length, request->op_context);
	if (request->offset > mem->size || request->length > mem->size - request->offset) {
		fprintf(stderr, "that is not within the memory of %zu bytes\n", mem->size);
		return RPMA_E_INVAL;
	}

	if (mem->file.map)
		mem->file.persist((char *)mem->ptr + request->offset, request->length);
	else
		printf("The persist function should be called here, if there were persistent memory.\n");

	return 0;
}

/* serves one request */
static int
serve_request(struct rpma_conn *conn, struct messages *messages, struct greeting_memory *mem)
{
	Gpspm__FlushResponse response = GPSPM__FLUSH_RESPONSE__INIT;
	struct ibv_wc wc;

	int ret = completions_next(conn, COMPLETIONS_MAIN, &wc);
	if (ret)
		return ret;

	ProtobufCMessage *message = messages_received(messages, &wc, &gpspm__flush_request__descriptor);
	if (message == NULL)
		return RPMA_E_INVAL;
	const Gpspm__FlushRequest *request = (const Gpspm__FlushRequest *)message;
	/* the data was written before the request was sent, on the same connection, so it is there */
	ret = make_durable(mem, request);
	response.op_context = request->op_context;
	protobuf_c_message_free_unpacked(message, NULL);

	if (ret == 0)
		ret = messages_send(conn, messages, &response.base);

	return ret ? ret : completions_next(conn, COMPLETIONS_MAIN, &wc);
}

int
main(int argc, char *argv[])
{
	uint8_t description[EXCHANGE_SIZE];
	struct rpma_conn_private_data pdata;
	struct greeting_memory mem;
	struct messages messages = { 0 };
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *mr = NULL;
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_ep *ep = NULL;
	struct rpma_conn_req *req = NULL;
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
	/* asks the device for no flush: this program does it */
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, mem.ptr, mem.size, RPMA_MR_USAGE_WRITE_DST, &mr));
	if (ret == 0)
		ret = messages_open(peer, &messages);
	if (ret == 0)
		ret = checked("describing the memory",
			exchange_pack(description, mr, NULL, mem.text_offset, &pdata));
	if (ret == 0)
		ret = checked("rpma_conn_cfg_new", rpma_conn_cfg_new(&cfg));
	if (ret == 0)
		ret = completions_configure(cfg);
	if (ret == 0)
		ret = checked("rpma_ep_listen", rpma_ep_listen(peer, argv[1], argv[2], &ep));
	if (ret == 0)
		ret = checked("rpma_ep_next_conn_req", rpma_ep_next_conn_req(ep, cfg, &req));
	/* before the connection, because the request may come as soon as the client is connected */
	if (ret == 0)
		ret = messages_receive_first(req, &messages);
	if (ret == 0)
		ret = conn_establish(&req, &pdata, &conn);
	if (ret == 0) {
		ret = serve_request(conn, &messages, &mem);
		/* after a failure there is no need to wait for the client */
		ret = first_error(ret, ret ? conn_disconnect(&conn) : conn_wait_closed(&conn));
	}
	if (ret == 0)
		greeting_print("New value", &mem);

	ret = first_error(ret, checked("rpma_conn_req_delete", rpma_conn_req_delete(&req)));
	ret = first_error(ret, checked("rpma_ep_shutdown", rpma_ep_shutdown(&ep)));
	ret = first_error(ret, checked("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg)));
	ret = first_error(ret, messages_close(&messages));
	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	greeting_close(&mem);

	return ret ? 1 : 0;
}
