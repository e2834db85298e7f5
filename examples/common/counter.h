/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * counter.h -- the messages of the ping-pong examples: a number of 8 bytes, little-endian
 *
 * At most one message is in flight in each direction, so memory for one of each is enough. A side posts its
 * next receive before it sends, and sends only after its last message has completed. All functions return 0
 * or the librpma error, after they have told the user what went wrong.
 */

#ifndef EXAMPLES_COUNTER_H
#define EXAMPLES_COUNTER_H

#include <stdint.h>

#include <librpma.h>

#define COUNTER_SIZE 8         /* bytes of a message */
#define COUNTER_END UINT64_MAX /* tells the end of the client's messages */

struct counter {
	uint8_t *bytes; /* the received message, followed by the message to send */
	struct rpma_mr_local *mr;
};

int counter_open(struct rpma_peer *peer, struct counter *counter);
int counter_close(struct counter *counter); /* a zeroed one is allowed */

/* posts a receive for the next message: before the connection is established, or on it */
int counter_receive_first(struct rpma_conn_req *req, struct counter *counter);
int counter_receive(struct rpma_conn *conn, struct counter *counter);

/* asks for a completion */
int counter_send(struct rpma_conn *conn, struct counter *counter, uint64_t value);

/* the number in a received message */
int counter_received(const struct ibv_wc *wc, const struct counter *counter, uint64_t *value);

/* the encoding of numbers on the wire */
void counter_put(uint8_t bytes[static COUNTER_SIZE], uint64_t value);
uint64_t counter_get(const uint8_t bytes[static COUNTER_SIZE]);

#endif /* EXAMPLES_COUNTER_H */
