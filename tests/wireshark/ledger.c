/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* ledger.c -- which messages and frames have left, as the device's own decoder reads them */

#include <arpa/inet.h>
#include <stdatomic.h>
#include <string.h>

#include "ledger.h"
#include "softrdma/wire/datagram_header.h"
#include "softrdma/wire/records.h"

#define TLS_CONTENT_MIN 20
#define TLS_CONTENT_MAX 23

/* by opcode, and after those by the type of a handshake message; the last are datagrams */
#define HANDSHAKE_AT 64
#define DATAGRAM_AT (HANDSHAKE_AT + 8)
#define KINDS (DATAGRAM_AT + 1)

static const char *const names[KINDS] = {
	[SOFTRDMA_OP_SEND] = "SEND",
	[SOFTRDMA_OP_WRITE] = "WRITE",
	[SOFTRDMA_OP_READ] = "READ",
	[SOFTRDMA_OP_ATOMIC_WRITE] = "ATOMIC_WRITE",
	[SOFTRDMA_OP_COMPARE_SWAP] = "COMPARE_SWAP",
	[SOFTRDMA_OP_FETCH_ADD] = "FETCH_ADD",
	[SOFTRDMA_OP_FLUSH] = "FLUSH",
	[SOFTRDMA_OP_RESYNC] = "RESYNC",
	[SOFTRDMA_OP_ACK] = "ACK",
	[SOFTRDMA_OP_READ_RESPONSE] = "READ_RESPONSE",
	[SOFTRDMA_OP_ATOMIC_RESPONSE] = "ATOMIC_RESPONSE",
	[SOFTRDMA_OP_NAK] = "NAK",
	[SOFTRDMA_OP_RNR] = "RNR",
	[SOFTRDMA_OP_RNR_READY] = "RNR_READY",
	[SOFTRDMA_OP_READY] = "READY",
	[SOFTRDMA_OP_DISCONNECT] = "DISCONNECT",
	[SOFTRDMA_OP_SHM_OFFER] = "SHM_OFFER",
	[HANDSHAKE_AT + SOFTRDMA_HANDSHAKE_CONNECT] = "CONNECT",
	[HANDSHAKE_AT + SOFTRDMA_HANDSHAKE_ACCEPT] = "ACCEPT",
	[HANDSHAKE_AT + SOFTRDMA_HANDSHAKE_REJECT] = "REJECT",
	[HANDSHAKE_AT + SOFTRDMA_HANDSHAKE_JOIN] = "JOIN",
	[HANDSHAKE_AT + SOFTRDMA_HANDSHAKE_RESOLVE] = "RESOLVE",
	[DATAGRAM_AT] = "DATAGRAM",
};

static atomic_uint counts[KINDS];

static void
write_line(const struct ledger_stream *stream, unsigned kind, uint32_t seq, uint32_t length, FILE *lines)
{
	fprintf(lines, "%u %u %s %u %u\n", stream->from, stream->to, names[kind], seq, length);
	atomic_fetch_add(&counts[kind], 1);
}

/* the line of an ACCEPT for RESOLVE */
static void
write_answer(const struct ledger_stream *stream, const struct softrdma_handshake *hs, FILE *lines)
{
	const unsigned kind = HANDSHAKE_AT + SOFTRDMA_HANDSHAKE_ACCEPT;
	fprintf(lines, "%u %u %s 0x%08x/0x%08x %u\n", stream->from, stream->to, names[kind], hs->qp_num,
		hs->seq, hs->private_len);
	atomic_fetch_add(&counts[kind], 1);
}

/* a header is complete: a message or a frame */
static void
header_complete(struct ledger_stream *stream, struct ledger_shared *shared, FILE *lines)
{
	struct softrdma_handshake hs;
	struct softrdma_frame frame;
	if (softrdma_handshake_decode(stream->header, &hs) == SOFTRDMA_HANDSHAKE_OK) {
		stream->payload_left = hs.private_len;
		if (hs.type == SOFTRDMA_HANDSHAKE_ACCEPT)
			shared->records = hs.records != 0;
		if (hs.type == SOFTRDMA_HANDSHAKE_RESOLVE)
			shared->resolves = true;
		if (hs.type == SOFTRDMA_HANDSHAKE_ACCEPT && shared->resolves)
			write_answer(stream, &hs, lines);
		else
			write_line(stream, HANDSHAKE_AT + hs.type, hs.seq, hs.private_len, lines);
	} else if (softrdma_frame_decode(stream->header, &frame)) {
		stream->payload_left = frame.length;
		write_line(stream, frame.opcode, frame.seq, frame.length, lines);
	} else {
		stream->opaque = true;
	}
}

/* bytes of messages and frames */
static void
take_frames(struct ledger_stream *stream, struct ledger_shared *shared, const uint8_t *bytes, size_t len,
	FILE *lines)
{
	while (len > 0 && !stream->opaque) {
		size_t n = stream->payload_left;
		if (n > 0) {
			n = n < len ? n : len;
			stream->payload_left -= n;
		} else {
			n = sizeof(stream->header) - stream->header_len;
			n = n < len ? n : len;
			memcpy(stream->header + stream->header_len, bytes, n);
			stream->header_len += n;
			if (stream->header_len == sizeof(stream->header)) {
				stream->header_len = 0;
				header_complete(stream, shared, lines);
			}
		}
		bytes += n;
		len -= n;
	}
}

static uint32_t
little_endian(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void
take_records(struct ledger_stream *stream, struct ledger_shared *shared, const uint8_t *bytes, size_t len,
	FILE *lines)
{
	while (len > 0 && !stream->opaque) {
		size_t n = stream->record_left;
		if (n > 0) {
			n = n < len ? n : len;
			stream->record_left -= n;
			take_frames(stream, shared, bytes, n, lines);
		} else {
			n = SOFTRDMA_RECORD_HEADER - stream->record_header_len;
			n = n < len ? n : len;
			memcpy(stream->record_header + stream->record_header_len, bytes, n);
			stream->record_header_len += n;
			if (stream->record_header_len == SOFTRDMA_RECORD_HEADER) {
				stream->record_header_len = 0;
				stream->record_left = little_endian(stream->record_header);
			}
		}
		bytes += n;
		len -= n;
	}
}

void
ledger_take(struct ledger_stream *stream, struct ledger_shared *shared, const uint8_t *bytes, size_t len,
	FILE *lines)
{
	/* a frame never begins with such an opcode and these flags */
	if (stream->header_len == 0 && stream->payload_left == 0 && !shared->records && len > 1 &&
		bytes[0] >= TLS_CONTENT_MIN && bytes[0] <= TLS_CONTENT_MAX && bytes[1] == 3)
		stream->opaque = true;
	if (shared->records)
		take_records(stream, shared, bytes, len, lines);
	else
		take_frames(stream, shared, bytes, len, lines);
}

static void
write_bytes(const uint8_t *bytes, size_t len, FILE *lines)
{
	for (size_t i = 0; i < len; i++)
		fprintf(lines, "%02x", bytes[i]);
}

/* the address, and the parts of a GID that is not one */
static void
write_gid(const union ibv_gid *gid, FILE *lines)
{
	static const uint8_t tag[] = { 0xfc, 0x53, 1 };
	const uint8_t *raw = gid->raw;
	char addr[INET6_ADDRSTRLEN] = "";
	inet_ntop(AF_INET6, raw, addr, sizeof(addr));
	fprintf(lines, " %s ", addr);
	if (memcmp(raw, tag, sizeof(tag)) != 0) {
		fprintf(lines, "-");
		return;
	}
	inet_ntop(AF_INET, raw + 4, addr, sizeof(addr));
	fprintf(lines, "%u/%s/%u/", raw[3], addr, (unsigned)raw[8] << 8 | raw[9]);
	write_bytes(raw + 10, 6, lines);
}

void
ledger_take_datagram(uint16_t from, uint16_t to, const uint8_t *bytes, size_t len, FILE *lines)
{
	struct softrdma_datagram datagram;
	if (!softrdma_datagram_decode(bytes, len, &datagram)) {
		fprintf(lines, "%u %u a datagram that cannot be decoded\n", from, to);
		return;
	}
	fprintf(lines, "%u %u %s %u imm=%d,solicited=%d,summed=%d 0x%08x 0x%08x 0x%08x ", from, to,
		names[DATAGRAM_AT], datagram.length, datagram.has_imm, datagram.solicited, datagram.summed,
		datagram.from_qp, datagram.to_qp, datagram.qkey);
	if (datagram.has_imm)
		write_bytes((const uint8_t *)&datagram.imm, sizeof(datagram.imm), lines);
	else
		fprintf(lines, "-");
	fprintf(lines, " 0x%02x %u 0x%08x", datagram.traffic_class, datagram.hop_limit, datagram.flow_label);
	write_gid(&datagram.from, lines);
	write_gid(&datagram.to, lines);
	if (datagram.summed)
		fprintf(lines, " 0x%08x\n", datagram.sum);
	else
		fprintf(lines, " -\n");
	atomic_fetch_add(&counts[DATAGRAM_AT], 1);
}

bool
ledger_has(const char *name)
{
	for (unsigned kind = 0; kind < KINDS; kind++) {
		if (names[kind] && strcmp(names[kind], name) == 0)
			return atomic_load(&counts[kind]) > 0;
	}
	return false;
}

unsigned
ledger_missing(const char *const *wanted)
{
	unsigned missing = 0;
	for (; *wanted; wanted++) {
		if (!ledger_has(*wanted)) {
			fprintf(stderr, "no %s has left\n", *wanted);
			missing++;
		}
	}
	return missing;
}
