/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* keeper.c -- what a client and rpma-keeper tell each other, as it arrives from another machine */

#include <string.h>

#include "fuzz.h"
#include "keeper/protocol.h"

static bool
all_zero(const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i])
			return false;
	return true;
}

/* true if a decoder that fails has left its output alone, byte by byte */
static bool
is_untouched(const void *output, const void *before, size_t size)
{
	return memcmp(output, before, size) == 0;
}

/* encoding what was decoded gives the same bytes again, and what follows them is padding */
static void
check_same(const uint8_t *data, size_t size, const uint8_t *again, size_t len)
{
	FUZZ_CHECK(len <= size && memcmp(data, again, len) == 0);
	FUZZ_CHECK(all_zero(data + len, size - len));
}

static void
check_request(const uint8_t *data, size_t size)
{
	struct keeper_request request, before;
	uint8_t again[KEEPER_REQUEST_MAX];

	memset(&request, 0x77, sizeof(request));
	before = request;
	if (keeper_request_decode(data, size, &request) != KEEPER_DECODED) {
		FUZZ_CHECK(is_untouched(&request, &before, sizeof(before)));
		return;
	}
	FUZZ_CHECK(keeper_name_is_valid(request.name) && request.client != 0);
	FUZZ_CHECK(memchr(request.name, '\0', sizeof(request.name)) != NULL);
	check_same(data, size, again, keeper_request_encode(&request, again));
}

static void
check_reply(const uint8_t *data, size_t size)
{
	struct keeper_reply reply, before;
	uint8_t again[KEEPER_REPLY_MAX];

	memset(&reply, 0, sizeof(reply));
	before = reply;
	if (keeper_reply_decode(data, size, &reply) != KEEPER_DECODED) {
		FUZZ_CHECK(is_untouched(&reply, &before, sizeof(before)));
		return;
	}
	FUZZ_CHECK(reply.size > 0 && reply.size <= INT64_MAX && reply.block_shift <= KEEPER_BLOCK_SHIFT_MAX);
	FUZZ_CHECK(reply.persistence <= KEEPER_LINES);
	FUZZ_CHECK(reply.descriptor_size >= KEEPER_DESCRIPTOR_MIN &&
		reply.descriptor_size <= sizeof(reply.descriptor));
	check_same(data, size, again, keeper_reply_encode(&reply, again));
}

static void
check_refusal(const uint8_t *data, size_t size)
{
	struct keeper_refusal refusal, before, decoded;
	uint8_t again[KEEPER_REFUSAL_MAX];

	memset(&refusal, 0, sizeof(refusal));
	before = refusal;
	if (keeper_refusal_decode(data, size, &refusal) != KEEPER_DECODED) {
		FUZZ_CHECK(is_untouched(&refusal, &before, sizeof(before)));
		return;
	}
	FUZZ_CHECK(refusal.reason >= 1 && refusal.reason <= KEEPER_REASON_MAX);
	FUZZ_CHECK(memchr(refusal.sentence, '\0', sizeof(refusal.sentence)) != NULL);
	for (const char *c = refusal.sentence; *c; c++)
		FUZZ_CHECK(*c >= ' ' && *c <= '~');
	/* of a later version, only what this one has is encoded again */
	const size_t len = keeper_refusal_encode(&refusal, again);
	FUZZ_CHECK(keeper_refusal_decode(again, len, &decoded) == KEEPER_DECODED);
	FUZZ_CHECK(decoded.reason == refusal.reason && strcmp(decoded.sentence, refusal.sentence) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_request(data, size);
	check_reply(data, size);
	check_refusal(data, size);
	return 0;
}
