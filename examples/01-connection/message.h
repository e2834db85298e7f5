/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* message.h -- the text that the other side sent with the connection */

#ifndef MESSAGE_H
#define MESSAGE_H

#include <stdio.h>

#include "connection.h"
#include "text.h"

/* the private data belongs to the connection and is freed with it */
static inline int
print_message(const struct rpma_conn *conn)
{
	struct rpma_conn_private_data pdata;
	char text[UINT8_MAX + 1];

	int ret = checked("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &pdata));
	if (ret)
		return ret;
	if (pdata.ptr == NULL) {
		fprintf(stderr, "the other side has sent no message\n");
		return RPMA_E_INVAL;
	}
	printf("Received a message: %s\n", text_copy(text, sizeof(text), pdata.ptr, pdata.len));

	return 0;
}

#endif /* MESSAGE_H */
