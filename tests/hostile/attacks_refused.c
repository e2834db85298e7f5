/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * attacks_refused.c -- peers that are refused and continue to send as much as their socket takes
 *
 * Each attack first checks once that the refusal is the expected one. The server may discard what comes after
 * it, or end the stream; no other client may have to wait for that.
 */

#include <stdlib.h>
#include <string.h>

#include "attacking.h"
#include "deadline.h"
#include "hostile.h"
#include "raw.h"
#include "raw_tls.h"

/*
 * processes at a time, each with its own connection; fewer if the connections stay, since those use a peer's
 * full rights
 */
#define POURERS 4
#define POURERS_THAT_STAY 2
/* the addresses of these, and of all whose requests are held: only they find the server busy */
#define HOST 110
#define HOST_OF_HELD 120

/* reasons of REJECT; NO_REASON: the stream ends without one */
#define NO_REASON 0
#define REASON_BUSY 3
#define REASON_PLAIN 5
#define REASON_DAMAGED 6
#define REASON_APPLICATION 28
#define REASON_VERSION 31

#define VERSION_OF_NOBODY 99

struct refusal {
	uint16_t reason;
	/* makes a connection, and the bytes that it is refused for; -1 if there is no connection now */
	int (*begin)(unsigned host, uint16_t port, uint8_t bytes[static RAW_MESSAGE_MAX], size_t *len);
	struct filler filler;
	bool stays; /* the stream may continue until its deadline, if nothing else waits for it */
};

static int
begin_other_version(unsigned host, uint16_t port, uint8_t bytes[static RAW_MESSAGE_MAX], size_t *len)
{
	raw_connect_message(bytes);
	bytes[4] = VERSION_OF_NOBODY;
	*len = RAW_HEADER;
	return raw_connect_ready(host, port);
}

/* a request with the checksum of another one */
static int
begin_damaged(unsigned host, uint16_t port, uint8_t bytes[static RAW_MESSAGE_MAX], size_t *len)
{
	raw_connect_message(bytes);
	bytes[12] ^= 1;
	*len = RAW_HEADER;
	return raw_connect_ready(host, port);
}

/* plain text to a server that uses TLS, and TLS to one that does not */
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
	bytes[0] = 'X'; /* starts neither a request nor a record */
	*len = RAW_HEADER;
	return raw_connect_ready(host, port);
}

/* plain, because it is refused before TLS can begin */
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

/* the handshake is complete for the client; the server refuses it only after that */
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

/* checks that it is refused, and for the expected reason */
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

/* sends a request that makes the server's application do something; returns its socket, or -1 */
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

/* true if this address has all the pending connections that it may have */
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
 * All requests that one address may have wait for the application; then the server has no room for more from
 * there. The server may close one whose request has not been read yet in favour of the next one.
 */
int
prepare_busy(const struct target *target)
{
	/* 512 handshakes take long over TLS with sanitizers */
	const int64_t end = now_ms() + 4 * PATIENCE_MS;

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

	/* this request is rejected too, after all the others */
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
