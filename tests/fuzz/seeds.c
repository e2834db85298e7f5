/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * seeds.c -- valid inputs, which the fuzzers start from
 *
 *	fuzz_seeds DIRECTORY	writes DIRECTORY/<target>/<name>; the folders of the targets must exist
 *
 * The corpora in tests/fuzz/corpus are these and the inputs that fuzzers have found, reduced to those that
 * reach code which the others do not (tests/fuzz/run --minimize).
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librpma.h>

#include "descriptor.h"
#include "keeper/protocol.h"
#include "private_data.h"
#include "softrdma/wire/crc.h"
#include "softrdma/softrdma.h"
#include "softrdma/wire/datagram_header.h"
#include "softrdma/wire/wire.h"
#include "stream_memory.h"
#include "stream_ops.h"

#define SEED_MAX 4096

static const char *dir;

static void
seed(const char *target, const char *name, const void *bytes, size_t len)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s/%s", dir, target, name);
	f = fopen(path, "we");
	if (!f || fwrite(bytes, 1, len, f) != len || fclose(f)) {
		perror(path);
		exit(EXIT_FAILURE);
	}
}

/* ---- decoders ---- */

static void
descriptors(void)
{
	static const uint8_t yes[] = { 1 }, no[] = { 0 };
	uint8_t desc[MR_DESCRIPTOR_SIZE + 2] = { 0 };
	const struct mr_descriptor mr = {
		.raddr = 0x7f0000001000,
		.size = 4096,
		.rkey = 0x12345678,
		.usage = RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT,
		.has_caps = true,
		.caps = MR_CAP_NATIVE_FLUSH,
	};

	rpmai_mr_descriptor_encode(&mr, desc);
	seed("mr_descriptor", "ours", desc, MR_DESCRIPTOR_SIZE);
	seed("mr_descriptor", "original", desc, MR_DESCRIPTOR_SIZE_MIN);
	seed("mr_descriptor", "reserved", desc, sizeof(desc));
	desc[MR_DESCRIPTOR_SIZE_MIN] = 1; /* the user's own */
	seed("mr_descriptor", "tail", desc, sizeof(desc));
	memset(desc, 0xff, 16); /* the address range wraps */
	seed("mr_descriptor", "wraps", desc, MR_DESCRIPTOR_SIZE);
	seed("peer_cfg", "yes", yes, sizeof(yes));
	seed("peer_cfg", "no", no, sizeof(no));
}

static void
private_data(void)
{
	uint8_t bytes[1 + UINT8_MAX] = { 56, 'h', 'e', 'l', 'l', 'o' };
	const struct rpma_conn_private_data pdata = { .ptr = bytes + 1, .len = 5 };
	uint8_t padded[1 + UINT8_MAX] = { 56 };

	seed("private_data", "plain", bytes, 6);
	rpmai_private_data_pad(&pdata, padded + 1, 56);
	seed("private_data", "padded", padded, 57);
	padded[20] = 1; /* after the data, where zeros would be */
	seed("private_data", "padded-by-others", padded, 57);
	rpmai_private_data_pad(NULL, padded + 1, 196);
	seed("private_data", "none", padded, 197);
}

static void
keeper(void)
{
	const struct keeper_request request = { .want = KEEPER_WANT_WRITE,
		.client = 1,
		.name = "disk-0.x_Y" };
	const struct keeper_refusal refusal = { .reason = KEEPER_REFUSED_BUSY, .sentence = "another client" };
	struct keeper_reply reply = {
		.writable = true,
		.persistence = KEEPER_PAGES,
		.block_shift = 12,
		.size = 4096,
		.descriptor_size = MR_DESCRIPTOR_SIZE,
	};
	uint8_t bytes[UINT8_MAX] = { 0 };

	keeper_request_encode(&request, bytes);
	seed("keeper", "request", bytes, KEEPER_REQUEST_MAX);
	bytes[4] = 2; /* a later version */
	seed("keeper", "request-version", bytes, KEEPER_REQUEST_MAX);
	memset(reply.descriptor, 'd', sizeof(reply.descriptor));
	seed("keeper", "reply", bytes, keeper_reply_encode(&reply, bytes));
	const size_t len = keeper_refusal_encode(&refusal, bytes);
	seed("keeper", "refusal", bytes, len);
	bytes[5] = 99; /* a reason of a later version */
	seed("keeper", "refusal-reason", bytes, len);
}

static size_t
hello(uint8_t *at, uint8_t type, uint8_t private_len)
{
	struct softrdma_handshake hs = {
		.version = SOFTRDMA_WIRE_VERSION,
		.type = type,
		.private_len = private_len,
		.qp_num = 0x1234,
		.seq = 1,
		.responder_resources = 16,
		.initiator_depth = 16,
		.rnr_retry = 7,
	};

	memset(at + SOFTRDMA_HANDSHAKE_SIZE, 'p', private_len);
	hs.private_crc = softrdma_crc32c(0, at + SOFTRDMA_HANDSHAKE_SIZE, private_len);
	softrdma_handshake_encode(&hs, at);
	return SOFTRDMA_HANDSHAKE_SIZE + (size_t)private_len;
}

static size_t
header(uint8_t *at, uint8_t opcode, uint8_t flags, uint32_t seq, uint32_t length)
{
	const struct softrdma_frame frame = { .opcode = opcode,
		.flags = flags,
		.seq = seq,
		.length = length };

	softrdma_frame_encode(&frame, at);
	memset(at + SOFTRDMA_FRAME_SIZE, 'x', length);
	return SOFTRDMA_FRAME_SIZE + length;
}

static void
handshakes(void)
{
	static const char *const names[] = { "connect", "accept", "reject", "join", "resolve" };
	uint8_t bytes[SEED_MAX];
	size_t len;

	for (uint8_t type = SOFTRDMA_HANDSHAKE_CONNECT; type <= SOFTRDMA_HANDSHAKE_RESOLVE; type++) {
		hello(bytes, type, 0);
		seed("handshake", names[type - 1], bytes, SOFTRDMA_HANDSHAKE_SIZE);
	}
	bytes[4] = SOFTRDMA_WIRE_VERSION + 1;
	seed("handshake", "version", bytes, SOFTRDMA_HANDSHAKE_SIZE);

	for (uint8_t how = 0; how < 4; how++) {
		char name[32];

		bytes[0] = how;
		bytes[1] = 20; /* the first part of the cut stream */
		len = 2 + hello(bytes + 2, SOFTRDMA_HANDSHAKE_CONNECT, how == 3 ? 0 : 40);
		len += header(bytes + len, SOFTRDMA_OP_READY, 0, 0, 0);
		len += header(bytes + len, SOFTRDMA_OP_SEND, SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST, 1,
			8);
		len += header(bytes + len, SOFTRDMA_OP_DISCONNECT, 0, 0, 0);
		snprintf(name, sizeof(name), "answer-%u", how);
		seed("listener", name, bytes, len);
	}
	bytes[0] = 0;
	seed("listener", "half", bytes, 20);
	bytes[6] = 9; /* a version */
	seed("listener", "version", bytes, 2 + SOFTRDMA_HANDSHAKE_SIZE);
	memcpy(bytes + 2, "GET / HTTP/1.1\r\n\r\n", 18);
	seed("listener", "http", bytes, 2 + SOFTRDMA_HANDSHAKE_SIZE);
}

/* ---- frames: one of each opcode ---- */

static const struct {
	const char *name;
	struct softrdma_frame frame;
} frames[] = {
	{ "send", { SOFTRDMA_OP_SEND, SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST, 0, 1, 100, 0, 0, 0 } },
	{ "send-imm",
		{ SOFTRDMA_OP_SEND,
			SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST | SOFTRDMA_FRAME_IMM |
				SOFTRDMA_FRAME_SOLICITED,
			0, 1, 0, 0, 0, 7 } },
	{ "write-first", { SOFTRDMA_OP_WRITE, SOFTRDMA_FRAME_FIRST, 0, 1, 100, 5, 4096, 300 } },
	{ "write-last", { SOFTRDMA_OP_WRITE, SOFTRDMA_FRAME_LAST, 0, 1, 200, 5, 4196, 0 } },
	{ "write-ack-later",
		{ SOFTRDMA_OP_WRITE, SOFTRDMA_FRAME_LAST | SOFTRDMA_FRAME_ACK_LATER, 0, 1, 200, 5, 4196,
			0 } },
	{ "read", { SOFTRDMA_OP_READ, 0, 0, 2, 0, 5, 4096, SOFTRDMA_MSG_MAX } },
	{ "atomic-write", { SOFTRDMA_OP_ATOMIC_WRITE, 0, 0, 3, 8, 5, 4096, 0 } },
	{ "compare-swap", { SOFTRDMA_OP_COMPARE_SWAP, 0, 0, 4, 16, 5, 4096, 0 } },
	{ "fetch-add", { SOFTRDMA_OP_FETCH_ADD, 0, 0, 5, 8, 5, 4096, 0 } },
	{ "flush", { SOFTRDMA_OP_FLUSH, 0, SOFTRDMA_FLUSH_PERSISTENT, 6, 0, 5, 4096, 4096 } },
	{ "resync", { SOFTRDMA_OP_RESYNC, 0, 0, 7, 0, 0, 0, 0 } },
	{ "ack", { SOFTRDMA_OP_ACK, 0, 0, 8, 0, 0, 0, 0 } },
	{ "read-response", { SOFTRDMA_OP_READ_RESPONSE, SOFTRDMA_FRAME_FIRST, 0, 9, 262144, 0, 0, 0 } },
	{ "atomic-response", { SOFTRDMA_OP_ATOMIC_RESPONSE, 0, 0, 10, 8, 0, 0, 0 } },
	{ "nak", { SOFTRDMA_OP_NAK, 0, SOFTRDMA_NAK_ACCESS, 11, 0, 0, 0, 0 } },
	{ "rnr", { SOFTRDMA_OP_RNR, 0, 0, 12, 0, 0, 0, 0 } },
	{ "rnr-ready", { SOFTRDMA_OP_RNR_READY, 0, 0, 12, 0, 0, 0, 0 } },
	{ "ready", { SOFTRDMA_OP_READY, 0, 0, 0, 0, 0, 0, 0 } },
	{ "disconnect", { SOFTRDMA_OP_DISCONNECT, 0, 0, 0, 0, 0, 0, 0 } },
};

static void
frame_headers(void)
{
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		uint8_t bytes[SOFTRDMA_FRAME_SIZE];

		char name[64];

		softrdma_frame_encode(&frames[i].frame, bytes);
		seed("frame", frames[i].name, bytes, sizeof(bytes));
		bytes[1] ^= 0x10; /* a flag that does not exist */
		snprintf(name, sizeof(name), "%s-flag", frames[i].name);
		seed("frame", name, bytes, sizeof(bytes));
		bytes[1] ^= 0x14; /* a flag that most opcodes do not allow */
		snprintf(name, sizeof(name), "%s-imm", frames[i].name);
		seed("frame", name, bytes, sizeof(bytes));
	}
}

/* ---- datagrams ---- */

static void
datagrams(void)
{
	const union ibv_gid v4 = { .raw = { [10] = 0xff, [11] = 0xff, 192, 0, 2, 1 } },
			    v6 = { .raw = { 0xfd, [15] = 1 } };
	const struct {
		const char *name;
		uint8_t receive;
		struct softrdma_datagram datagram;
	} kinds[] = {
		{ "no-receive", 0, { .length = 8, .qkey = 0x1234, .to_qp = 0x10001, .from_qp = 0x20002 } },
		{ "empty", 1, { .qkey = 0x1234, .hop_limit = 64 } },
		{ "v4", 3, { .length = 16, .qkey = 0x1234, .from = v4, .to = v4, .traffic_class = 1 } },
		{ "v6", 3, { .length = 16, .qkey = 0x1234, .from = v6, .to = v6, .flow_label = 0xfffff } },
		{ "imm", 2, { .length = 8, .qkey = 0x1234, .has_imm = true, .imm = 7, .solicited = true } },
		{ "too-long", 2, { .length = 16, .qkey = 0x1234 } },
		{ "summed", 3, { .length = 16, .qkey = 0x1234, .summed = true } },
		{ "qkey", 3, { .length = 16, .qkey = 0x1235 } },
	};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		uint8_t bytes[1 + SOFTRDMA_DATAGRAM_HEADER + 16];
		const size_t length = kinds[i].datagram.length;
		uint8_t *header = bytes + 1, *payload = header + SOFTRDMA_DATAGRAM_HEADER;
		bytes[0] = kinds[i].receive;
		softrdma_datagram_encode(&kinds[i].datagram, header);
		memset(payload, 'd', length);
		if (kinds[i].datagram.summed)
			softrdma_datagram_set_sum(header,
				softrdma_crc32c(softrdma_datagram_begin_sum(header), payload, length));
		seed("datagram", kinds[i].name, bytes, 1 + SOFTRDMA_DATAGRAM_HEADER + length);
	}
}

/* ---- the stream: conversations ---- */

static uint8_t text[SEED_MAX];
static size_t text_len;

static void
u8(unsigned value)
{
	text[text_len++] = (uint8_t)value;
}

static void
u16(unsigned value)
{
	u8(value & 0xff);
	u8(value >> 8);
}

static void
begin(unsigned flags, unsigned cuts)
{
	text_len = 0;
	u8(flags);
	u16(cuts);
}

static void
frame(unsigned opcode, unsigned flags, unsigned region, unsigned offset, unsigned length, unsigned arg,
	unsigned code)
{
	u8(STEP_FRAME);
	u8(opcode);
	u8(flags);
	u8(0);
	u8(region);
	u16(offset);
	u16(length);
	u16(arg);
	u8(code);
}

static void
post(unsigned kind, unsigned flags, unsigned len)
{
	u8(STEP_POST);
	u8(kind);
	u8(flags);
	u8(8);
	u16(len);
}

static void
receive(unsigned pieces, unsigned len)
{
	u8(STEP_RECV);
	u8(pieces);
	u8(16);
	u16(len);
}

static void
event(unsigned which)
{
	u8(STEP_EVENT);
	u8(which);
}

static void
send_all(void)
{
	u8(STEP_SEND);
	u16(0);
}

static void
stream(const char *name)
{
	seed("stream", name, text, text_len);
}

/* sizes of the regions, as in stream_memory.c; REGION_READ has more bytes than an offset can address */
static const uint16_t regions_end[REGION_COUNT] = { 4096, 65528, 4096, 1024, 512, 1024 };

#define WHOLE (SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST)
#define NOWHERE REGION_COUNT

/* the kinds of post_step() */
enum { POST_SEND, POST_WRITE, POST_READ, POST_ATOMIC_WRITE, POST_COMPARE_SWAP, POST_FETCH_ADD, POST_FLUSH };

static void
streams_to_the_responder(void)
{
	begin(0, 0x1234);
	receive(1, 200);
	receive(2, 100);
	frame(SOFTRDMA_OP_SEND, WHOLE, NOWHERE, 0, 150, 0, 0);
	frame(SOFTRDMA_OP_SEND, WHOLE | SOFTRDMA_FRAME_IMM, NOWHERE, 0, 120, 9, 0);
	send_all();
	event(EVENT_POLL);
	stream("sends");

	begin(STREAM_BYTE_BY_BYTE, 0);
	frame(SOFTRDMA_OP_WRITE, SOFTRDMA_FRAME_FIRST, REGION_ALL, 8, 100, 250, 0);
	frame(SOFTRDMA_OP_WRITE, SOFTRDMA_FRAME_LAST, REGION_ALL, 108, 150, 0, 0);
	receive(0, 0);
	frame(SOFTRDMA_OP_WRITE, WHOLE | SOFTRDMA_FRAME_IMM, REGION_WRITE, 0, 512, 3, 0);
	frame(SOFTRDMA_OP_READ, 0, REGION_READ, 0, 0, 37500, 0);
	frame(SOFTRDMA_OP_COMPARE_SWAP, 0, REGION_ALL, 0, 16, 0, 0);
	frame(SOFTRDMA_OP_FETCH_ADD, 0, REGION_FLEETING, 0, 8, 0, 0);
	frame(SOFTRDMA_OP_ATOMIC_WRITE, 0, REGION_WRITE, 8, 8, 0, 0);
	send_all();
	stream("memory");

	begin(STREAM_END_BY_LOSS, 7);
	frame(SOFTRDMA_OP_FLUSH, 0, REGION_ALL, 0, 0, 64, SOFTRDMA_FLUSH_PERSISTENT);
	frame(SOFTRDMA_OP_READ, 0, REGION_ALL, 0, 0, 4, 0);
	u8(STEP_FLUSHED);
	u8(0);
	frame(SOFTRDMA_OP_FLUSH, 0, REGION_ALL, 0, 0, 64, SOFTRDMA_FLUSH_GLOBAL);
	frame(SOFTRDMA_OP_FLUSH, 0, REGION_ALL, 0, 0, 64, SOFTRDMA_FLUSH_PERSISTENT);
	u8(STEP_FLUSHED);
	u8(1);
	send_all();
	stream("flushes");

	begin(STREAM_SHARED_QUEUE, 3);
	frame(SOFTRDMA_OP_SEND, WHOLE, NOWHERE, 0, 10, 0, 0);
	send_all(); /* no receive is posted yet */
	receive(1, 10);
	send_all(); /* now one is */
	u8(STEP_FRAME);
	u8(SOFTRDMA_OP_RESYNC);
	u8(0);
	u8(0x80); /* the sequence number that the responder expects */
	for (int i = 0; i < 8; i++)
		u8(i == 0 ? NOWHERE : 0);
	frame(SOFTRDMA_OP_SEND, WHOLE, NOWHERE, 0, 10, 0, 0);
	frame(SOFTRDMA_OP_DISCONNECT, 0, NOWHERE, 0, 0, 0, 0);
	stream("waiting");

	begin(0, 0);
	frame(SOFTRDMA_OP_READ, 0, REGION_FLEETING, 0, 0, 64, 0);
	frame(SOFTRDMA_OP_WRITE, SOFTRDMA_FRAME_FIRST, REGION_FLEETING, 0, 100, 250, 0);
	event(EVENT_REVOKE);
	frame(SOFTRDMA_OP_WRITE, SOFTRDMA_FRAME_LAST, REGION_FLEETING, 100, 150, 0, 0);
	send_all();
	stream("revoked");

	begin(0, 5);
	frame(SOFTRDMA_OP_WRITE, SOFTRDMA_FRAME_FIRST, REGION_WRITE, 200, 100, 400, 0);
	send_all();
	stream("too-long-a-write");

	begin(0, 5);
	frame(SOFTRDMA_OP_WRITE, WHOLE, REGION_ALL | STREAM_WRONG_KEY, 0, 100, 0, 0);
	send_all();
	stream("wrong-key");

	begin(0, 0);
	frame(SOFTRDMA_OP_DISCONNECT, 0, NOWHERE, 0, 0, 0, 0);
	frame(SOFTRDMA_OP_WRITE, WHOLE, REGION_ALL, 0, 100, 0, 0);
	stream("behind-the-end");

	begin(0, 0);
	frame(SOFTRDMA_OP_WRITE, SOFTRDMA_FRAME_FIRST, REGION_ALL, 0, 100, 250, 0);
	event(EVENT_CLOSE);
	send_all();
	stream("closed-in-a-message");
}

/* each region, used in each way: once against its rights, and once past its end */
static void
streams_about_rights(void)
{
	static const struct {
		const char *name;
		unsigned opcode, flags, length, arg, code;
	} uses[] = {
		{ "write", SOFTRDMA_OP_WRITE, WHOLE, 64, 0, 0 },
		{ "read", SOFTRDMA_OP_READ, 0, 0, 4, 0 },
		{ "atomic-write", SOFTRDMA_OP_ATOMIC_WRITE, 0, 8, 0, 0 },
		{ "fetch-add", SOFTRDMA_OP_FETCH_ADD, 0, 8, 0, 0 },
		{ "flush", SOFTRDMA_OP_FLUSH, 0, 0, 64, SOFTRDMA_FLUSH_PERSISTENT },
	};

	for (unsigned region = 0; region < REGION_COUNT; region++) {
		for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
			char name[64];

			for (unsigned over = 0; over < 2; over++) {
				begin(0, 0);
				frame(uses[i].opcode, uses[i].flags, region,
					over ? (unsigned)regions_end[region] - 8 : 0, uses[i].length,
					uses[i].arg, uses[i].code);
				send_all();
				snprintf(name, sizeof(name), "%s-%u%s", uses[i].name, region,
					over ? "-end" : "");
				stream(name);
			}
		}
	}
}

static void
streams_to_the_requester(void)
{
	begin(0, 99);
	post(POST_SEND, 1, 300);
	post(POST_WRITE, 0, 40);
	post(POST_READ, 1, 200);
	post(POST_FETCH_ADD, 1 | 2, 8);
	send_all();
	frame(SOFTRDMA_OP_READ_RESPONSE, SOFTRDMA_FRAME_FIRST, NOWHERE, 0, 120, 0, 0);
	/* the read is the third of them */
	text[text_len - 10] = 2;
	frame(SOFTRDMA_OP_READ_RESPONSE, SOFTRDMA_FRAME_LAST, NOWHERE, 0, 80, 0, 0);
	send_all();
	frame(SOFTRDMA_OP_ATOMIC_RESPONSE, 0, NOWHERE, 0, 8, 0, 0);
	event(EVENT_POLL);
	event(EVENT_CLOSE);
	send_all();
	stream("answers");

	begin(STREAM_SMALL_CQ, 0);
	for (unsigned i = 0; i < 5; i++)
		post(POST_FLUSH, 1, 64);
	send_all();
	frame(SOFTRDMA_OP_ACK, 0, NOWHERE, 0, 0, 0, 0);
	text[text_len - 10] = 4;
	stream("overrun");

	begin(STREAM_END_BY_LOSS, 5);
	post(POST_SEND, 1 | 8, 30);
	post(POST_WRITE, 1, 0x9000);
	u8(STEP_SEND);
	u16(100);
	frame(SOFTRDMA_OP_RNR, 0, NOWHERE, 0, 0, 0, 0);
	frame(SOFTRDMA_OP_RNR_READY, 0, NOWHERE, 0, 0, 0, 0);
	send_all();
	frame(SOFTRDMA_OP_NAK, 0, NOWHERE, 0, 0, 0, SOFTRDMA_NAK_ACCESS);
	post(POST_COMPARE_SWAP, 1, 8);
	stream("refused");

	begin(0, 0);
	post(POST_WRITE, 1 | 3 << 6, 0xfff0);
	post(POST_ATOMIC_WRITE, 1, 8);
	u8(STEP_SEND);
	u16(50);
	event(EVENT_DESTROYED);
	stream("destroyed");

	begin(0, 0);
	post(POST_WRITE, 1, 40);
	post(POST_SEND, 1, 50);
	u8(STEP_SEND);
	u16(SOFTRDMA_FRAME_SIZE + 40);
	event(EVENT_CLOSE);
	send_all();
	stream("closed-between-requests");
}

/* ---- the control protocol of rpma-perf ---- */

static void
control_lines(void)
{
	static const struct {
		const char *name;
		const char *line;
	} lines[] = {
		{ "hello", "{\"type\":\"hello\",\"version\":3}" },
		{ "hello-later", "{\"type\":\"hello\",\"version\":4,\"more\":[1]}" },
		{ "setup",
			"{\"type\":\"setup\",\"op\":\"send\",\"flush_type\":\"persistent\",\"size\":4096,\"depth\":16,"
			"\"signal_every\":8,\"connections\":3,\"threads\":2,\"target_waits\":\"cq_wait\",\"verify\":true}" },
		{ "ready",
			"{\"type\":\"ready\",\"token\":\"fedcba9876543210\",\"port\":7471,\"memory\":\"DRAM\"}" },
		{ "go", "{\"type\":\"go\"}" },
		{ "mark", "{\"type\":\"mark\"}" },
		{ "finish", "{\"type\":\"finish\",\"posted\":[0,1,9223372036854775807]}" },
		{ "result",
			"{\"type\":\"result\",\"cpu_user_us\":1,\"cpu_system_us\":2,\"clients\":3,\"wrong\":0,"
			"\"first_wrong\":\"\"}" },
		{ "error", "{\"type\":\"error\",\"sentence\":\"a \\\"word\\\" \\u00e9 {[\"}" },
		{ "old", "RPPF\002\001\001\001" },
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		seed("control_line", lines[i].name, lines[i].line, strlen(lines[i].line));
}

int
main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: fuzz_seeds DIRECTORY\n");
		return 2;
	}
	dir = argv[1];
	descriptors();
	private_data();
	keeper();
	handshakes();
	frame_headers();
	datagrams();
	streams_to_the_responder();
	streams_about_rights();
	streams_to_the_requester();
	control_lines();
	return EXIT_SUCCESS;
}
