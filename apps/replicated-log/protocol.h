/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * protocol.h -- what writer and replica send each other while they connect, as private data
 *
 * The writer sends a hello of 12 bytes: the text "rpma-log" and the version of the format as 4 bytes,
 * little-endian. The replica accepts with the description of its memory (exchange.h). While it serves another
 * writer, it rejects with the four letters "busy". It rejects a request without a hello without private data,
 * like a port on which no process listens.
 */

#ifndef LOG_PROTOCOL_H
#define LOG_PROTOCOL_H

#include <stdbool.h>
#include <string.h>

#include <librpma.h>

#include "log_format.h"

#define HELLO_SIZE 12
#define HELLO \
	"rpma-log" \
	"\x01\x00\x00\x00"
#define BUSY_SIZE 4
#define BUSY "busy"

_Static_assert(sizeof(HELLO) == HELLO_SIZE + 1, "the hello is its text and the version");
_Static_assert(LOG_VERSION == 1, "the version is in the hello as well");

/* transports may pad private data, so only the beginning counts */
static inline bool
pdata_begins_with(const struct rpma_conn_private_data *pdata, const char *text, size_t len)
{
	return pdata->ptr != NULL && pdata->len >= len && memcmp(pdata->ptr, text, len) == 0;
}

#endif /* LOG_PROTOCOL_H */
