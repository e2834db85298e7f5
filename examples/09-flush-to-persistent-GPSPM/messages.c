/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <stdio.h>
#include <stdlib.h>

#include "connection.h"
#include "messages.h"

#define RECEIVED 0
#define TO_SEND MESSAGE_SIZE_MAX

int
messages_open(struct rpma_peer *peer, struct messages *messages)
{
	messages->bytes = memory_new(TO_SEND + MESSAGE_SIZE_MAX);
	if (messages->bytes == NULL)
		return RPMA_E_NOMEM;

	return checked("rpma_mr_reg",
		rpma_mr_reg(peer, messages->bytes, TO_SEND + MESSAGE_SIZE_MAX,
			RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &messages->mr));
}

int
messages_close(struct messages *messages)
{
	int ret = checked("rpma_mr_dereg", rpma_mr_dereg(&messages->mr));
	free(messages->bytes);
	messages->bytes = NULL;

	return ret;
}

int
messages_receive_first(struct rpma_conn_req *req, struct messages *messages)
{
	return checked("rpma_conn_req_recv",
		rpma_conn_req_recv(req, messages->mr, RECEIVED, MESSAGE_SIZE_MAX, NULL));
}

int
messages_receive(struct rpma_conn *conn, struct messages *messages)
{
	return checked("rpma_recv", rpma_recv(conn, messages->mr, RECEIVED, MESSAGE_SIZE_MAX, NULL));
}

int
messages_send(struct rpma_conn *conn, struct messages *messages, const ProtobufCMessage *message)
{
	size_t len = protobuf_c_message_get_packed_size(message);

	if (len > MESSAGE_SIZE_MAX) {
		fprintf(stderr, "a message of %zu bytes does not fit\n", len);
		return RPMA_E_INVAL;
	}
	(void)protobuf_c_message_pack(message, messages->bytes + TO_SEND);

	/* if all fields have their defaults, the message has no bytes at all */
	return checked("rpma_send",
		rpma_send(conn, len ? messages->mr : NULL, len ? TO_SEND : 0, len, RPMA_F_COMPLETION_ALWAYS,
			NULL));
}

ProtobufCMessage *
messages_received(const struct messages *messages, const struct ibv_wc *wc,
	const ProtobufCMessageDescriptor *type)
{
	ProtobufCMessage *message = NULL;

	/* the device writes at most as many bytes as the receive has room for */
	if (wc->opcode == IBV_WC_RECV && wc->byte_len <= MESSAGE_SIZE_MAX)
		message = protobuf_c_message_unpack(type, NULL, wc->byte_len, messages->bytes + RECEIVED);
	if (message == NULL)
		fprintf(stderr, "the message that came is no %s\n", type->name);

	return message;
}
