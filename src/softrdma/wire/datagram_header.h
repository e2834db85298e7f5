/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * datagram_header.h -- the bytes of one unreliable datagram (UD): a header, and the payload of one SEND
 *
 * The header has the GIDs that the two programs use for their sides, because one address may have several. It is described in
 * doc/softrdma-protocol.md. Nothing in it can be trusted: each host that reaches the socket can send one.
 */

#ifndef SOFTRDMA_DATAGRAM_HEADER_H
#define SOFTRDMA_DATAGRAM_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* bytes of the header; at least those of a GRH, which takes its last bytes at the receiver */
#define SOFTRDMA_DATAGRAM_HEADER 68

struct softrdma_datagram {
	bool has_imm;
	bool solicited;
	bool summed;     /* true if sum is the CRC32C of the datagram, with 0 in the place of the sum */
	uint16_t length; /* bytes of payload, at most SOFTRDMA_DATAGRAM_MAX */
	uint32_t to_qp, from_qp; /* queue pair numbers, of 24 bits */
	uint32_t qkey;
	uint32_t imm;        /* in the byte order of the work request */
	uint32_t flow_label; /* of 20 bits */
	uint8_t traffic_class, hop_limit;
	union ibv_gid from, to;
	uint32_t sum;
};

void softrdma_datagram_encode(const struct softrdma_datagram *datagram,
	uint8_t header[static SOFTRDMA_DATAGRAM_HEADER]);

/* decodes a datagram of size bytes; false: the bytes have another form, version or length */
bool softrdma_datagram_decode(const uint8_t *bytes, size_t size, struct softrdma_datagram *datagram);

/* sets the sum in a header */
void softrdma_datagram_set_sum(uint8_t header[static SOFTRDMA_DATAGRAM_HEADER], uint32_t sum);
/* the CRC32C of a header, as if its sum were 0; the caller goes on with the payload (crc.h) */
uint32_t softrdma_datagram_begin_sum(const uint8_t header[static SOFTRDMA_DATAGRAM_HEADER]);

#endif /* SOFTRDMA_DATAGRAM_HEADER_H */
