/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* datagram_header.c -- the bytes of one unreliable datagram (UD), described in doc/softrdma-protocol.md */

#include <endian.h>
#include <string.h>

#include "softrdma/bounds.h"
#include "softrdma/wire/crc.h"
#include "softrdma/wire/datagram_header.h"

#define VERSION 1

enum {
	FLAG_IMM = 1 << 0,
	FLAG_SOLICITED = 1 << 1,
	FLAG_SUMMED = 1 << 2,
	FLAGS_KNOWN = FLAG_IMM | FLAG_SOLICITED | FLAG_SUMMED,
};

#define FLOW_LABEL_MAX 0xfffff

/* where each field begins */
enum {
	AT_MAGIC = 0,
	AT_VERSION = 4,
	AT_FLAGS = 5,
	AT_LENGTH = 6,
	AT_TO_QP = 8,
	AT_FROM_QP = 12,
	AT_QKEY = 16,
	AT_IMM = 20,
	AT_TRAFFIC_CLASS = 24,
	AT_HOP_LIMIT = 25,
	AT_ZERO = 26, /* two bytes */
	AT_FLOW_LABEL = 28,
	AT_FROM = 32,
	AT_TO = 48,
	AT_SUM = 64,
};

static const uint8_t magic[4] = { 'S', 'R', 'U', 'D' };

static void
put16(uint8_t *at, uint16_t value)
{
	value = htole16(value);
	memcpy(at, &value, sizeof(value));
}

static void
put32(uint8_t *at, uint32_t value)
{
	value = htole32(value);
	memcpy(at, &value, sizeof(value));
}

static uint16_t
get16(const uint8_t *at)
{
	uint16_t value;
	memcpy(&value, at, sizeof(value));
	return le16toh(value);
}

static uint32_t
get32(const uint8_t *at)
{
	uint32_t value;
	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

void
softrdma_datagram_encode(const struct softrdma_datagram *datagram,
	uint8_t header[static SOFTRDMA_DATAGRAM_HEADER])
{
	memcpy(header + AT_MAGIC, magic, sizeof(magic));
	header[AT_VERSION] = VERSION;
	header[AT_FLAGS] = (uint8_t)((datagram->has_imm ? FLAG_IMM : 0) |
		(datagram->solicited ? FLAG_SOLICITED : 0) | (datagram->summed ? FLAG_SUMMED : 0));
	put16(header + AT_LENGTH, datagram->length);
	put32(header + AT_TO_QP, datagram->to_qp);
	put32(header + AT_FROM_QP, datagram->from_qp);
	put32(header + AT_QKEY, datagram->qkey);
	memcpy(header + AT_IMM, &datagram->imm, sizeof(datagram->imm));
	header[AT_TRAFFIC_CLASS] = datagram->traffic_class;
	header[AT_HOP_LIMIT] = datagram->hop_limit;
	put16(header + AT_ZERO, 0);
	put32(header + AT_FLOW_LABEL, datagram->flow_label);
	memcpy(header + AT_FROM, datagram->from.raw, sizeof(datagram->from.raw));
	memcpy(header + AT_TO, datagram->to.raw, sizeof(datagram->to.raw));
	put32(header + AT_SUM, datagram->sum);
}

static bool
is_sane(const struct softrdma_datagram *datagram, size_t size)
{
	return datagram->length == size - SOFTRDMA_DATAGRAM_HEADER &&
		datagram->length <= SOFTRDMA_DATAGRAM_MAX && datagram->to_qp <= SOFTRDMA_QP_NUM_MAX &&
		datagram->from_qp <= SOFTRDMA_QP_NUM_MAX && datagram->flow_label <= FLOW_LABEL_MAX &&
		(datagram->has_imm || datagram->imm == 0) && (datagram->summed || datagram->sum == 0);
}

bool
softrdma_datagram_decode(const uint8_t *bytes, size_t size, struct softrdma_datagram *datagram)
{
	if (size < SOFTRDMA_DATAGRAM_HEADER || memcmp(bytes + AT_MAGIC, magic, sizeof(magic)) != 0)
		return false;
	const uint8_t flags = bytes[AT_FLAGS];
	if (bytes[AT_VERSION] != VERSION || (flags & ~FLAGS_KNOWN) || get16(bytes + AT_ZERO) != 0)
		return false;
	datagram->has_imm = flags & FLAG_IMM;
	datagram->solicited = flags & FLAG_SOLICITED;
	datagram->summed = flags & FLAG_SUMMED;
	datagram->length = get16(bytes + AT_LENGTH);
	datagram->to_qp = get32(bytes + AT_TO_QP);
	datagram->from_qp = get32(bytes + AT_FROM_QP);
	datagram->qkey = get32(bytes + AT_QKEY);
	memcpy(&datagram->imm, bytes + AT_IMM, sizeof(datagram->imm));
	datagram->traffic_class = bytes[AT_TRAFFIC_CLASS];
	datagram->hop_limit = bytes[AT_HOP_LIMIT];
	datagram->flow_label = get32(bytes + AT_FLOW_LABEL);
	memcpy(datagram->from.raw, bytes + AT_FROM, sizeof(datagram->from.raw));
	memcpy(datagram->to.raw, bytes + AT_TO, sizeof(datagram->to.raw));
	datagram->sum = get32(bytes + AT_SUM);
	return is_sane(datagram, size);
}

void
softrdma_datagram_set_sum(uint8_t header[static SOFTRDMA_DATAGRAM_HEADER], uint32_t sum)
{
	put32(header + AT_SUM, sum);
}

uint32_t
softrdma_datagram_begin_sum(const uint8_t header[static SOFTRDMA_DATAGRAM_HEADER])
{
	static const uint8_t zero[4];
	const uint32_t sum = softrdma_crc32c(0, header, AT_SUM);
	return softrdma_crc32c(sum, zero, sizeof(zero));
}
