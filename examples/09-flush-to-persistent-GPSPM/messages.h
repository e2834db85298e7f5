/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * messages.h -- the protobuf messages of gpspm.proto as RDMA messages
 *
 * All functions return 0 or the librpma error, after they have told the user what went wrong.
 */

#ifndef MESSAGES_H
#define MESSAGES_H

#include <stdint.h>

#include <librpma.h>

#include "gpspm.pb-c.h"

/* more than any message of gpspm.proto needs: three numbers of 10 bytes and their tags */
#define MESSAGE_SIZE_MAX 64

/* memory for a received message, followed by memory for a message to send */
struct messages {
	uint8_t *bytes;
	struct rpma_mr_local *mr;
};

int messages_open(struct rpma_peer *peer, struct messages *messages);
int messages_close(struct messages *messages); /* a zeroed one is allowed */

/* posts a receive for a message: before the connection is established, or on it */
int messages_receive_first(struct rpma_conn_req *req, struct messages *messages);
int messages_receive(struct rpma_conn *conn, struct messages *messages);

/* sends a message; asks for a completion */
int messages_send(struct rpma_conn *conn, struct messages *messages, const ProtobufCMessage *message);

/*
 * Decodes a received message of that type; free it with protobuf_c_message_free_unpacked(). NULL if it is no
 * such message.
 */
ProtobufCMessage *messages_received(const struct messages *messages, const struct ibv_wc *wc,
	const ProtobufCMessageDescriptor *type);

#endif /* MESSAGES_H */
