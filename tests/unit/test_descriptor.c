/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_descriptor.c -- the codec of descriptors */

#include <stdlib.h>

#include "descriptor.h"
#include "mock.h"

static const struct mr_descriptor example = {
	.raddr = 0x0102030405060708,
	.size = 0x1112131415161718,
	.rkey = 0x21222324,
	.usage = 0x31,
	.has_caps = true,
	.caps = 0x5,
};

static const uint8_t example_bytes[MR_DESCRIPTOR_SIZE] = { 8, 7, 6, 5, 4, 3, 2, 1, 0x18, 0x17, 0x16, 0x15,
	0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21, 0x31, 0xA5 };

static void
bytes_are_as_specified(void **state)
{
	(void)state;
	uint8_t desc[MR_DESCRIPTOR_SIZE];
	rpmai_mr_descriptor_encode(&example, desc);
	assert_memory_equal(desc, example_bytes, sizeof(desc));
}

static void
what_was_encoded_is_decoded(void **state)
{
	(void)state;
	struct mr_descriptor got;
	memset(&got, 0, sizeof(got));
	assert_true(rpmai_mr_descriptor_decode(example_bytes, sizeof(example_bytes), &got));
	assert_true(got.raddr == example.raddr && got.size == example.size && got.rkey == example.rkey);
	assert_true(got.usage == example.usage && got.has_caps && got.caps == example.caps);
}

static void
every_length(void **state)
{
	(void)state;
	for (size_t len = 0; len <= 24; len++) {
		uint8_t *desc = calloc(1, len ? len : 1); /* exact size, for the address sanitizer */
		for (size_t i = 0; i < len; i++)
			desc[i] = i < sizeof(example_bytes) ? example_bytes[i] : 0;
		struct mr_descriptor got = { .usage = 0xEE };
		assert_int_equal(rpmai_mr_descriptor_decode(desc, len, &got), len >= MR_DESCRIPTOR_SIZE_MIN);
		if (len < MR_DESCRIPTOR_SIZE_MIN)
			assert_int_equal(got.usage, 0xEE);
		else
			assert_int_equal(got.has_caps, len >= MR_DESCRIPTOR_SIZE);
		free(desc);
	}
}

static void
every_tail(void **state)
{
	(void)state;
	for (int tail = 0; tail < 256; tail++) {
		uint8_t desc[MR_DESCRIPTOR_SIZE];
		struct mr_descriptor got;
		memcpy(desc, example_bytes, sizeof(desc));
		desc[MR_DESCRIPTOR_SIZE - 1] = (uint8_t)tail;
		assert_true(rpmai_mr_descriptor_decode(desc, sizeof(desc), &got));
		assert_int_equal(got.has_caps, (tail & 0xF0) == 0xA0);
		assert_int_equal(got.caps, (tail & 0xF0) == 0xA0 ? tail & 0x0F : 0);
	}
}

static void
what_cannot_be_is_refused(void **state)
{
	(void)state;
	static const struct {
		uint64_t raddr;
		uint64_t size;
		uint8_t usage;
		bool ok;
	} table[] = {
		{ 0x1000, 0x1000, 1, true },
		{ 0x1000, 0x1000, 0, false },
		{ 0x1000, 0, 1, false },
		{ UINT64_MAX, 1, 1, true },
		{ UINT64_MAX, 2, 1, false },
		{ UINT64_MAX - 0xFFF, 0x1000, 1, true },
		{ UINT64_MAX - 0xFFF, 0x1001, 1, false },
		{ 1, UINT64_MAX, 1, true },
		{ 2, UINT64_MAX, 1, false },
		{ 0, UINT64_MAX, 0xFF, true },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct mr_descriptor md = example, got;
		uint8_t desc[MR_DESCRIPTOR_SIZE];
		md.raddr = table[i].raddr;
		md.size = table[i].size;
		md.usage = table[i].usage;
		rpmai_mr_descriptor_encode(&md, desc);
		assert_int_equal(rpmai_mr_descriptor_decode(desc, sizeof(desc), &got), table[i].ok);
	}
}

static void
peer_cfg(void **state)
{
	(void)state;
	uint8_t desc[PEER_CFG_DESCRIPTOR_SIZE];
	bool direct = false;
	rpmai_peer_cfg_descriptor_encode(true, desc);
	assert_int_equal(desc[0], 1);
	assert_true(rpmai_peer_cfg_descriptor_decode(desc, 1, &direct));
	assert_true(direct);
	rpmai_peer_cfg_descriptor_encode(false, desc);
	assert_int_equal(desc[0], 0);
	assert_true(rpmai_peer_cfg_descriptor_decode(desc, 1, &direct));
	assert_false(direct);
	assert_false(rpmai_peer_cfg_descriptor_decode(desc, 0, &direct));
	desc[0] = 0x80;
	assert_true(rpmai_peer_cfg_descriptor_decode(desc, 7, &direct));
	assert_true(direct);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_as_specified),
		cmocka_unit_test(what_was_encoded_is_decoded),
		cmocka_unit_test(every_length),
		cmocka_unit_test(every_tail),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(peer_cfg),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
