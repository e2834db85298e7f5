/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * attacks_refused.c -- peers that are refused, and go on sending as much as their socket takes
 *
 * Each attack first looks once whether the refusal is the one that is meant. The server may throw away what
 * comes behind it, or end the stream; nobody else may wait for that.
 */

#include <stdlib.h>
#include <string.h>

#include "attacking.h"
#include "deadline.h"
#include "hostile.h"
#include "raw.h"
#include "raw_tls.h"

/* so many at a time, each on its own; of those that stay fewer, which then have all that any peer has */
#define POURERS 4
#define POURERS_THAT_STAY 2
/* their addresses, and that of all whose requests wait: only they find the server busy */
#define HOST 110
#define HOST_OF_HELD 120

/* reasons of REJECT; none: the stream ends without a word */
#define NO_REASON 0
#define REASON_BUSY 3
#define REASON_PLAIN 5
#define REASON_DAMAGED 6
#define REASON_APPLICATION 28
#define REASON_VERSION 31

#define VERSION_OF_NOBODY 99

struct refusal {
	uint16_t reason;
	/* a connection, and the bytes that it is refused for; -1: none now */
	int (*begin)(unsigned host, uint16_t port, uint8_t bytes[static RAW_MESSAGE_MAX], size_t *len);
	struct filler filler;
	bool stays; /* the stream may go on until its deadline, if nothing else waits for it */
};

static int
begin_other_version(unsigned host, uint16_t port, uint8_t bytes[static RAW_MESSAGE_MAX], size_t *len)
{
	raw_connect_message(bytes);
	bytes[4] = VERSION_OF_NOBODY;
	*len = RAW_HEADER;
	return raw_connect_ready(host, port);
}

/* its check sum is that of another request */
static int
begin_damaged(unsigned host, uint16_t port, uint8_t bytes[static RAW_MESSAGE_MAX], size_t *len)
{
	raw_connect_message(bytes);
	bytes[12] ^= 1;
	*len = RAW_HEADER;
	return raw_connect_ready(host, port);
}

/* plain text where TLS is spoken, and TLS where it is not */
static int
begin_wrong_kind(unsigned host, uint16_t port, uint8_t bytes[static RAW_MESSAGE_MAX], size_t *len)
{
	static const uint8_t client_hello[] = { 22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3 };

	raw_connect_message(bytes);
	if (!raw_tls_is_wanted())
		memcpy(bytes, client_hello, sizeof(client_hello));
	*len = RAW_HEADER;
	return raw_connect(host, port);
}

static int
begin_garbage(unsigned host, uint16_t port, uint8_t bytes[static RAW_MESSAGE_MAX], size_t *len)
{
	for (size_t i = 0; i < RAW_HEADER; i++)
		bytes[i] = (uint8_t)random();
	bytes[0] = 'X'; /* neither a request nor a record */
	*len = RAW_HEADER;
	return raw_connect_ready(host, port);
}

/* plain: it is refused before TLS could begin */
static int
begin_busy(unsigned host, uint16_t port, uint8_t bytes[static RAW_MESSAGE_MAX], size_t *len)
{
	(void)host;
	raw_connect_message(bytes);
	*len = RAW_HEADER;
	return raw_connect(HOST_OF_HELD, port);
}

static int
begin_rejection(unsigned host, uint16_t port, uint8_t bytes[static RAW_MESSAGE_MAX], size_t *len)
{
	*len = raw_connect_message_with(bytes, REQUEST_TO_REFUSE);
	return raw_connect_ready(host, port);
}

static int
begin_wrong_key(unsigned host, uint16_t port, uint8_t bytes[static RAW_MESSAGE_MAX], size_t *len)
{
	struct raw_memory memory = { 0 };
	int fd = raw_establish(host, port, &memory);
	const struct raw_frame read = { .opcode = RAW_READ,
		.seq = RAW_SEQ,
		.key = memory.key ^ 1,
		.addr = memory.addr,
		.arg = 8 };

	raw_encode(&read, bytes);
	*len = RAW_HEADER;
	return fd;
}

static int
begin_broken_frame(unsigned host, uint16_t port, uint8_t bytes[static RAW_MESSAGE_MAX], size_t *len)
{
	const struct raw_frame frame = { .opcode = 99, .seq = RAW_SEQ };
	struct raw_memory memory;

	raw_encode(&frame, bytes);
	*len = RAW_HEADER;
	return raw_establish(host, port, &memory);
}

/* it is for the client that the handshake is complete; the server refuses what it then reads */
static int
begin_no_certificate(unsigned host, uint16_t port, uint8_t bytes[static RAW_MESSAGE_MAX], size_t *len)
{
	int fd = raw_connect(host, port);

	raw_connect_message(bytes);
	*len = RAW_HEADER;
	if (fd >= 0 && !raw_tls_begin_without_certificate(fd, PATIENCE_MS)) {
		raw_close(fd);
		return -1;
	}
	return fd;
}

/* is it refused, and so? */
static int
look(const struct refusal *refusal, const struct target *target)
{
	uint8_t bytes[RAW_MESSAGE_MAX];
	size_t len;
	int fd = refusal->begin(HOST, target->port, bytes, &len);
	int ret = 0;

	if (fd < 0)
		return let_pass("nothing: it takes no connection");
	(void)raw_send(fd, bytes, len);
	if (refusal->reason != NO_REASON &&
		(!raw_recv(fd, bytes, RAW_HEADER, PATIENCE_MS) ||
			raw_reject_reason(bytes) != refusal->reason))
		ret = let_pass("a request that it has to reject, and for another reason");
	if (!raw_ends(fd, PATIENCE_MS))
		ret = let_pass("a stream that goes on after it was refused");
	raw_close(fd);
	return ret;
}

static int
pour_on(const struct target *target, int64_t end_ms, unsigned number, void *arg)
{
	const struct refusal *refusal = arg;
	uint8_t bytes[RAW_MESSAGE_MAX];
	int ret = 0;
	size_t len;

	while (!over(end_ms) && ret == 0) {
		int fd = refusal->begin(HOST + number, target->port, bytes, &len);
		if (fd < 0)
			continue;
		if (pour(fd, bytes, len, refusal->filler, end_ms) > TAKEN_MAX && !refusal->stays)
			ret = let_pass("more behind a refusal than sockets hold");
		raw_close(fd);
	}
	return ret;
}

static int
go_on_after(struct refusal *refusal, const struct target *target, int64_t end_ms)
{
	const unsigned pourers = refusal->stays ? POURERS_THAT_STAY : POURERS;
	int ret = look(refusal, target);

	return ret ? ret : in_parallel(pourers, pour_on, target, end_ms, refusal);
}

int
after_other_version(const struct target *target, int64_t end_ms)
{
	struct refusal refusal = { .reason = REASON_VERSION, .begin = begin_other_version };

	return go_on_after(&refusal, target, end_ms);
}

int
after_damage(const struct target *target, int64_t end_ms)
{
	struct refusal refusal = { .reason = REASON_DAMAGED, .begin = begin_damaged };

	return go_on_after(&refusal, target, end_ms);
}

int
after_wrong_kind(const struct target *target, int64_t end_ms)
{
	struct refusal refusal = { .reason = raw_tls_is_wanted() ? REASON_PLAIN : NO_REASON,
		.begin = begin_wrong_kind };

	return go_on_after(&refusal, target, end_ms);
}

int
after_garbage(const struct target *target, int64_t end_ms)
{
	struct refusal refusal = { .begin = begin_garbage };

	return go_on_after(&refusal, target, end_ms);
}

int
after_rejection(const struct target *target, int64_t end_ms)
{
	struct refusal refusal = { .reason = REASON_APPLICATION, .begin = begin_rejection };

	return go_on_after(&refusal, target, end_ms);
}

int
after_wrong_key(const struct target *target, int64_t end_ms)
{
	struct refusal refusal = { .begin = begin_wrong_key,
		.filler = { .frames = true, .seq = RAW_SEQ + 1 },
		.stays = true };

	return go_on_after(&refusal, target, end_ms);
}

int
after_broken_frame(const struct target *target, int64_t end_ms)
{
	struct refusal refusal = { .begin = begin_broken_frame };

	return go_on_after(&refusal, target, end_ms);
}

int
after_no_certificate(const struct target *target, int64_t end_ms)
{
	struct refusal refusal = { .begin = begin_no_certificate };

	return go_on_after(&refusal, target, end_ms);
}

/* --- busy --- */

/* a request by which the server's application does something; its socket, or -1 */
static int
ask(unsigned host, const struct target *target, const char *what)
{
	uint8_t bytes[RAW_MESSAGE_MAX];
	const size_t len = raw_connect_message_with(bytes, what);
	int fd = raw_connect_ready(host, target->port);

	if (fd >= 0)
		(void)raw_send(fd, bytes, len);
	return fd;
}

/* has one address all that it may have? */
static bool
is_busy(const struct target *target)
{
	uint8_t bytes[RAW_MESSAGE_MAX];
	size_t len;
	int fd = begin_busy(HOST, target->port, bytes, &len);

	if (fd < 0)
		return false;
	const bool busy = raw_send(fd, bytes, len) && raw_recv(fd, bytes, RAW_HEADER, PATIENCE_MS) &&
		raw_reject_reason(bytes) == REASON_BUSY;
	raw_close(fd);
	return busy;
}

static int held[PENDING_OF_ADDRESS];

/*
 * All that one address may have wait for the application; then the server has no room for more from there.
 * One whose request is not read yet may be ended for the next one.
 */
int
prepare_busy(const struct target *target)
{
	const int64_t end = now_ms() + 2 * PATIENCE_MS;

	memset(held, -1, sizeof(held));
	do {
		for (unsigned i = 0; i < PENDING_OF_ADDRESS; i++) {
			if (held[i] >= 0 && !has_ended(held[i]))
				continue;
			if (held[i] >= 0)
				raw_close(held[i]);
			held[i] = ask(HOST_OF_HELD, target, REQUEST_TO_HOLD);
		}
	} while (!is_busy(target) && !over(end));
	return over(end) ? let_pass("more requests of one address than it may have") : 0;
}

static int
release(const struct target *target)
{
	int fd = ask(HOST, target, REQUEST_TO_RELEASE);
	int ret = 0;

	/* it is rejected itself, after all others */
	if (fd < 0 || !raw_ends(fd, PATIENCE_MS))
		ret = let_pass("nothing: it does not answer");
	if (fd >= 0)
		raw_close(fd);
	for (unsigned i = 0; i < PENDING_OF_ADDRESS; i++)
		if (held[i] >= 0)
			raw_close(held[i]);
	return ret;
}

int
after_busy(const struct target *target, int64_t end_ms)
{
	struct refusal refusal = { .reason = REASON_BUSY, .begin = begin_busy };
	int ret = go_on_after(&refusal, target, end_ms);

	return release(target) ? 1 : ret;
}
