/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* wire.c -- the bytes between two software devices, described in doc/softrdma-protocol.md */

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "softrdma/softrdma.h"
#include "softrdma/wire/crc.h"
#include "softrdma/wire/opcode.h"
#include "softrdma/wire/wire.h"

static const uint8_t magic[4] = { 'S', 'R', 'D', 'M' };

/* the bytes of a handshake header that its checksum covers: all before the checksum */
#define SUMMED_SIZE (SOFTRDMA_HANDSHAKE_SIZE - 4)

/* a cursor in a buffer of known size; only a defect in this file, not the bytes, could move it past the end */
struct cursor {
	uint8_t *at;
	size_t left;
};

/* put and get run for each frame: inlined with a constant length, each becomes a single store or load */
static inline void
put(struct cursor *c, uint64_t value, size_t bytes)
{
	assert(bytes <= c->left);
	const uint64_t lowest_first = htole64(value);
	memcpy(c->at, &lowest_first, bytes);
	c->at += bytes;
	c->left -= bytes;
}

static void
put_bytes(struct cursor *c, const void *bytes, size_t len)
{
	assert(len <= c->left);
	memcpy(c->at, bytes, len);
	c->at += len;
	c->left -= len;
}

struct const_cursor {
	const uint8_t *at;
	size_t left;
};

static inline uint64_t
get(struct const_cursor *c, size_t bytes)
{
	assert(bytes <= c->left);
	uint64_t lowest_first = 0;
	memcpy(&lowest_first, c->at, bytes);
	c->at += bytes;
	c->left -= bytes;
	return le64toh(lowest_first);
}

static void
get_bytes(struct const_cursor *c, void *bytes, size_t len)
{
	assert(len <= c->left);
	memcpy(bytes, c->at, len);
	c->at += len;
	c->left -= len;
}

void
softrdma_frame_encode(const struct softrdma_frame *frame, uint8_t buf[static SOFTRDMA_FRAME_SIZE])
{
	assert(frame->length <= SOFTRDMA_SEGMENT_MAX);
	struct cursor c = { buf, SOFTRDMA_FRAME_SIZE };
	put(&c, frame->opcode, 1);
	put(&c, frame->flags, 1);
	put(&c, frame->code, 2);
	put(&c, frame->seq, 4);
	put(&c, frame->length, 4);
	put(&c, frame->key, 4);
	put(&c, frame->addr, 8);
	put(&c, frame->arg, 8);
	assert(c.left == 0);
}

/* immediate data, the solicited flag and that of a late acknowledgement belong to the end of a message */
static bool
flags_are_sane(const struct softrdma_frame *frame)
{
	const uint8_t end = SOFTRDMA_FRAME_IMM | SOFTRDMA_FRAME_SOLICITED | SOFTRDMA_FRAME_ACK_LATER;

	if ((frame->flags & end) && !(frame->flags & SOFTRDMA_FRAME_LAST))
		return false;
	if (frame->opcode != SOFTRDMA_OP_SEND && (frame->flags & SOFTRDMA_FRAME_SOLICITED) &&
		!(frame->flags & SOFTRDMA_FRAME_IMM))
		return false;
	return true;
}

/* the first of several frames holds the length of the message, the last one may hold immediate data */
static bool
message_argument_is_sane(const struct softrdma_frame *frame)
{
	if (frame->flags & SOFTRDMA_FRAME_IMM)
		return frame->arg <= UINT32_MAX;
	if ((frame->flags & SOFTRDMA_FRAME_FIRST) && !(frame->flags & SOFTRDMA_FRAME_LAST))
		return frame->arg > frame->length && frame->arg <= SOFTRDMA_MSG_MAX;
	return frame->arg == 0;
}

/* true if process, descriptor, slot and connection are in their ranges */
static bool
offer_is_sane(const struct softrdma_frame *frame)
{
	return frame->seq == 0 && frame->key > 0 && frame->key <= INT32_MAX &&
		(frame->addr & UINT32_MAX) <= INT32_MAX && frame->addr >> 32 < SOFTRDMA_REGISTRY_SLOTS &&
		frame->arg > 0 && frame->arg <= UINT32_MAX;
}

static bool
argument_is_sane(const struct softrdma_opcode_info *info, const struct softrdma_frame *frame)
{
	switch (info->arg) {
	case SOFTRDMA_ARG_MESSAGE:
		return message_argument_is_sane(frame);
	case SOFTRDMA_ARG_LENGTH:
		return frame->arg <= SOFTRDMA_MSG_MAX;
	case SOFTRDMA_ARG_RANGE:
		return true;
	case SOFTRDMA_ARG_OFFER:
		return offer_is_sane(frame);
	case SOFTRDMA_ARG_NONE:
	default:
		return frame->arg == 0;
	}
}

/* Fields that an opcode does not use are 0, so that later versions can give them a meaning. */
static bool
is_sane(const struct softrdma_opcode_info *info, const struct softrdma_frame *frame)
{
	const bool has_address = info->right != 0 || info->arg == SOFTRDMA_ARG_OFFER;
	if (info->kind == SOFTRDMA_KIND_UNKNOWN || (frame->flags & ~info->flags))
		return false;
	if (frame->length < info->length_min || frame->length > info->length_max)
		return false;
	if (frame->code < info->code_min || frame->code > info->code_max)
		return false;
	if (!has_address && (frame->key != 0 || frame->addr != 0))
		return false;
	return flags_are_sane(frame) && argument_is_sane(info, frame);
}

bool
softrdma_frame_decode(const uint8_t buf[static SOFTRDMA_FRAME_SIZE], struct softrdma_frame *frame)
{
	struct const_cursor c = { buf, SOFTRDMA_FRAME_SIZE };
	struct softrdma_frame f;
	f.opcode = (uint8_t)get(&c, 1);
	f.flags = (uint8_t)get(&c, 1);
	f.code = (uint16_t)get(&c, 2);
	f.seq = (uint32_t)get(&c, 4);
	f.length = (uint32_t)get(&c, 4);
	f.key = (uint32_t)get(&c, 4);
	f.addr = get(&c, 8);
	f.arg = get(&c, 8);
	assert(c.left == 0);

	if (!is_sane(softrdma_opcode_info(f.opcode), &f))
		return false;
	*frame = f;
	return true;
}

_Static_assert(SOFTRDMA_REGISTRY_ID_SIZE == 16,
	"the payload of SHM_OFFER, which struct softrdma_outgoing holds");

void
softrdma_shm_offer_encode(const struct softrdma_shm_offer *offer, struct softrdma_frame *frame)
{
	memset(frame, 0, sizeof(*frame));
	frame->opcode = SOFTRDMA_OP_SHM_OFFER;
	frame->length = SOFTRDMA_REGISTRY_ID_SIZE;
	frame->key = offer->pid;
	frame->addr = offer->fd | (uint64_t)offer->slot << 32;
	frame->arg = offer->number;
}

void
softrdma_shm_offer_decode(const struct softrdma_frame *frame, struct softrdma_shm_offer *offer)
{
	assert(frame->opcode == SOFTRDMA_OP_SHM_OFFER);
	offer->pid = frame->key;
	offer->fd = (uint32_t)frame->addr;
	offer->slot = (uint32_t)(frame->addr >> 32);
	offer->number = (uint32_t)frame->arg;
}

void
softrdma_handshake_encode(const struct softrdma_handshake *hs, uint8_t buf[static SOFTRDMA_HANDSHAKE_SIZE])
{
	struct cursor c = { buf, SOFTRDMA_HANDSHAKE_SIZE };
	put_bytes(&c, magic, sizeof(magic));
	put(&c, hs->version, 2);
	put(&c, hs->type, 1);
	put(&c, hs->private_len, 1);
	put(&c, hs->qp_num, 4);
	put(&c, hs->seq, 4);
	put(&c, hs->responder_resources, 1);
	put(&c, hs->initiator_depth, 1);
	put(&c, hs->rnr_retry, 1);
	put(&c, hs->flow_control, 1);
	put(&c, hs->reason, 2);
	put(&c, hs->records, 1);
	put(&c, 0, 1); /* reserved */
	put(&c, hs->private_crc, 4);
	put(&c, softrdma_crc32c(0, buf, SUMMED_SIZE), 4);
	assert(c.left == 0);
}

void
softrdma_join_encode(const struct softrdma_join *join, uint8_t buf[static SOFTRDMA_JOIN_SIZE])
{
	struct cursor c = { buf, SOFTRDMA_JOIN_SIZE };
	put_bytes(&c, join->dst_gid, sizeof(join->dst_gid));
	put_bytes(&c, join->src_gid, sizeof(join->src_gid));
	put(&c, join->dst_qp_num, 4);
	put(&c, join->expected, 4);
	assert(c.left == 0);
}

bool
softrdma_join_decode(const uint8_t *buf, size_t len, struct softrdma_join *join)
{
	if (len != SOFTRDMA_JOIN_SIZE)
		return false;
	struct const_cursor c = { buf, len };
	get_bytes(&c, join->dst_gid, sizeof(join->dst_gid));
	get_bytes(&c, join->src_gid, sizeof(join->src_gid));
	join->dst_qp_num = (uint32_t)get(&c, 4);
	join->expected = (uint32_t)get(&c, 4);
	assert(c.left == 0);
	return true;
}

/* the largest value of the field records: a request holds a wish, its acceptance the result */
static uint8_t
records_max(uint8_t type)
{
	switch (type) {
	case SOFTRDMA_HANDSHAKE_ACCEPT:
		return SOFTRDMA_RECORDS_WANTED;
	case SOFTRDMA_HANDSHAKE_REJECT:
		return 0;
	default:
		return SOFTRDMA_RECORDS_WANTED | SOFTRDMA_RECORDS_SET;
	}
}

bool
softrdma_handshake_is_other_version(const uint8_t *buf, size_t len, uint16_t *version)
{
	if (len < sizeof(magic) + 2 || memcmp(buf, magic, sizeof(magic)) != 0)
		return false;
	struct const_cursor c = { buf + sizeof(magic), 2 };
	const uint16_t theirs = (uint16_t)get(&c, 2);
	const bool is_other = theirs != SOFTRDMA_WIRE_VERSION;
	if (is_other)
		*version = theirs;
	return is_other;
}

enum softrdma_handshake_result
softrdma_handshake_decode(const uint8_t buf[static SOFTRDMA_HANDSHAKE_SIZE], struct softrdma_handshake *hs)
{
	if (memcmp(buf, magic, sizeof(magic)) != 0)
		return SOFTRDMA_HANDSHAKE_NOT_OURS;

	struct const_cursor c = { buf + sizeof(magic), SOFTRDMA_HANDSHAKE_SIZE - sizeof(magic) };
	struct softrdma_handshake h;
	if (softrdma_handshake_is_other_version(buf, SOFTRDMA_HANDSHAKE_SIZE, &hs->version))
		return SOFTRDMA_HANDSHAKE_OTHER_VERSION;
	h.version = (uint16_t)get(&c, 2);
	h.type = (uint8_t)get(&c, 1);
	h.private_len = (uint8_t)get(&c, 1);
	h.qp_num = (uint32_t)get(&c, 4);
	h.seq = (uint32_t)get(&c, 4);
	h.responder_resources = (uint8_t)get(&c, 1);
	h.initiator_depth = (uint8_t)get(&c, 1);
	h.rnr_retry = (uint8_t)get(&c, 1);
	h.flow_control = (uint8_t)get(&c, 1);
	h.reason = (uint16_t)get(&c, 2);
	h.records = (uint8_t)get(&c, 1);
	uint64_t reserved = get(&c, 1);
	h.private_crc = (uint32_t)get(&c, 4);
	uint32_t crc = (uint32_t)get(&c, 4);
	assert(c.left == 0);

	if (crc != softrdma_crc32c(0, buf, SUMMED_SIZE))
		return SOFTRDMA_HANDSHAKE_DAMAGED;
	if (h.type < SOFTRDMA_HANDSHAKE_CONNECT || h.type > SOFTRDMA_HANDSHAKE_RESOLVE || reserved != 0 ||
		h.records > records_max(h.type))
		return SOFTRDMA_HANDSHAKE_NOT_OURS;
	*hs = h;
	return SOFTRDMA_HANDSHAKE_OK;
}
