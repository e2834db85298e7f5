/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * protocol.h -- what writer and replica send each other while they connect, as private data
 *
 * The writer sends a hello of 12 bytes: the text "rpma-log" and the version of the format as 4 bytes,
 * little-endian. The replica accepts with the description of its memory (exchange.h). While it serves another
 * writer, it rejects with the four letters "busy". It rejects a request without a hello without private data,
 * like a port on which no process listens.
 *
 * The lease: a writer at work advances the word "lease" of each replica's header every LEASE_RENEW_MS. If
 * another writer asks for the replica and the word has not changed for LEASE_MS, by the replica's own clock,
 * the replica ends the connection of the writer that hangs and accepts the other one. The lease protects no
 * data: the ended connection does (nothing of its writer arrives any longer), and the epochs do.
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
	"\x02\x00\x00\x00"
#define LEASE_RENEW_MS 1000
#define LEASE_MS 5000

#define BUSY_SIZE 4
#define BUSY "busy"

_Static_assert(sizeof(HELLO) == HELLO_SIZE + 1, "the hello is its text and the version");
_Static_assert(LOG_VERSION == 2, "the version is in the hello as well");

/* transports may pad private data, so only the beginning counts */
static inline bool
pdata_begins_with(const struct rpma_conn_private_data *pdata, const char *text, size_t len)
{
	return pdata->ptr != NULL && pdata->len >= len && memcmp(pdata->ptr, text, len) == 0;
}

#endif /* LOG_PROTOCOL_H */
