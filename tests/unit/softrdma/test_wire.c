/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_wire.c -- each byte is where the protocol puts it, and nothing else is accepted as a frame */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "softrdma/softrdma.h"
#include "softrdma/wire/crc.h"
#include "softrdma/wire/opcode.h"
#include "softrdma/wire/wire.h"

#define FIRST SOFTRDMA_FRAME_FIRST
#define LAST SOFTRDMA_FRAME_LAST
#define IMM SOFTRDMA_FRAME_IMM
#define SOLICITED SOFTRDMA_FRAME_SOLICITED
#define LATER SOFTRDMA_FRAME_ACK_LATER
#define SEGMENT SOFTRDMA_SEGMENT_MAX
#define LAST_SLOT ((SOFTRDMA_REGISTRY_SLOTS - 1ull) << 32)

/* written independently of the encoder, because lengths above the limit must be possible */
static void
raw(const struct softrdma_frame *f, uint8_t buf[static SOFTRDMA_FRAME_SIZE])
{
	const uint64_t value[] = { f->opcode, f->flags, f->code, f->seq, f->length, f->key, f->addr, f->arg };
	const size_t size[] = { 1, 1, 2, 4, 4, 4, 8, 8 };
	for (size_t i = 0; i < 8; i++) {
		for (size_t byte = 0; byte < size[i]; byte++)
			*buf++ = (uint8_t)(value[i] >> (8 * byte));
	}
}

static bool
decodes(const struct softrdma_frame *f)
{
	uint8_t buf[SOFTRDMA_FRAME_SIZE];
	struct softrdma_frame out;
	raw(f, buf);
	return softrdma_frame_decode(buf, &out);
}

static void
test_bytes_of_a_frame(void **state)
{
	(void)state;
	const struct softrdma_frame frame = {
		.opcode = SOFTRDMA_OP_WRITE,
		.flags = FIRST,
		.code = 0,
		.seq = 0x04030201,
		.length = 0x00020105,
		.key = 0x0d0c0b0a,
		.addr = 0x1817161514131211,
		.arg = 0x0000000071727374,
	};
	static const uint8_t bytes[SOFTRDMA_FRAME_SIZE] = { 2, 1, 0, 0, 1, 2, 3, 4, 5, 1, 2, 0, 0x0a, 0x0b,
		0x0c, 0x0d, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x74, 0x73, 0x72, 0x71, 0, 0, 0,
		0 };
	uint8_t buf[SOFTRDMA_FRAME_SIZE + 1];
	buf[SOFTRDMA_FRAME_SIZE] = 0xee;
	softrdma_frame_encode(&frame, buf);
	assert_memory_equal(buf, bytes, sizeof(bytes));
	assert_int_equal(buf[SOFTRDMA_FRAME_SIZE], 0xee);

	struct softrdma_frame out;
	memset(&out, 0xff, sizeof(out));
	assert_true(softrdma_frame_decode(bytes, &out));
	assert_int_equal(out.opcode, frame.opcode);
	assert_int_equal(out.flags, frame.flags);
	assert_int_equal(out.code, frame.code);
	assert_int_equal(out.seq, frame.seq);
	assert_int_equal(out.length, frame.length);
	assert_int_equal(out.key, frame.key);
	assert_int_equal(out.addr, frame.addr);
	assert_int_equal(out.arg, frame.arg);
}

/* valid frames, at the limits */
static const struct softrdma_frame good[] = {
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST | LAST },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST | LAST, .length = SEGMENT, .seq = UINT32_MAX },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST | LAST | SOLICITED, .length = 1 },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST | LAST | IMM, .arg = UINT32_MAX },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = LAST | IMM | SOLICITED, .length = 1, .arg = 7 },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST | LAST | LATER },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = LAST | IMM | SOLICITED | LATER, .length = 1, .arg = 7 },
	{ .opcode = SOFTRDMA_OP_WRITE, .flags = LAST | LATER, .length = 1, .key = 1, .addr = 1 },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST, .length = SEGMENT, .arg = SOFTRDMA_MSG_MAX },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST, .length = 3, .arg = 4 },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = 0, .length = SEGMENT },
	{ .opcode = SOFTRDMA_OP_WRITE,
		.flags = FIRST | LAST,
		.length = 1,
		.key = UINT32_MAX,
		.addr = UINT64_MAX },
	{ .opcode = SOFTRDMA_OP_WRITE, .flags = FIRST | LAST | IMM | SOLICITED, .arg = 1 },
	{ .opcode = SOFTRDMA_OP_WRITE, .flags = FIRST, .length = 1, .arg = 2, .key = 1, .addr = 1 },
	{ .opcode = SOFTRDMA_OP_READ, .arg = SOFTRDMA_MSG_MAX, .key = 1, .addr = 1 },
	{ .opcode = SOFTRDMA_OP_READ },
	{ .opcode = SOFTRDMA_OP_ATOMIC_WRITE, .length = 8, .key = 1, .addr = 8 },
	{ .opcode = SOFTRDMA_OP_COMPARE_SWAP, .length = 16, .key = 1, .addr = 8 },
	{ .opcode = SOFTRDMA_OP_FETCH_ADD, .length = 8, .key = 1, .addr = 8 },
	{ .opcode = SOFTRDMA_OP_FLUSH,
		.code = SOFTRDMA_FLUSH_GLOBAL,
		.arg = UINT64_MAX,
		.key = 1,
		.addr = 1 },
	{ .opcode = SOFTRDMA_OP_FLUSH, .code = SOFTRDMA_FLUSH_PERSISTENT },
	{ .opcode = SOFTRDMA_OP_RESYNC, .seq = 5 },
	{ .opcode = SOFTRDMA_OP_ACK, .seq = 5 },
	{ .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = FIRST | LAST },
	{ .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = 0, .length = SEGMENT },
	{ .opcode = SOFTRDMA_OP_ATOMIC_RESPONSE, .length = 8 },
	{ .opcode = SOFTRDMA_OP_NAK, .code = SOFTRDMA_NAK_INVALID_REQUEST },
	{ .opcode = SOFTRDMA_OP_NAK, .code = SOFTRDMA_NAK_ACCESS },
	{ .opcode = SOFTRDMA_OP_NAK, .code = SOFTRDMA_NAK_OPERATION },
	{ .opcode = SOFTRDMA_OP_NAK, .code = SOFTRDMA_NAK_GONE },
	{ .opcode = SOFTRDMA_OP_RNR, .seq = 1 },
	{ .opcode = SOFTRDMA_OP_RNR_READY, .seq = 1 },
	{ .opcode = SOFTRDMA_OP_READY },
	{ .opcode = SOFTRDMA_OP_DISCONNECT },
	{ .opcode = SOFTRDMA_OP_SHM_OFFER, .length = 16, .key = 1, .arg = 1 },
	{ .opcode = SOFTRDMA_OP_SHM_OFFER,
		.length = 16,
		.key = INT32_MAX,
		.addr = LAST_SLOT | INT32_MAX,
		.arg = UINT32_MAX },
};

static const struct softrdma_frame bad[] = {
	/* offers of a peer on the same host: no process, descriptor, slot or connection */
	{ .opcode = SOFTRDMA_OP_SHM_OFFER, .length = 15, .key = 1, .arg = 1 },
	{ .opcode = SOFTRDMA_OP_SHM_OFFER, .length = 17, .key = 1, .arg = 1 },
	{ .opcode = SOFTRDMA_OP_SHM_OFFER, .length = 16, .key = 1, .arg = 1, .flags = LAST },
	{ .opcode = SOFTRDMA_OP_SHM_OFFER, .length = 16, .key = 1, .arg = 1, .code = 1 },
	{ .opcode = SOFTRDMA_OP_SHM_OFFER, .length = 16, .key = 1, .arg = 1, .seq = 1 },
	{ .opcode = SOFTRDMA_OP_SHM_OFFER, .length = 16, .key = 0, .arg = 1 },
	{ .opcode = SOFTRDMA_OP_SHM_OFFER, .length = 16, .key = INT32_MAX + 1u, .arg = 1 },
	{ .opcode = SOFTRDMA_OP_SHM_OFFER, .length = 16, .key = 1, .arg = 1, .addr = INT32_MAX + 1u },
	{ .opcode = SOFTRDMA_OP_SHM_OFFER,
		.length = 16,
		.key = 1,
		.arg = 1,
		.addr = LAST_SLOT + (1ull << 32) },
	{ .opcode = SOFTRDMA_OP_SHM_OFFER, .length = 16, .key = 1, .arg = 0 },
	{ .opcode = SOFTRDMA_OP_SHM_OFFER, .length = 16, .key = 1, .arg = UINT32_MAX + 1ull },
	{ .opcode = 0 },
	{ .opcode = SOFTRDMA_OP_RESYNC + 1 },
	{ .opcode = SOFTRDMA_OP_ACK - 1 },
	{ .opcode = SOFTRDMA_OP_RNR_READY + 1 },
	{ .opcode = SOFTRDMA_OP_READY - 1 },
	{ .opcode = SOFTRDMA_OP_SHM_OFFER + 1 },
	{ .opcode = 255 },
	/* payloads that are too long, too short, or not allowed */
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST | LAST, .length = SEGMENT + 1 },
	{ .opcode = SOFTRDMA_OP_WRITE, .flags = FIRST | LAST, .length = UINT32_MAX },
	{ .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = FIRST | LAST, .length = SEGMENT + 1 },
	{ .opcode = SOFTRDMA_OP_ATOMIC_WRITE, .length = 7 },
	{ .opcode = SOFTRDMA_OP_ATOMIC_WRITE, .length = 16 },
	{ .opcode = SOFTRDMA_OP_COMPARE_SWAP, .length = 8 },
	{ .opcode = SOFTRDMA_OP_COMPARE_SWAP, .length = 17 },
	{ .opcode = SOFTRDMA_OP_FETCH_ADD, .length = 0 },
	{ .opcode = SOFTRDMA_OP_FETCH_ADD, .length = 16 },
	{ .opcode = SOFTRDMA_OP_ATOMIC_RESPONSE, .length = 0 },
	{ .opcode = SOFTRDMA_OP_READ, .length = 1 },
	{ .opcode = SOFTRDMA_OP_FLUSH, .code = SOFTRDMA_FLUSH_GLOBAL, .length = 1 },
	{ .opcode = SOFTRDMA_OP_RESYNC, .length = 1 },
	{ .opcode = SOFTRDMA_OP_ACK, .length = 1 },
	{ .opcode = SOFTRDMA_OP_NAK, .code = SOFTRDMA_NAK_ACCESS, .length = 1 },
	{ .opcode = SOFTRDMA_OP_RNR, .length = 1 },
	{ .opcode = SOFTRDMA_OP_RNR_READY, .length = 1 },
	{ .opcode = SOFTRDMA_OP_READY, .length = 1 },
	{ .opcode = SOFTRDMA_OP_DISCONNECT, .length = 1 },
	/* flags that are unknown, belong to another opcode, or are in the wrong frame */
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST | LAST | 1 << 5 },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST | LAST | 1 << 7 },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST | IMM, .length = 1, .arg = 2 },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST | SOLICITED, .length = 1, .arg = 2 },
	{ .opcode = SOFTRDMA_OP_WRITE, .flags = FIRST | LAST | SOLICITED },
	{ .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = FIRST | LAST | IMM },
	{ .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = FIRST | LAST | SOLICITED },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST | LATER, .length = 1, .arg = 2 },
	{ .opcode = SOFTRDMA_OP_WRITE, .flags = LATER, .length = 1 },
	{ .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = FIRST | LAST | LATER },
	{ .opcode = SOFTRDMA_OP_READ, .flags = LATER },
	{ .opcode = SOFTRDMA_OP_FLUSH, .code = SOFTRDMA_FLUSH_GLOBAL, .flags = LATER },
	{ .opcode = SOFTRDMA_OP_ATOMIC_WRITE, .flags = LATER, .length = 8 },
	{ .opcode = SOFTRDMA_OP_READ, .flags = FIRST | LAST },
	{ .opcode = SOFTRDMA_OP_ATOMIC_RESPONSE, .flags = LAST, .length = 8 },
	{ .opcode = SOFTRDMA_OP_ACK, .flags = LAST },
	{ .opcode = SOFTRDMA_OP_DISCONNECT, .flags = FIRST },
	/* the argument */
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST | LAST, .arg = 1 },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = LAST, .length = 1, .arg = 1 },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = 0, .length = 1, .arg = 2 },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST, .length = 4, .arg = 4 },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST, .length = 4, .arg = 3 },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST, .length = 4, .arg = 0 },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST, .length = 4, .arg = SOFTRDMA_MSG_MAX + 1ull },
	{ .opcode = SOFTRDMA_OP_WRITE, .flags = FIRST, .length = 4, .arg = UINT64_MAX },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST | LAST | IMM, .arg = UINT32_MAX + 1ull },
	{ .opcode = SOFTRDMA_OP_READ, .arg = SOFTRDMA_MSG_MAX + 1ull },
	{ .opcode = SOFTRDMA_OP_READ, .arg = UINT64_MAX },
	{ .opcode = SOFTRDMA_OP_ATOMIC_WRITE, .length = 8, .arg = 1 },
	{ .opcode = SOFTRDMA_OP_FETCH_ADD, .length = 8, .arg = 1 },
	{ .opcode = SOFTRDMA_OP_RESYNC, .arg = 1 },
	{ .opcode = SOFTRDMA_OP_ACK, .arg = 1 },
	{ .opcode = SOFTRDMA_OP_READ_RESPONSE, .flags = FIRST, .length = 1, .arg = 2 },
	{ .opcode = SOFTRDMA_OP_RNR, .arg = 1 },
	{ .opcode = SOFTRDMA_OP_DISCONNECT, .arg = 1 },
	/* the code */
	{ .opcode = SOFTRDMA_OP_FLUSH, .code = 0 },
	{ .opcode = SOFTRDMA_OP_FLUSH, .code = SOFTRDMA_FLUSH_GLOBAL | SOFTRDMA_FLUSH_PERSISTENT },
	{ .opcode = SOFTRDMA_OP_FLUSH, .code = 4 },
	{ .opcode = SOFTRDMA_OP_NAK, .code = 0 },
	{ .opcode = SOFTRDMA_OP_NAK, .code = SOFTRDMA_NAK_GONE + 1 },
	{ .opcode = SOFTRDMA_OP_NAK, .code = 0x101 },
	{ .opcode = SOFTRDMA_OP_SEND, .flags = FIRST | LAST, .code = 1 },
	{ .opcode = SOFTRDMA_OP_WRITE, .flags = FIRST | LAST, .code = 1 },
	{ .opcode = SOFTRDMA_OP_READ, .code = 1 },
	{ .opcode = SOFTRDMA_OP_COMPARE_SWAP, .length = 16, .code = 1 },
	{ .opcode = SOFTRDMA_OP_ACK, .code = 1 },
	{ .opcode = SOFTRDMA_OP_READY, .code = 0x8000 },
};

static void
test_what_is_a_frame(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		if (!decodes(&good[i]))
			fail_msg("good frame %zu (opcode %u) is refused", i, good[i].opcode);
		uint8_t buf[SOFTRDMA_FRAME_SIZE], again[SOFTRDMA_FRAME_SIZE];
		raw(&good[i], buf);
		softrdma_frame_encode(&good[i], again);
		assert_memory_equal(buf, again, sizeof(buf));
	}
}

static void
test_what_is_no_frame(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		if (decodes(&bad[i]))
			fail_msg("bad frame %zu (opcode %u) is taken", i, bad[i].opcode);
		uint8_t buf[SOFTRDMA_FRAME_SIZE];
		struct softrdma_frame out, before;
		memset(&out, 0x5a, sizeof(out));
		memcpy(&before, &out, sizeof(out));
		raw(&bad[i], buf);
		softrdma_frame_decode(buf, &out);
		assert_memory_equal(&out, &before, sizeof(out)); /* outputs are written on success only */
	}
}

/* true if a frame of this opcode has key, address and argument */
static bool
has_memory(uint8_t opcode)
{
	return (opcode >= SOFTRDMA_OP_WRITE && opcode <= SOFTRDMA_OP_FLUSH);
}

static void
test_fields_an_opcode_does_not_have(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		if (has_memory(good[i].opcode) || good[i].opcode == SOFTRDMA_OP_SHM_OFFER)
			continue;
		struct softrdma_frame f = good[i];
		f.key = 1;
		if (decodes(&f))
			fail_msg("opcode %u is taken with a key", f.opcode);
		f = good[i];
		f.addr = 1;
		if (decodes(&f))
			fail_msg("opcode %u is taken with an address", f.opcode);
	}
	const struct softrdma_frame nak = { .opcode = SOFTRDMA_OP_NAK,
		.code = SOFTRDMA_NAK_ACCESS,
		.arg = 1 };
	assert_false(decodes(&nak));
}

/* every opcode, flag and code by itself: a frame that can be decoded is within all limits */
static void
test_all_small_values(void **state)
{
	(void)state;
	static const uint32_t lengths[] = { 0, 1, 7, 8, 9, 15, 16, 17, SEGMENT - 1, SEGMENT, SEGMENT + 1,
		UINT32_MAX };
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		for (unsigned flags = 0; flags < 256; flags++) {
			for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
				const struct softrdma_frame f = { .opcode = (uint8_t)opcode,
					.flags = (uint8_t)flags,
					.length = lengths[i] };
				if (!decodes(&f))
					continue;
				bool known = (opcode >= 1 && opcode <= 8) || (opcode >= 16 && opcode <= 21) ||
					(opcode >= 32 && opcode <= 34);
				assert_true(known && flags < 32 && f.length <= SEGMENT);
			}
		}
	}
}

static void
test_requests(void **state)
{
	(void)state;
	for (unsigned opcode = 0; opcode < 256; opcode++)
		assert_int_equal(softrdma_opcode_is_request((uint8_t)opcode), opcode >= 1 && opcode <= 8);
}

static const struct softrdma_handshake hello = {
	.version = SOFTRDMA_WIRE_VERSION,
	.type = SOFTRDMA_HANDSHAKE_REJECT,
	.private_len = 255,
	.qp_num = 0x00c3b2a1,
	.seq = 0xfedcba98,
	.responder_resources = 0x21,
	.initiator_depth = 0x22,
	.rnr_retry = 0x23,
	.flow_control = 0x24,
	.reason = 0x3231,
	.private_crc = 0x44434241,
};

static const uint8_t hello_bytes[SOFTRDMA_HANDSHAKE_SIZE] = { 'S', 'R', 'D', 'M', 3, 0, 3, 255, 0xa1, 0xb2,
	0xc3, 0, 0x98, 0xba, 0xdc, 0xfe, 0x21, 0x22, 0x23, 0x24, 0x31, 0x32, 0, 0, 0x41, 0x42, 0x43, 0x44,
	0x41, 0x75, 0xd4, 0x5d };

static void
test_bytes_of_a_handshake(void **state)
{
	(void)state;
	uint8_t buf[SOFTRDMA_HANDSHAKE_SIZE + 1];
	memset(buf, 0xee, sizeof(buf));
	softrdma_handshake_encode(&hello, buf);
	assert_memory_equal(buf, hello_bytes, sizeof(hello_bytes));
	assert_int_equal(buf[SOFTRDMA_HANDSHAKE_SIZE], 0xee);

	struct softrdma_handshake out;
	memset(&out, 0xff, sizeof(out));
	assert_int_equal(softrdma_handshake_decode(hello_bytes, &out), SOFTRDMA_HANDSHAKE_OK);
	assert_int_equal(out.version, hello.version);
	assert_int_equal(out.type, hello.type);
	assert_int_equal(out.private_len, hello.private_len);
	assert_int_equal(out.qp_num, hello.qp_num);
	assert_int_equal(out.seq, hello.seq);
	assert_int_equal(out.responder_resources, hello.responder_resources);
	assert_int_equal(out.initiator_depth, hello.initiator_depth);
	assert_int_equal(out.rnr_retry, hello.rnr_retry);
	assert_int_equal(out.flow_control, hello.flow_control);
	assert_int_equal(out.reason, hello.reason);
	assert_int_equal(out.private_crc, hello.private_crc);
}

static enum softrdma_handshake_result
decode_with(size_t at, uint8_t value, struct softrdma_handshake *out)
{
	uint8_t buf[SOFTRDMA_HANDSHAKE_SIZE];
	memcpy(buf, hello_bytes, sizeof(buf));
	buf[at] = value;
	uint32_t crc = softrdma_crc32c(0, buf, 28);
	for (size_t i = 0; i < 4; i++)
		buf[28 + i] = (uint8_t)(crc >> 8 * i);
	return softrdma_handshake_decode(buf, out);
}

static void
test_what_is_no_handshake(void **state)
{
	(void)state;
	struct softrdma_handshake out;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(decode_with(i, 'x', &out), SOFTRDMA_HANDSHAKE_NOT_OURS);
	for (unsigned type = 0; type < 256; type++) {
		bool ok = type >= SOFTRDMA_HANDSHAKE_CONNECT && type <= SOFTRDMA_HANDSHAKE_RESOLVE;
		assert_int_equal(decode_with(6, (uint8_t)type, &out),
			ok ? SOFTRDMA_HANDSHAKE_OK : SOFTRDMA_HANDSHAKE_NOT_OURS);
	}
	for (size_t i = 22; i < 24; i++) {
		assert_int_equal(decode_with(i, 1, &out), SOFTRDMA_HANDSHAKE_NOT_OURS);
		assert_int_equal(decode_with(i, 0x80, &out), SOFTRDMA_HANDSHAKE_NOT_OURS);
	}
	/* records: a wish has two bits, an agreement one */
	static const uint8_t most[] = { 0, 3, 1, 0, 3, 3 };
	for (uint8_t type = SOFTRDMA_HANDSHAKE_CONNECT; type <= SOFTRDMA_HANDSHAKE_RESOLVE; type++) {
		for (unsigned records = 0; records < 256; records++) {
			struct softrdma_handshake hs = hello;
			uint8_t buf[SOFTRDMA_HANDSHAKE_SIZE];
			hs.type = type;
			hs.records = (uint8_t)records;
			softrdma_handshake_encode(&hs, buf);
			bool ok = records <= most[type];
			assert_int_equal(softrdma_handshake_decode(buf, &out),
				ok ? SOFTRDMA_HANDSHAKE_OK : SOFTRDMA_HANDSHAKE_NOT_OURS);
			if (ok)
				assert_int_equal(out.records, records);
		}
	}
}

/* any bit; a change of the magic or of the version makes it something else */
static void
test_damaged_handshakes(void **state)
{
	(void)state;
	for (size_t bit = 0; bit < 8 * SOFTRDMA_HANDSHAKE_SIZE; bit++) {
		uint8_t buf[SOFTRDMA_HANDSHAKE_SIZE];
		memcpy(buf, hello_bytes, sizeof(buf));
		buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
		struct softrdma_handshake out = { .type = 99 };
		enum softrdma_handshake_result wanted = SOFTRDMA_HANDSHAKE_DAMAGED;
		if (bit < 8 * 6)
			wanted = bit < 8 * 4 ? SOFTRDMA_HANDSHAKE_NOT_OURS : SOFTRDMA_HANDSHAKE_OTHER_VERSION;
		assert_int_equal(softrdma_handshake_decode(buf, &out), wanted);
		assert_int_equal(out.type, 99);
	}
}

/* in another version only the first six bytes have a meaning */
static void
test_other_versions(void **state)
{
	(void)state;
	static const uint16_t versions[] = { 0, 1, 2, 4, 0x0103, 0xffff };
	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
		uint8_t buf[SOFTRDMA_HANDSHAKE_SIZE];
		memset(buf, 0xff, sizeof(buf));
		memcpy(buf, "SRDM", 4);
		buf[4] = (uint8_t)versions[i];
		buf[5] = (uint8_t)(versions[i] >> 8);
		struct softrdma_handshake out = { .type = 99 };
		uint16_t version = 0;
		assert_false(softrdma_handshake_is_other_version(buf, 5, &version));
		assert_int_equal(version, 0);
		assert_true(softrdma_handshake_is_other_version(buf, 6, &version));
		assert_int_equal(version, versions[i]);
		assert_int_equal(softrdma_handshake_decode(buf, &out), SOFTRDMA_HANDSHAKE_OTHER_VERSION);
		assert_int_equal(out.version, versions[i]);
		assert_int_equal(out.type, 99);
	}
}

static void
test_offer(void **state)
{
	(void)state;
	const struct softrdma_shm_offer offer = { .pid = 0x04030201,
		.fd = 0x14131211,
		.slot = 0x122,
		.number = 0xf4f3f2f1 };
	static const uint8_t bytes[SOFTRDMA_FRAME_SIZE] = { 34, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1, 2, 3, 4,
		0x11, 0x12, 0x13, 0x14, 0x22, 1, 0, 0, 0xf1, 0xf2, 0xf3, 0xf4, 0, 0, 0, 0 };
	uint8_t buf[SOFTRDMA_FRAME_SIZE];
	struct softrdma_frame frame;
	softrdma_shm_offer_encode(&offer, &frame);
	softrdma_frame_encode(&frame, buf);
	assert_memory_equal(buf, bytes, sizeof(bytes));
	struct softrdma_shm_offer out = { .id = { 7 } };
	assert_true(softrdma_frame_decode(buf, &frame));
	softrdma_shm_offer_decode(&frame, &out);
	assert_int_equal(out.pid, offer.pid);
	assert_int_equal(out.fd, offer.fd);
	assert_int_equal(out.slot, offer.slot);
	assert_int_equal(out.number, offer.number);
	assert_int_equal(out.id[0], 7);
}

static void
test_join(void **state)
{
	(void)state;
	struct softrdma_join join = { .dst_qp_num = 0x00c3b2a1, .expected = 0xfedcba98 }, out;
	uint8_t wanted[SOFTRDMA_JOIN_SIZE], buf[SOFTRDMA_JOIN_SIZE + 1];
	for (uint8_t i = 0; i < SOFTRDMA_GID_SIZE; i++) {
		wanted[i] = join.dst_gid[i] = (uint8_t)(1 + i);
		wanted[SOFTRDMA_GID_SIZE + i] = join.src_gid[i] = (uint8_t)(0x81 + i);
	}
	memcpy(wanted + 32, "\xa1\xb2\xc3\x00\x98\xba\xdc\xfe", 8);
	memset(buf, 0xee, sizeof(buf));
	softrdma_join_encode(&join, buf);
	assert_memory_equal(buf, wanted, sizeof(wanted));
	assert_int_equal(buf[SOFTRDMA_JOIN_SIZE], 0xee);
	memset(&out, 0xff, sizeof(out));
	assert_true(softrdma_join_decode(wanted, sizeof(wanted), &out));
	assert_memory_equal(&out, &join, sizeof(out));
	for (size_t len = 0; len < 256; len++) {
		uint8_t *exact = calloc(1, len + 1); /* allocated at the exact size, for the sanitizers */
		assert_int_equal(softrdma_join_decode(exact, len, &out), len == SOFTRDMA_JOIN_SIZE);
		free(exact);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_of_a_frame),
		cmocka_unit_test(test_what_is_a_frame),
		cmocka_unit_test(test_what_is_no_frame),
		cmocka_unit_test(test_fields_an_opcode_does_not_have),
		cmocka_unit_test(test_all_small_values),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_bytes_of_a_handshake),
		cmocka_unit_test(test_what_is_no_handshake),
		cmocka_unit_test(test_damaged_handshakes),
		cmocka_unit_test(test_other_versions),
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_offer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
