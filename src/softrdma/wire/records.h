/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * records.h -- the byte stream of a connection in records, each with checksums
 *
 * TCP's checksum has 16 bits, and network cards compute it. Data that a card, a switch or a driver damages can
 * therefore carry a correct one. So received bytes are interpreted or placed only after their CRC32C has been
 * verified, and bytes to send do not change after their CRC32C was computed: both go through a buffer.
 *
 *	length		of the bytes that follow, 1 to SOFTRDMA_RECORD_MAX		4 bytes
 *	CRC32C		of the record's number in its direction, from 0, and the length	4 bytes
 *	CRC32C		of these and the bytes						4 bytes
 *	bytes
 *
 * The length has a checksum of its own: a side that believed a damaged length would wait for bytes that never
 * come.
 *
 * One thread at a time: the caller holds the lock of the link.
 */

#ifndef SOFTRDMA_RECORDS_H
#define SOFTRDMA_RECORDS_H

#include "softrdma/bounds.h"
#include "softrdma/wire/stream.h"

#define SOFTRDMA_RECORD_HEADER 12

/*
 * Makes a stream on a connected socket, which the caller still owns; 0 or an errno value. look() gives EBADMSG
 * for a damaged record and EPROTO for one that no sender makes, and from then on nothing but that error.
 */
int softrdma_records_new(int fd, struct softrdma_stream **stream);

#endif /* SOFTRDMA_RECORDS_H */
