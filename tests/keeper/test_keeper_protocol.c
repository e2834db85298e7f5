/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_keeper_protocol.c -- requests, replies and refusals of rpma-keeper, byte by byte */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "keeper/protocol.h"

static const struct keeper_request request = {
	.want = KEEPER_WANT_WRITE | KEEPER_WANT_RESUME,
	.client = UINT64_C(0x0123456789abcdef),
	.name = "disk0",
};

static const uint8_t request_bytes[] = { 'R', 'P', 'K', 'Q', 1, 5, 5, 0, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45,
	0x23, 0x01, 'd', 'i', 's', 'k', '0' };

static void
encodes_request(void **state)
{
	(void)state;
	uint8_t bytes[KEEPER_REQUEST_MAX];
	assert_int_equal(keeper_request_encode(&request, bytes), sizeof(request_bytes));
	assert_memory_equal(bytes, request_bytes, sizeof(request_bytes));
}

static void
decodes_request(void **state)
{
	(void)state;
	struct keeper_request found = { 0 };
	assert_int_equal(keeper_request_decode(request_bytes, sizeof(request_bytes), &found), KEEPER_DECODED);
	assert_memory_equal(&found, &request, sizeof(found));
}

/* every shorter form is refused, and padding by zeros is not */
static void
cut_and_padded_requests(void **state)
{
	(void)state;
	struct keeper_request found = { 0 };
	uint8_t padded[56] = { 0 };
	for (size_t len = 0; len < sizeof(request_bytes); len++)
		assert_int_equal(keeper_request_decode(request_bytes, len, &found), KEEPER_MALFORMED);
	assert_int_equal(keeper_request_decode(NULL, 0, &found), KEEPER_MALFORMED);
	assert_int_equal(found.client, 0);
	memcpy(padded, request_bytes, sizeof(request_bytes));
	for (size_t len = sizeof(request_bytes); len <= sizeof(padded); len++)
		assert_int_equal(keeper_request_decode(padded, len, &found), KEEPER_DECODED);
	padded[sizeof(padded) - 1] = 1;
	assert_int_equal(keeper_request_decode(padded, sizeof(padded), &found), KEEPER_MALFORMED);
}

/* one byte of a request or reply, changed, and what the decoder says then */
struct change {
	size_t at;
	uint8_t value;
	enum keeper_decoded result;
};

static void
changed_requests(void **state)
{
	(void)state;
	static const struct change changes[] = {
		{ 0, 'r', KEEPER_MALFORMED },
		{ 3, 'A', KEEPER_MALFORMED },
		{ 4, 0, KEEPER_MALFORMED },
		{ 4, 2, KEEPER_OTHER_VERSION },
		{ 4, 255, KEEPER_OTHER_VERSION },
		{ 5, 0, KEEPER_DECODED },
		{ 5, 1, KEEPER_DECODED },
		{ 5, 2, KEEPER_MALFORMED }, /* takeover without write */
		{ 5, 3, KEEPER_DECODED },
		{ 5, 4, KEEPER_MALFORMED }, /* resume without write */
		{ 5, 7, KEEPER_MALFORMED }, /* both */
		{ 5, 9, KEEPER_MALFORMED }, /* unknown */
		{ 6, 0, KEEPER_MALFORMED }, /* no name, and bytes after it */
		{ 6, 4, KEEPER_MALFORMED },
		{ 6, 6, KEEPER_MALFORMED }, /* longer than what is there */
		{ 6, 255, KEEPER_MALFORMED },
		{ 7, 1, KEEPER_MALFORMED },
		{ 16, '/', KEEPER_MALFORMED },
		{ 17, 0, KEEPER_MALFORMED },
		{ 20, ' ', KEEPER_MALFORMED },
		{ 20, 0xff, KEEPER_MALFORMED },
		{ 20, '-', KEEPER_DECODED },
	};
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct keeper_request found;
		uint8_t bytes[sizeof(request_bytes)];
		memcpy(bytes, request_bytes, sizeof(bytes));
		bytes[changes[i].at] = changes[i].value;
		assert_int_equal(keeper_request_decode(bytes, sizeof(bytes), &found), changes[i].result);
	}
}

static void
no_client(void **state)
{
	(void)state;
	struct keeper_request found;
	uint8_t bytes[sizeof(request_bytes)];
	memcpy(bytes, request_bytes, sizeof(bytes));
	memset(bytes + 8, 0, 8);
	assert_int_equal(keeper_request_decode(bytes, sizeof(bytes), &found), KEEPER_MALFORMED);
}

static void
names(void **state)
{
	(void)state;
	assert_true(keeper_name_is_valid("a"));
	assert_true(keeper_name_is_valid("ABCxyz019._-"));
	assert_true(keeper_name_is_valid("12345678901234567890123456789012"));
	assert_false(keeper_name_is_valid(""));
	assert_false(keeper_name_is_valid("123456789012345678901234567890123"));
	assert_false(keeper_name_is_valid("a/b"));
	assert_false(keeper_name_is_valid("a\nb"));
	assert_false(keeper_name_is_valid("\xc3\xa4"));
}

/* the longest name fits into what hardware leaves for a request */
static void
longest_request(void **state)
{
	(void)state;
	struct keeper_request longest = request, found;
	uint8_t bytes[KEEPER_REQUEST_MAX];
	memset(longest.name, 'n', KEEPER_NAME_MAX);
	assert_int_equal(keeper_request_encode(&longest, bytes), KEEPER_REQUEST_MAX);
	assert_true(KEEPER_REQUEST_MAX <= 50 && KEEPER_REPLY_MAX <= 190 && KEEPER_REFUSAL_MAX <= 142);
	assert_int_equal(keeper_request_decode(bytes, sizeof(bytes), &found), KEEPER_DECODED);
	assert_string_equal(found.name, longest.name);
}

/* --- replies --- */

static void
fill_reply(struct keeper_reply *reply)
{
	*reply = (struct keeper_reply){
		.writable = true,
		.persistence = KEEPER_PAGES,
		.block_shift = 12,
		.peer_cfg = 1,
		.size = UINT64_C(0x0000000280000000),
		.descriptor_size = 22,
	};
	memset(reply->identity, 0xa5, sizeof(reply->identity));
	memset(reply->descriptor, 0x5a, reply->descriptor_size);
}

static void
replies(void **state)
{
	(void)state;
	struct keeper_reply reply, found;
	uint8_t bytes[KEEPER_REPLY_MAX + 1] = { 0 };
	static const uint8_t head[] = { 'R', 'P', 'K', 'A', 1, 1, 1, 12, 0, 0, 0, 0x80, 2, 0, 0, 0 };
	fill_reply(&reply);
	assert_int_equal(keeper_reply_encode(&reply, bytes), 36 + 22);
	assert_memory_equal(bytes, head, sizeof(head));
	memset(&found, 0, sizeof(found));
	assert_int_equal(keeper_reply_decode(bytes, 36 + 22, &found), KEEPER_DECODED);
	assert_int_equal(found.size, reply.size);
	assert_true(found.writable && !found.lent && !found.only_reading);
	assert_int_equal(found.persistence, KEEPER_PAGES);
	assert_int_equal(found.block_shift, 12);
	assert_int_equal(found.peer_cfg, 1);
	assert_int_equal(found.descriptor_size, 22);
	assert_memory_equal(found.identity, reply.identity, sizeof(reply.identity));
	assert_memory_equal(found.descriptor, reply.descriptor, sizeof(reply.descriptor));
	for (size_t len = 0; len < 36 + 22; len++)
		assert_int_equal(keeper_reply_decode(bytes, len, &found), KEEPER_MALFORMED);
	assert_int_equal(keeper_reply_decode(bytes, sizeof(bytes), &found), KEEPER_DECODED);
}

static void
changed_replies(void **state)
{
	(void)state;
	static const struct change changes[] = {
		{ 2, 'Q', KEEPER_MALFORMED },
		{ 4, 3, KEEPER_OTHER_VERSION },
		{ 5, 2, KEEPER_DECODED },
		{ 5, 4, KEEPER_MALFORMED },
		{ 6, 2, KEEPER_DECODED },
		{ 6, 3, KEEPER_MALFORMED },
		{ 7, 21, KEEPER_DECODED },
		{ 7, 22, KEEPER_MALFORMED },
		{ 15, 0x80, KEEPER_MALFORMED }, /* a size above 2^63 - 1 */
		{ 33, 20, KEEPER_MALFORMED },
		{ 33, 23, KEEPER_MALFORMED },
		{ 33, 65, KEEPER_MALFORMED },
		{ 33, 255, KEEPER_MALFORMED },
		{ 34, 1, KEEPER_MALFORMED },
		{ 34, 4, KEEPER_MALFORMED },
		{ 35, 1, KEEPER_MALFORMED },
	};
	struct keeper_reply reply;
	uint8_t good[KEEPER_REPLY_MAX];
	fill_reply(&reply);
	const size_t len = keeper_reply_encode(&reply, good);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct keeper_reply found;
		uint8_t bytes[KEEPER_REPLY_MAX];
		memcpy(bytes, good, len);
		bytes[changes[i].at] = changes[i].value;
		assert_int_equal(keeper_reply_decode(bytes, len, &found), changes[i].result);
	}
	/* why no client may write, said to one that may not: to one that may, it is malformed (above) */
	good[5] = 2;
	for (int reason = 0; reason <= KEEPER_REASON_MAX + 1; reason++) {
		const bool is_reason = reason == KEEPER_REFUSED_READ_ONLY ||
			reason == KEEPER_REFUSED_MEDIUM || reason == KEEPER_REFUSED_FAILURE;
		good[34] = (uint8_t)reason;
		assert_int_equal(keeper_reply_decode(good, len, &reply),
			reason == 0 || is_reason ? KEEPER_DECODED : KEEPER_MALFORMED);
	}
	good[34] = 0;
	memset(good + 8, 0, 8); /* no size */
	assert_int_equal(keeper_reply_decode(good, len, &reply), KEEPER_MALFORMED);
}

/* --- refusals --- */

static void
refusals(void **state)
{
	(void)state;
	const struct keeper_refusal refusal = { .reason = KEEPER_REFUSED_BUSY, .sentence = "one\ntwo\x7f" };
	struct keeper_refusal found;
	uint8_t bytes[KEEPER_REFUSAL_MAX];
	const size_t len = keeper_refusal_encode(&refusal, bytes);
	assert_int_equal(len, 8 + 8);
	assert_int_equal(keeper_refusal_decode(bytes, len, &found), KEEPER_DECODED);
	assert_int_equal(found.reason, KEEPER_REFUSED_BUSY);
	assert_string_equal(found.sentence, "one?two?");
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(keeper_refusal_decode(bytes, cut, &found), KEEPER_MALFORMED);

	bytes[4] = 9; /* a later version is understood, and a later reason is a failure */
	bytes[5] = 200;
	assert_int_equal(keeper_refusal_decode(bytes, len, &found), KEEPER_DECODED);
	assert_int_equal(found.reason, KEEPER_REFUSED_FAILURE);
	bytes[10] = '\n'; /* would go into a log */
	assert_int_equal(keeper_refusal_decode(bytes, len, &found), KEEPER_MALFORMED);
	bytes[10] = ' ';
	bytes[5] = 0;
	assert_int_equal(keeper_refusal_decode(bytes, len, &found), KEEPER_MALFORMED);
}

static void
longest_refusal(void **state)
{
	(void)state;
	struct keeper_refusal refusal = { .reason = KEEPER_REFUSED_FULL }, found;
	uint8_t bytes[KEEPER_REFUSAL_MAX];
	memset(refusal.sentence, 's', KEEPER_SENTENCE_MAX);
	assert_int_equal(keeper_refusal_encode(&refusal, bytes), KEEPER_REFUSAL_MAX);
	assert_int_equal(keeper_refusal_decode(bytes, sizeof(bytes), &found), KEEPER_DECODED);
	assert_string_equal(found.sentence, refusal.sentence);
	bytes[6] = KEEPER_SENTENCE_MAX + 1;
	assert_int_equal(keeper_refusal_decode(bytes, sizeof(bytes), &found), KEEPER_MALFORMED);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(encodes_request),
		cmocka_unit_test(decodes_request),
		cmocka_unit_test(cut_and_padded_requests),
		cmocka_unit_test(changed_requests),
		cmocka_unit_test(no_client),
		cmocka_unit_test(names),
		cmocka_unit_test(longest_request),
		cmocka_unit_test(replies),
		cmocka_unit_test(changed_replies),
		cmocka_unit_test(refusals),
		cmocka_unit_test(longest_refusal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
