/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * records.h -- the byte stream of a connection in records, each with check sums
 *
 * TCP's own sum has 16 bits, and network cards compute it. What a card, a switch or a driver damages has the
 * right one. So nothing that is received is interpreted or placed before its CRC32C has been looked at, and
 * what is sent does not change after its CRC32C was made: both go through a buffer.
 *
 *	length		of the bytes that follow, 1 to SOFTRDMA_RECORD_MAX		4 bytes
 *	CRC32C		of the record's number in its direction, from 0, and the length	4 bytes
 *	CRC32C		of these and the bytes						4 bytes
 *	bytes
 *
 * The length has a sum of its own: a side that believed a damaged one would wait for bytes that never come.
 *
 * One thread at a time: the lock of the link is held.
 */

#ifndef SOFTRDMA_RECORDS_H
#define SOFTRDMA_RECORDS_H

#include "bounds.h"
#include "stream.h"

#define SOFTRDMA_RECORD_HEADER 12

/*
 * On a connected socket, which stays its owner's; 0 or an errno value. Its look gives EBADMSG for what was
 * damaged and EPROTO for what no sender makes, and nothing behind that.
 */
int softrdma_records_new(int fd, struct softrdma_stream **stream);

#endif /* SOFTRDMA_RECORDS_H */
