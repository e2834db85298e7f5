/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * ledger.h -- which messages and frames have left, as the device's own decoder reads them
 *
 * A ledger line has the ports of the sender and of the receiver, the name of the message or frame, its number, and the
 * bytes that follow its header. An ACCEPT for RESOLVE has its queue pair and Q_Key in the place of the number. The line of
 * a datagram has no number, and all fields of the header instead:
 *
 *	ports | DATAGRAM | length | flags | queue pairs of sender and receiver | Q_Key | immediate data | traffic class |
 *	hop limit | flow label | GID of the sender | what is in it | GID of the receiver | what is in it | sum
 *
 * One thread at a time, unless stated otherwise.
 */

#ifndef LEDGER_H
#define LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "softrdma/wire/wire.h"

#define LEDGER_NAME_MAX 24

/* one direction of a connection; all zeros at the beginning */
struct ledger_stream {
	uint16_t from, to;                   /* ports */
	bool opaque;                         /* true if the stream is TLS, or nothing that is understood */
	uint8_t header[SOFTRDMA_FRAME_SIZE]; /* of a message, a frame or a record, as far as it has come */
	size_t header_len;
	uint8_t record_header[SOFTRDMA_FRAME_SIZE];
	size_t record_header_len;
	size_t record_left; /* bytes of the record that are still to come */
	size_t payload_left;
};

/* what the two directions of a connection share; all zeros at the beginning */
struct ledger_shared {
	bool records;  /* true if its frames go in records */
	bool resolves; /* true if it has begun with RESOLVE */
};

/* takes bytes that have left, and writes a line for each header that is complete */
void ledger_take(struct ledger_stream *stream, struct ledger_shared *shared, const uint8_t *bytes, size_t len,
	FILE *lines);

/* takes a datagram that has left, between these ports, and writes its line */
void ledger_take_datagram(uint16_t from, uint16_t to, const uint8_t *bytes, size_t len, FILE *lines);

/* true if a message, frame or datagram of this name has left. Any thread. */
bool ledger_has(const char *name);
/* prints the names that have not left, but should have; the number of them */
unsigned ledger_missing(const char *const *wanted);

#endif /* LEDGER_H */
