/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * datagram.h -- unreliable datagrams (UD): work requests in, datagrams out; datagrams in, receives completed
 *
 * A queue pair of datagrams uses the send ring and the receive queue of its link, and no stream: its link stays IDLE. A
 * request is complete when the system has taken its datagram. A datagram that comes needs the queue pair's Q_Key and a
 * posted receive with room for it, or it is dropped (IBTA vol. 1, 9.8.3).
 *
 * Pure: no socket, no thread, no clock. The caller holds the link's lock in all calls.
 */

#ifndef SOFTRDMA_DATAGRAM_H
#define SOFTRDMA_DATAGRAM_H

#include "softrdma/core/link.h"
#include "softrdma/wire/datagram_header.h"

/* bytes before the payload of each receive: a GRH (IBTA vol. 1, 11.4.1.2) */
#define SOFTRDMA_GRH_SIZE 40u

/*
 * Makes the header of the request, and finds its payload. IBV_WC_SUCCESS, or the status with which the request fails:
 * IBV_WC_LOC_LEN_ERR or IBV_WC_LOC_PROT_ERR.
 */
enum ibv_wc_status softrdma_datagram_build(const struct softrdma_link *link, uint32_t seq,
	uint8_t header[static SOFTRDMA_DATAGRAM_HEADER], struct softrdma_place *place);

/* copies the payload to a buffer of SOFTRDMA_DATAGRAM_MAX bytes, and gives its length; false: the memory is not there */
bool softrdma_datagram_copy(const struct softrdma_place *place, uint8_t *payload, size_t *length);

/* sets the check sum in the header of a datagram with this payload */
void softrdma_datagram_sum(uint8_t header[static SOFTRDMA_DATAGRAM_HEADER], const uint8_t *payload,
	size_t length);

/* the system has taken the datagrams of the oldest requests, or has dropped them */
void softrdma_datagram_sent(struct softrdma_link *link, unsigned count);

/* true if the check sum is right, or the datagram has no check sum; the payload follows the header in memory */
bool softrdma_datagram_is_whole(const struct softrdma_datagram *datagram,
	const uint8_t header[static SOFTRDMA_DATAGRAM_HEADER]);

/*
 * Puts a datagram into the oldest receive, and completes it, or drops the datagram and counts why. The payload follows the
 * header in memory; the header's bytes are overwritten.
 */
void softrdma_datagram_deliver(struct softrdma_link *link, const struct softrdma_datagram *datagram,
	uint8_t header[static SOFTRDMA_DATAGRAM_HEADER]);

/* counts a datagram that was dropped */
void softrdma_datagram_drop(struct softrdma_link *link, enum softrdma_stats_drop why);

#endif /* SOFTRDMA_DATAGRAM_H */
