/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "counter.h"

#define RECEIVED 0
#define TO_SEND COUNTER_SIZE

int
counter_open(struct rpma_peer *peer, struct counter *counter)
{
	counter->bytes = memory_new(TO_SEND + COUNTER_SIZE);
	if (counter->bytes == NULL)
		return RPMA_E_NOMEM;

	return checked("rpma_mr_reg",
		rpma_mr_reg(peer, counter->bytes, TO_SEND + COUNTER_SIZE,
			RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &counter->mr));
}

int
counter_close(struct counter *counter)
{
	int ret = checked("rpma_mr_dereg", rpma_mr_dereg(&counter->mr));
	free(counter->bytes);
	counter->bytes = NULL;

	return ret;
}

int
counter_receive_first(struct rpma_conn_req *req, struct counter *counter)
{
	return checked("rpma_conn_req_recv",
		rpma_conn_req_recv(req, counter->mr, RECEIVED, COUNTER_SIZE, NULL));
}

int
counter_receive(struct rpma_conn *conn, struct counter *counter)
{
	return checked("rpma_recv", rpma_recv(conn, counter->mr, RECEIVED, COUNTER_SIZE, NULL));
}

int
counter_send(struct rpma_conn *conn, struct counter *counter, uint64_t value)
{
	counter_put(counter->bytes + TO_SEND, value);

	return checked("rpma_send",
		rpma_send(conn, counter->mr, TO_SEND, COUNTER_SIZE, RPMA_F_COMPLETION_ALWAYS, NULL));
}

int
counter_received(const struct ibv_wc *wc, const struct counter *counter, uint64_t *value)
{
	/* a shorter message would leave part of the previous one */
	if (wc->opcode != IBV_WC_RECV || wc->byte_len != COUNTER_SIZE) {
		fprintf(stderr, "not a message of %d bytes\n", COUNTER_SIZE);
		return RPMA_E_INVAL;
	}
	*value = counter_get(counter->bytes + RECEIVED);

	return 0;
}

void
counter_put(uint8_t bytes[static COUNTER_SIZE], uint64_t value)
{
	value = htole64(value);
	memcpy(bytes, &value, COUNTER_SIZE);
}

uint64_t
counter_get(const uint8_t bytes[static COUNTER_SIZE])
{
	uint64_t value;

	memcpy(&value, bytes, COUNTER_SIZE);
	return le64toh(value);
}
