/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * attacks_tls.c -- attacks on TLS itself
 *
 * Peers with credentials prepare as many records as they can before they send the first one, so that records
 * arrive faster than the server can process them. After those they send records that they make meanwhile.
 */

#include <stdlib.h>

#include "attacking.h"
#include "deadline.h"
#include "raw.h"
#include "raw_tls.h"

#define HOST 140
#define HOST_OF_SLOW 150
/* a prepared flood: at most RECORDS records, made in at most PREPARED_MS */
#define RECORDS 400000u
#define PREPARED_MS 2000
/* records of a flood made while the attack runs */
#define RECORDS_MEANWHILE 2000u
/* the number of consecutive records without content that OpenSSL accepts */
#define EMPTY_RECORDS 32u
#define CREEPERS 200
#define HOST_OF_SAYERS 160
#define SAYERS 40

/*
 * makes the next records of a flood, of at most RAW_TLS_KEY_UPDATE_SIZE bytes each; returns the total bytes
 */
struct flood;
typedef size_t next_fn(struct flood *flood, uint8_t *bytes);

struct flood {
	next_fn *next;
	int fd;
	struct raw_tls_sealer *sealer;
	unsigned count; /* of records */
	uint32_t seq;   /* of the next frame */
	uint8_t *bytes;
	size_t len;
};

/* the most bytes that one call of next() makes: EMPTY_RECORDS records, and one with a frame */
#define NEXT_MAX ((EMPTY_RECORDS + 1) * RAW_TLS_OVERHEAD + RAW_HEADER)

static struct flood prepared = { .fd = -1 };

static size_t
next_key_update(struct flood *flood, uint8_t *bytes)
{
	/* some request an answer, which the server must not send to a peer that does not read it */
	return raw_tls_seal_key_update(flood->sealer, flood->count++ % 16 == 15, bytes);
}

static size_t
next_empty_records(struct flood *flood, uint8_t *bytes)
{
	const struct raw_frame frame = { .opcode = RAW_WRITE, .flags = RAW_WHOLE, .seq = flood->seq++ };
	uint8_t header[RAW_HEADER], *at = bytes;

	for (unsigned i = 0; i < EMPTY_RECORDS; i++)
		at += raw_tls_seal(flood->sealer, RAW_TLS_DATA, NULL, 0, at);
	raw_encode(&frame, header);
	at += raw_tls_seal(flood->sealer, RAW_TLS_DATA, header, sizeof(header), at);
	flood->count += EMPTY_RECORDS + 1;
	return (size_t)(at - bytes);
}

/* returns false if there is no connection */
static bool
make(struct flood *flood, next_fn *next, const struct target *target, unsigned records, int64_t end_ms)
{
	const size_t size = (size_t)records * RAW_TLS_KEY_UPDATE_SIZE + NEXT_MAX;
	struct raw_memory memory;

	*flood = (struct flood){ .next = next, .seq = RAW_SEQ };
	flood->fd = raw_establish(HOST, target->port, &memory);
	if (flood->fd < 0)
		return false;
	flood->sealer = raw_tls_take_over(flood->fd);
	flood->bytes = malloc(size);
	while (flood->bytes && flood->count < records && !over(end_ms))
		flood->len += next(flood, flood->bytes + flood->len);
	return flood->bytes != NULL;
}

static void
end_flood(struct flood *flood)
{
	raw_close(flood->fd);
	raw_tls_sealer_delete(flood->sealer);
	free(flood->bytes);
	flood->fd = -1;
}

static int
prepare(next_fn *next, const struct target *target)
{
	return make(&prepared, next, target, RECORDS, now_ms() + PREPARED_MS)
		? 0
		: let_pass("no peer that has credentials");
}

/* ends: true if the server must end the stream instead of reading all records */
static int
flood_of_records(next_fn *next, bool ends, const struct target *target, int64_t end_ms)
{
	int ret = 0;

	(void)raw_send_until(prepared.fd, prepared.bytes, prepared.len, end_ms);
	while (!over(end_ms)) {
		struct flood flood;
		if (!make(&flood, next, target, RECORDS_MEANWHILE, end_ms))
			continue;
		(void)raw_send_until(flood.fd, flood.bytes, flood.len, end_ms);
		end_flood(&flood);
	}
	/* what the server has sent meanwhile may come before the end */
	if (ends && !raw_ends(prepared.fd, PATIENCE_MS))
		ret = let_pass("records without content, and without end");
	end_flood(&prepared);
	return ret;
}

int
prepare_key_updates(const struct target *target)
{
	return prepare(next_key_update, target);
}

int
key_updates(const struct target *target, int64_t end_ms)
{
	return flood_of_records(next_key_update, true, target, end_ms);
}

int
prepare_empty_records(const struct target *target)
{
	return prepare(next_empty_records, target);
}

int
empty_records(const struct target *target, int64_t end_ms)
{
	return flood_of_records(next_empty_records, false, target, end_ms);
}

/* --- recorded ClientHellos, which cost their sender nothing --- */

/* the first is cheap for the server to compute, and it must not offer the others: ffdhe8192 takes 0.3 s */
static const char *const groups[] = { "X25519", "ffdhe8192", "P-521" };

static struct hello {
	uint8_t bytes[RAW_TLS_HELLO_MAX];
	size_t len;
} hellos[sizeof(groups) / sizeof(groups[0])];

int
prepare_hellos(const struct target *target)
{
	(void)target;
	for (unsigned i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		hellos[i].len = raw_tls_hello(groups[i], hellos[i].bytes);
		if (hellos[i].len == 0)
			return let_pass("no hello can be made");
	}
	return 0;
}

/* each connection sends the same again as soon as it has an answer */
int
recorded_hellos(const struct target *target, int64_t end_ms)
{
	static int fds[SAYERS];

	for (unsigned i = 0; i < SAYERS; i++)
		fds[i] = -1;
	while (!over(end_ms)) {
		for (unsigned i = 0; i < SAYERS; i++) {
			const struct hello *hello = &hellos[i % (sizeof(groups) / sizeof(groups[0]))];
			if (fds[i] >= 0 && !has_ended(fds[i]))
				continue;
			if (fds[i] >= 0)
				raw_close(fds[i]);
			fds[i] = raw_connect(HOST_OF_SAYERS + i % 8, target->port);
			if (fds[i] >= 0)
				(void)raw_send(fds[i], hello->bytes, hello->len);
		}
		pause_ms(1);
	}
	for (unsigned i = 0; i < SAYERS; i++)
		if (fds[i] >= 0)
			raw_close(fds[i]);
	return 0;
}

/* --- handshakes byte by byte --- */

/* each has credentials and completes in the end; then another one begins */
int
slow_tls(const struct target *target, int64_t end_ms)
{
	static int fds[CREEPERS];

	for (unsigned i = 0; i < CREEPERS; i++)
		fds[i] = -1;
	while (!over(end_ms)) {
		for (unsigned i = 0; i < CREEPERS; i++) {
			if (fds[i] < 0) {
				fds[i] = raw_connect(HOST_OF_SLOW + i % 4, target->port);
				if (fds[i] < 0)
					continue;
			}
			if (!(raw_tls_is_on(fds[i]) || raw_tls_creep_begin(fds[i])) ||
				!raw_tls_creep(fds[i])) {
				raw_close(fds[i]);
				fds[i] = -1;
			}
		}
		pause_ms(1);
	}
	for (unsigned i = 0; i < CREEPERS; i++)
		if (fds[i] >= 0)
			raw_close(fds[i]);
	return 0;
}
