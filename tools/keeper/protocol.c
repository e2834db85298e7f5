/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* protocol.c -- what a client and rpma-keeper tell each other when they connect */

#include <assert.h>
#include <string.h>

#include "protocol.h"

#define MAGIC_SIZE 4
#define VERSION_AT MAGIC_SIZE

/* offsets in a request, a reply and a refusal; each begins with its magic and the version */
enum {
	REQUEST_WANT = 5,
	REQUEST_NAME_LEN = 6,
	REQUEST_RESERVED = 7,
	REQUEST_CLIENT = 8,
	REQUEST_NAME = 16,

	REPLY_FLAGS = 5,
	REPLY_PERSISTENCE = 6,
	REPLY_BLOCK_SHIFT = 7,
	REPLY_SIZE = 8,
	REPLY_IDENTITY = 16,
	REPLY_PEER_CFG = 32,
	REPLY_DESCRIPTOR_SIZE = 33,
	REPLY_ONLY_READING = 34,
	REPLY_RESERVED = 35,
	REPLY_DESCRIPTOR = 36,

	REFUSAL_REASON = 5,
	REFUSAL_SENTENCE_LEN = 6,
	REFUSAL_RESERVED = 7,
	REFUSAL_SENTENCE = 8,
};

#define REPLY_WRITABLE 1
#define REPLY_LENT 2

static const uint8_t request_magic[MAGIC_SIZE] = { 'R', 'P', 'K', 'Q' };
static const uint8_t reply_magic[MAGIC_SIZE] = { 'R', 'P', 'K', 'A' };
static const uint8_t refusal_magic[MAGIC_SIZE] = { 'R', 'P', 'K', 'R' };

static void
put_u64(uint8_t *at, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t
get_u64(const uint8_t *at)
{
	uint64_t value = 0;

	for (int i = 7; i >= 0; i--)
		value = value << 8 | at[i];
	return value;
}

static bool
is_zero(const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

static bool
is_name_character(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
		c == '_' || c == '-';
}

static bool
is_printable(uint8_t c)
{
	return c >= 0x20 && c <= 0x7e;
}

bool
keeper_name_is_valid(const char *text)
{
	size_t len = strnlen(text, KEEPER_NAME_MAX + 1);

	if (len == 0 || len > KEEPER_NAME_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_name_character(text[i]))
			return false;
	return true;
}

/* takeover and resumption are about writing, and exclude each other */
static bool
want_is_valid(uint8_t want)
{
	const uint8_t how = want & (KEEPER_WANT_TAKEOVER | KEEPER_WANT_RESUME);

	if (want & ~(KEEPER_WANT_WRITE | KEEPER_WANT_TAKEOVER | KEEPER_WANT_RESUME))
		return false;
	if (how == 0)
		return true;
	return (want & KEEPER_WANT_WRITE) && how != (KEEPER_WANT_TAKEOVER | KEEPER_WANT_RESUME);
}

/* a client that may write does not learn why none may */
static bool
only_reading_is_valid(uint8_t reason, bool writable)
{
	return reason == 0 ||
		(!writable &&
			(reason == KEEPER_REFUSED_READ_ONLY || reason == KEEPER_REFUSED_MEDIUM ||
				reason == KEEPER_REFUSED_FAILURE));
}

static void
begin(uint8_t *bytes, size_t len, const uint8_t magic[static MAGIC_SIZE])
{
	memset(bytes, 0, len);
	memcpy(bytes, magic, MAGIC_SIZE);
	bytes[VERSION_AT] = KEEPER_VERSION;
}

/* checks what all versions have in common, and that the fixed part of this version is there */
static enum keeper_decoded
look(const uint8_t *bytes, size_t len, const uint8_t magic[static MAGIC_SIZE], size_t fixed)
{
	if (len <= VERSION_AT || memcmp(bytes, magic, MAGIC_SIZE) != 0 || bytes[VERSION_AT] == 0)
		return KEEPER_MALFORMED;
	if (bytes[VERSION_AT] != KEEPER_VERSION)
		return KEEPER_OTHER_VERSION;
	return len >= fixed ? KEEPER_DECODED : KEEPER_MALFORMED;
}

/* true if the variable part has used bytes, at most most, and only padding follows it */
static bool
tail_fits(const uint8_t *bytes, size_t len, size_t fixed, size_t used, size_t most)
{
	return used <= most && used <= len - fixed && is_zero(bytes + fixed + used, len - fixed - used);
}

size_t
keeper_request_encode(const struct keeper_request *request, uint8_t bytes[static KEEPER_REQUEST_MAX])
{
	size_t len = strlen(request->name);

	assert(keeper_name_is_valid(request->name) && want_is_valid(request->want) && request->client != 0);
	begin(bytes, REQUEST_NAME, request_magic);
	bytes[REQUEST_WANT] = request->want;
	bytes[REQUEST_NAME_LEN] = (uint8_t)len;
	put_u64(bytes + REQUEST_CLIENT, request->client);
	memcpy(bytes + REQUEST_NAME, request->name, len);
	return REQUEST_NAME + len;
}

enum keeper_decoded
keeper_request_decode(const void *data, size_t len, struct keeper_request *request)
{
	const uint8_t *bytes = data;
	struct keeper_request found = { 0 };
	enum keeper_decoded decoded = look(bytes, len, request_magic, REQUEST_NAME);

	if (decoded != KEEPER_DECODED)
		return decoded;
	if (!tail_fits(bytes, len, REQUEST_NAME, bytes[REQUEST_NAME_LEN], KEEPER_NAME_MAX) ||
		bytes[REQUEST_RESERVED] != 0)
		return KEEPER_MALFORMED;
	found.want = bytes[REQUEST_WANT];
	found.client = get_u64(bytes + REQUEST_CLIENT);
	memcpy(found.name, bytes + REQUEST_NAME, bytes[REQUEST_NAME_LEN]);
	/* a zero inside of the name makes it shorter than it says */
	if (!want_is_valid(found.want) || found.client == 0 || !keeper_name_is_valid(found.name) ||
		strlen(found.name) != bytes[REQUEST_NAME_LEN])
		return KEEPER_MALFORMED;

	*request = found;
	return KEEPER_DECODED;
}

size_t
keeper_reply_encode(const struct keeper_reply *reply, uint8_t bytes[static KEEPER_REPLY_MAX])
{
	assert(only_reading_is_valid(reply->only_reading, reply->writable));
	assert(reply->size > 0 && reply->block_shift <= KEEPER_BLOCK_SHIFT_MAX);
	assert(reply->descriptor_size >= KEEPER_DESCRIPTOR_MIN &&
		reply->descriptor_size <= KEEPER_DESCRIPTOR_MAX);
	begin(bytes, REPLY_DESCRIPTOR, reply_magic);
	bytes[REPLY_FLAGS] =
		(uint8_t)((reply->writable ? REPLY_WRITABLE : 0) | (reply->lent ? REPLY_LENT : 0));
	bytes[REPLY_PERSISTENCE] = (uint8_t)reply->persistence;
	bytes[REPLY_BLOCK_SHIFT] = reply->block_shift;
	put_u64(bytes + REPLY_SIZE, reply->size);
	memcpy(bytes + REPLY_IDENTITY, reply->identity, KEEPER_IDENTITY_SIZE);
	bytes[REPLY_PEER_CFG] = reply->peer_cfg;
	bytes[REPLY_DESCRIPTOR_SIZE] = reply->descriptor_size;
	bytes[REPLY_ONLY_READING] = reply->only_reading;
	memcpy(bytes + REPLY_DESCRIPTOR, reply->descriptor, reply->descriptor_size);
	return REPLY_DESCRIPTOR + (size_t)reply->descriptor_size;
}

enum keeper_decoded
keeper_reply_decode(const void *data, size_t len, struct keeper_reply *reply)
{
	const uint8_t *bytes = data;
	struct keeper_reply found = { 0 };
	enum keeper_decoded decoded = look(bytes, len, reply_magic, REPLY_DESCRIPTOR);

	if (decoded != KEEPER_DECODED)
		return decoded;
	if (!tail_fits(bytes, len, REPLY_DESCRIPTOR, bytes[REPLY_DESCRIPTOR_SIZE], KEEPER_DESCRIPTOR_MAX) ||
		bytes[REPLY_DESCRIPTOR_SIZE] < KEEPER_DESCRIPTOR_MIN || bytes[REPLY_RESERVED] != 0)
		return KEEPER_MALFORMED;
	found.size = get_u64(bytes + REPLY_SIZE);
	if ((bytes[REPLY_FLAGS] & ~(REPLY_WRITABLE | REPLY_LENT)) ||
		!only_reading_is_valid(bytes[REPLY_ONLY_READING], bytes[REPLY_FLAGS] & REPLY_WRITABLE) ||
		bytes[REPLY_PERSISTENCE] > KEEPER_LINES ||
		bytes[REPLY_BLOCK_SHIFT] > KEEPER_BLOCK_SHIFT_MAX || found.size == 0 ||
		found.size > INT64_MAX)
		return KEEPER_MALFORMED;
	found.writable = bytes[REPLY_FLAGS] & REPLY_WRITABLE;
	found.lent = bytes[REPLY_FLAGS] & REPLY_LENT;
	found.only_reading = bytes[REPLY_ONLY_READING];
	found.persistence = (enum keeper_persistence)bytes[REPLY_PERSISTENCE];
	found.block_shift = bytes[REPLY_BLOCK_SHIFT];
	memcpy(found.identity, bytes + REPLY_IDENTITY, KEEPER_IDENTITY_SIZE);
	found.peer_cfg = bytes[REPLY_PEER_CFG];
	found.descriptor_size = bytes[REPLY_DESCRIPTOR_SIZE];
	memcpy(found.descriptor, bytes + REPLY_DESCRIPTOR, found.descriptor_size);

	*reply = found;
	return KEEPER_DECODED;
}

size_t
keeper_refusal_encode(const struct keeper_refusal *refusal, uint8_t bytes[static KEEPER_REFUSAL_MAX])
{
	size_t len = strnlen(refusal->sentence, KEEPER_SENTENCE_MAX);

	begin(bytes, REFUSAL_SENTENCE, refusal_magic);
	bytes[REFUSAL_REASON] = (uint8_t)refusal->reason;
	bytes[REFUSAL_SENTENCE_LEN] = (uint8_t)len;
	for (size_t i = 0; i < len; i++) {
		uint8_t c = (uint8_t)refusal->sentence[i];
		bytes[REFUSAL_SENTENCE + i] = is_printable(c) ? c : '?';
	}
	return REFUSAL_SENTENCE + len;
}

enum keeper_decoded
keeper_refusal_decode(const void *data, size_t len, struct keeper_refusal *refusal)
{
	const uint8_t *bytes = data;
	struct keeper_refusal found = { 0 };

	if (look(bytes, len, refusal_magic, 0) == KEEPER_MALFORMED || len < REFUSAL_SENTENCE ||
		!tail_fits(bytes, len, REFUSAL_SENTENCE, bytes[REFUSAL_SENTENCE_LEN], KEEPER_SENTENCE_MAX) ||
		bytes[REFUSAL_REASON] == 0 || bytes[REFUSAL_RESERVED] != 0)
		return KEEPER_MALFORMED;
	for (size_t i = 0; i < bytes[REFUSAL_SENTENCE_LEN]; i++)
		if (!is_printable(bytes[REFUSAL_SENTENCE + i]))
			return KEEPER_MALFORMED;
	/* a reason of a later version is a failure like any other; the sentence explains it */
	found.reason = bytes[REFUSAL_REASON] <= KEEPER_REASON_MAX ? (enum keeper_reason)bytes[REFUSAL_REASON]
								  : KEEPER_REFUSED_FAILURE;
	memcpy(found.sentence, bytes + REFUSAL_SENTENCE, bytes[REFUSAL_SENTENCE_LEN]);

	*refusal = found;
	return KEEPER_DECODED;
}
