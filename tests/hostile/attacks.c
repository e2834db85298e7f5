/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* attacks.c -- the attacks of hostile peers; each uses addresses of its own, 127.0.0.<host> */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "attacking.h"
#include "attacks.h"
#include "deadline.h"
#include "raw.h"

#define SEGMENT_MAX 262144u
#define MESSAGE_MAX 0x80000000u

/* --- connections that never send a complete request --- */

static int
half_open(const struct target *target, int64_t end_ms)
{
	const struct crowd how = { .count = 1000, .host = 10, .hosts = 4 };

	return crowd(&how, target, end_ms);
}

static int
slow_loris(const struct target *target, int64_t end_ms)
{
	uint8_t message[RAW_HEADER];
	const struct crowd how = { .count = 100,
		.host = 20,
		.hosts = 2,
		.bytes = message,
		.len = sizeof(message) };

	raw_connect_message(message);
	return crowd_of_lorises(&how, target, end_ms);
}

/* --- memory that the attacker may not access --- */

/*
 * Sends the request, and more after it as if nothing had happened. The request must be refused and the
 * connection closed, with no other response.
 */
static int
refused(int fd, const struct raw_frame *request, const struct raw_memory *memory)
{
	static uint8_t payload[64];
	const struct raw_frame behind = { .opcode = RAW_READ,
		.seq = request->seq + 1,
		.key = memory->key,
		.addr = memory->addr,
		.arg = 8 };
	uint64_t opcodes = 0;
	uint16_t nak = 0;
	int ret = 0;

	if (!raw_send_frame(fd, request, request->length ? payload : NULL) ||
		!raw_send_frame(fd, &behind, NULL))
		ret = let_pass("nothing: it did not wait for the request");
	else if (raw_expect_end(fd, PATIENCE_MS, &opcodes, &nak) != RAW_ENDED)
		ret = let_pass("a connection that goes on after a wrong key");
	else if (nak != 2 || opcodes != (UINT64_C(1) << RAW_NAK | UINT64_C(1) << RAW_DISCONNECT))
		ret = let_pass("a request for memory that is not the client's");
	raw_close(fd);
	return ret;
}

/* wrong keys, ranges and rights, one per connection, because the first refusal ends the connection */
static int
wrong_keys(const struct target *target, int64_t end_ms)
{
	int ret = 0;

	for (unsigned n = 0; !over(end_ms) && ret == 0; n++) {
		struct raw_memory memory;
		int fd = raw_establish(30 + n % 2, target->port, &memory);
		if (fd < 0)
			continue;
		struct raw_frame requests[] = {
			{ .opcode = RAW_READ, .key = (uint32_t)random(), .addr = memory.addr, .arg = 64 },
			{ .opcode = RAW_READ,
				.key = memory.key ^ 1u << n % 32,
				.addr = memory.addr,
				.arg = 64 },
			{ .opcode = RAW_WRITE,
				.flags = RAW_WHOLE,
				.length = 64,
				.key = memory.key + 1,
				.addr = memory.addr },
			{ .opcode = RAW_READ, .key = memory.key, .addr = memory.addr - 1, .arg = 64 },
			{ .opcode = RAW_WRITE,
				.flags = RAW_WHOLE,
				.length = 64,
				.key = memory.key,
				.addr = memory.addr + memory.size - 63 },
			{ .opcode = RAW_READ, .key = memory.key, .addr = 0, .arg = 1 },
			{ .opcode = RAW_READ, .key = 0, .addr = memory.addr, .arg = 1 },
			/* a valid key without this right */
			{ .opcode = RAW_FLUSH, .code = 2, .key = memory.key, .addr = memory.addr, .arg = 8 },
			/* the end of the range wraps */
			{ .opcode = RAW_READ, .key = memory.key, .addr = UINT64_MAX - 7, .arg = 16 },
			{ .opcode = RAW_READ,
				.key = memory.key,
				.addr = memory.addr + memory.size,
				.arg = MESSAGE_MAX },
			{ .opcode = RAW_FLUSH,
				.code = 1,
				.key = memory.key,
				.addr = memory.addr + 8,
				.arg = UINT64_MAX - 7 },
		};
		struct raw_frame *request = &requests[n % (sizeof(requests) / sizeof(requests[0]))];
		request->seq = RAW_SEQ;
		ret = refused(fd, request, &memory);
	}
	return ret;
}

/* --- invalid frames --- */

/* the server must close the connection, with no responses before that except of this kind */
static int
broken(int fd, const void *bytes, size_t len, uint8_t answers, const char *what)
{
	uint64_t opcodes = 0;
	int ret = 0;

	/* it may be closed before everything is sent */
	(void)raw_send(fd, bytes, len);
	if (raw_expect_end(fd, PATIENCE_MS, &opcodes, NULL) != RAW_ENDED ||
		opcodes & ~(UINT64_C(1) << answers))
		ret = let_pass(what);
	raw_close(fd);
	return ret;
}

/* lengths that are too large, that wrap, and that do not match */
static int
wrong_lengths(const struct target *target, int64_t end_ms)
{
	int ret = 0;

	for (unsigned n = 0; !over(end_ms) && ret == 0; n++) {
		struct raw_memory m;
		int fd = raw_establish(40 + n % 2, target->port, &m);
		if (fd < 0)
			continue;
		const struct raw_frame frames[] = {
			{ .opcode = RAW_WRITE,
				.flags = RAW_WHOLE,
				.length = SEGMENT_MAX + 1,
				.key = m.key,
				.addr = m.addr },
			{ .opcode = RAW_WRITE,
				.flags = RAW_WHOLE,
				.length = UINT32_MAX,
				.key = m.key,
				.addr = m.addr },
			{ .opcode = RAW_WRITE,
				.flags = RAW_FIRST,
				.length = 64,
				.key = m.key,
				.addr = m.addr,
				.arg = MESSAGE_MAX + UINT64_C(1) },
			{ .opcode = RAW_WRITE,
				.flags = RAW_FIRST,
				.length = 64,
				.key = m.key,
				.addr = m.addr,
				.arg = UINT64_MAX },
			{ .opcode = RAW_WRITE,
				.flags = RAW_FIRST,
				.length = 64,
				.key = m.key,
				.addr = m.addr,
				.arg = 64 },
			{ .opcode = RAW_WRITE,
				.flags = RAW_FIRST,
				.length = 64,
				.key = m.key,
				.addr = m.addr,
				.arg = 1 },
			{ .opcode = RAW_WRITE,
				.flags = RAW_LAST,
				.length = 64,
				.key = m.key,
				.addr = m.addr },
			{ .opcode = RAW_WRITE, .flags = 0, .length = 64, .key = m.key, .addr = m.addr },
			{ .opcode = RAW_SEND, .flags = RAW_WHOLE, .length = UINT32_MAX },
			{ .opcode = RAW_READ,
				.key = m.key,
				.addr = m.addr,
				.arg = MESSAGE_MAX + UINT64_C(1) },
			{ .opcode = RAW_READ, .key = m.key, .addr = m.addr, .arg = UINT64_MAX },
			{ .opcode = RAW_READ, .length = 8, .key = m.key, .addr = m.addr, .arg = 8 },
			{ .opcode = RAW_FETCH_ADD, .length = 16, .key = m.key, .addr = m.addr },
			{ .opcode = RAW_FETCH_ADD, .length = 0, .key = m.key, .addr = m.addr },
			{ .opcode = RAW_READ_RESPONSE, .flags = RAW_WHOLE, .length = 64 },
			{ .opcode = RAW_ACK, .length = 0 },
			{ .opcode = RAW_NAK, .code = 2 },
		};
		struct raw_frame frame = frames[n % (sizeof(frames) / sizeof(frames[0]))];
		uint8_t bytes[RAW_HEADER + 64] = { 0 };
		frame.seq = frame.opcode >= RAW_ACK ? (uint32_t)random() : RAW_SEQ;
		raw_encode(&frame, bytes);
		/* the payload follows where one is due, so that only the length is wrong */
		ret = broken(fd, bytes, sizeof(bytes), RAW_ACK, "a length that cannot be");
	}
	return ret;
}

/* valid requests again: on the same connection, and with a key from another connection */
static int
replayed(const struct target *target, int64_t end_ms)
{
	uint8_t bytes[2 * RAW_HEADER];
	uint32_t old_key = 0;
	int ret = 0;

	for (unsigned n = 0; !over(end_ms) && ret == 0; n++) {
		struct raw_memory m;
		int fd = raw_establish(50, target->port, &m);
		if (fd < 0)
			continue;
		/*
		 * a key of another client is valid here too: the server has one peer, and so one protection
		 * domain
		 */
		const struct raw_frame read = { .opcode = RAW_READ,
			.seq = RAW_SEQ,
			.key = n % 2 ? old_key : m.key,
			.addr = m.addr,
			.arg = 64 };
		old_key = m.key;
		raw_encode(&read, bytes);
		memcpy(bytes + RAW_HEADER, bytes, RAW_HEADER);
		if (read.key == m.key)
			ret = broken(fd, bytes, sizeof(bytes), RAW_READ_RESPONSE,
				"a request that was sent again");
		else
			ret = refused(fd, &read,
				&m); /* the old key with an address that is not in its region */
	}
	return ret;
}

/* --- random bytes --- */

static void
fill(uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)random();
}

/* instead of a request, after a valid request, and instead of frames */
static int
random_bytes(const struct target *target, int64_t end_ms)
{
	uint8_t bytes[4096];

	for (unsigned n = 0; !over(end_ms); n++) {
		struct raw_memory m;
		const unsigned what = n % 3;
		int fd = what == 2 ? raw_establish(60, target->port, &m)
				   : raw_connect(60 + what, target->port);
		if (fd < 0)
			continue;
		fill(bytes, sizeof(bytes));
		if (what == 1)
			raw_connect_message(bytes);
		(void)raw_send(fd, bytes, 1 + (size_t)(random() % (long)sizeof(bytes)));
		/* some read what the server sends, some do not */
		if (n % 2)
			(void)raw_expect_end(fd, 100, NULL, NULL);
		raw_close(fd);
	}
	return 0;
}

/* --- floods from one address --- */

/* connect and disconnect */
static int
flood_of_connections(const struct target *target, int64_t end_ms)
{
	while (!over(end_ms)) {
		int fd = raw_connect(70, target->port);
		if (fd >= 0)
			raw_close(fd);
	}
	return 0;
}

#define REQUESTS 600

/* valid requests, far more than the server answers at once; then all of them are withdrawn */
static int
flood_of_requests(const struct target *target, int64_t end_ms)
{
	static int fds[REQUESTS];
	uint8_t message[RAW_HEADER];

	raw_connect_message(message);
	while (!over(end_ms)) {
		for (unsigned i = 0; i < REQUESTS; i++) {
			fds[i] = raw_connect(80, target->port);
			if (fds[i] >= 0)
				(void)raw_send(fds[i], message, sizeof(message));
		}
		for (unsigned i = 0; i < REQUESTS; i++)
			if (fds[i] >= 0)
				raw_close(fds[i]);
	}
	return 0;
}

#define FLOODERS 8

/* established connections that send refused and empty requests as fast as the server accepts them */
static int
flood_of_frames(const struct target *target, int64_t end_ms)
{
	static uint8_t frames[FLOODERS][512 * RAW_HEADER];
	int fds[FLOODERS];
	uint32_t seq[FLOODERS];
	struct raw_memory m;

	for (unsigned i = 0; i < FLOODERS; i++) {
		fds[i] = raw_establish(90, target->port, &m);
		seq[i] = RAW_SEQ;
	}
	while (!over(end_ms)) {
		for (unsigned i = 0; i < FLOODERS; i++) {
			if (fds[i] < 0)
				continue;
			for (unsigned k = 0; k < sizeof(frames[i]) / RAW_HEADER; k++) {
				/* of no bytes: allowed for any address */
				const struct raw_frame frame = { .opcode = RAW_WRITE,
					.flags = RAW_WHOLE,
					.seq = seq[i]++ };
				raw_encode(&frame, frames[i] + k * RAW_HEADER);
			}
			(void)raw_send(fds[i], frames[i], sizeof(frames[i]));
			raw_drain(fds[i]);
		}
	}
	for (unsigned i = 0; i < FLOODERS; i++)
		if (fds[i] >= 0)
			raw_close(fds[i]);
	return 0;
}

/* asks for everything that may be read, and never reads a response */
static int
never_reads(const struct target *target, int64_t end_ms)
{
	struct raw_memory m;
	int fds[FLOODERS];

	for (unsigned i = 0; i < FLOODERS; i++) {
		fds[i] = raw_establish(100, target->port, &m);
		for (uint32_t k = 0; fds[i] >= 0 && k < 8; k++) {
			const struct raw_frame frame = { .opcode = RAW_READ,
				.seq = RAW_SEQ + k,
				.key = m.key,
				.addr = m.addr,
				.arg = m.size };
			(void)raw_send_frame(fds[i], &frame, NULL);
		}
	}
	while (!over(end_ms))
		pause_ms(10);
	for (unsigned i = 0; i < FLOODERS; i++)
		if (fds[i] >= 0)
			raw_close(fds[i]);
	return 0;
}

const struct attack attacks[] = {
	{ .name = "half-open", .run = half_open },
	{ .name = "slow-loris", .run = slow_loris },
	{ .name = "wrong-keys", .run = wrong_keys },
	{ .name = "wrong-lengths", .run = wrong_lengths },
	{ .name = "replayed", .run = replayed },
	{ .name = "random-bytes", .run = random_bytes },
	{ .name = "flood-of-connections", .run = flood_of_connections },
	{ .name = "flood-of-requests", .run = flood_of_requests },
	{ .name = "flood-of-frames", .run = flood_of_frames },
	{ .name = "never-reads", .run = never_reads },
	{ .name = "storm", .run = storm },
	{ .name = "flushes-and-fin", .run = flushes_and_fin, .flushes = true },
	{ .name = "flushes-and-reset", .run = flushes_and_reset, .flushes = true },
	{ .name = "on-after-version", .run = after_other_version },
	{ .name = "on-after-damage", .run = after_damage },
	{ .name = "on-after-wrong-kind", .run = after_wrong_kind },
	{ .name = "on-after-garbage", .run = after_garbage },
	{ .name = "on-after-busy", .run = after_busy, .prepare = prepare_busy },
	{ .name = "on-after-rejection", .run = after_rejection },
	{ .name = "on-after-wrong-key", .run = after_wrong_key },
	{ .name = "on-after-broken-frame", .run = after_broken_frame },
	{ .name = "on-after-no-certificate",
		.run = after_no_certificate,
		.needs = ATTACK_NEEDS_CERTIFICATES },
	{ .name = "key-updates",
		.run = key_updates,
		.prepare = prepare_key_updates,
		.needs = ATTACK_NEEDS_TLS },
	{ .name = "empty-records",
		.run = empty_records,
		.prepare = prepare_empty_records,
		.needs = ATTACK_NEEDS_TLS },
	{ .name = "recorded-hellos",
		.run = recorded_hellos,
		.prepare = prepare_hellos,
		.needs = ATTACK_NEEDS_CERTIFICATES },
	{ .name = "slow-tls", .run = slow_tls, .needs = ATTACK_NEEDS_TLS },
	{ .name = "by-hand-silent", .run = silent_callers, .by_hand = true },
	{ .name = "by-hand-half-joins", .run = half_joins, .by_hand = true },
	{ .name = "by-hand-slow-loris", .run = joins_of_lorises, .by_hand = true },
	{ .name = "by-hand-wrong-joins", .run = wrong_joins, .by_hand = true },
	{ .name = "by-hand-on-after-refusal", .run = after_wrong_join, .by_hand = true },
	{ .name = NULL },
};
