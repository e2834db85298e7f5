/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_datagram_header.c -- the bytes of unreliable datagrams: every field, every refusal, the check sum */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "softrdma/bounds.h"
#include "softrdma/wire/crc.h"
#include "softrdma/wire/datagram_header.h"

#define HEADER SOFTRDMA_DATAGRAM_HEADER

static union ibv_gid
gid_from(uint8_t first)
{
	union ibv_gid gid = { .raw = { 0 } };
	for (uint8_t i = 0; i < sizeof(gid.raw); i++)
		gid.raw[i] = (uint8_t)(first + i);
	return gid;
}

/* a datagram whose fields all differ */
static struct softrdma_datagram
example(void)
{
	struct softrdma_datagram datagram = {
		.has_imm = true,
		.solicited = false,
		.summed = true,
		.length = 0x0203,
		.to_qp = 0x040506,
		.from_qp = 0x070809,
		.qkey = 0x0a0b0c0d,
		.flow_label = 0xe0f10,
		.traffic_class = 0x11,
		.hop_limit = 0x12,
		.from = gid_from(0x20),
		.to = gid_from(0x40),
		.sum = 0x13141516,
	};
	memcpy(&datagram.imm, "\x17\x18\x19\x1a", 4);
	return datagram;
}

static const uint8_t example_bytes[HEADER] = {
	'S', 'R', 'U', 'D', 1, 5, 0x03, 0x02,           /* magic, version, flags, length */
	0x06, 0x05, 0x04, 0, 0x09, 0x08, 0x07, 0,       /* queue pairs: to, from */
	0x0d, 0x0c, 0x0b, 0x0a, 0x17, 0x18, 0x19, 0x1a, /* Q_Key, immediate data as they are */
	0x11, 0x12, 0, 0, 0x10, 0x0f, 0x0e, 0,          /* class, hops, zero, flow label */
	0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, /* from */
	0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e, 0x2f, /* from */
	0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, /* to */
	0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f, /* to */
	0x16, 0x15, 0x14, 0x13,                         /* sum */
};

static void
expect_equal(const struct softrdma_datagram *a, const struct softrdma_datagram *b)
{
	assert_int_equal(a->has_imm, b->has_imm);
	assert_int_equal(a->solicited, b->solicited);
	assert_int_equal(a->summed, b->summed);
	assert_int_equal(a->length, b->length);
	assert_int_equal(a->to_qp, b->to_qp);
	assert_int_equal(a->from_qp, b->from_qp);
	assert_int_equal(a->qkey, b->qkey);
	assert_int_equal(a->imm, b->imm);
	assert_int_equal(a->flow_label, b->flow_label);
	assert_int_equal(a->traffic_class, b->traffic_class);
	assert_int_equal(a->hop_limit, b->hop_limit);
	assert_memory_equal(&a->from, &b->from, sizeof(a->from));
	assert_memory_equal(&a->to, &b->to, sizeof(a->to));
	assert_int_equal(a->sum, b->sum);
}

/* encodes it into memory of exactly its size, and decodes that */
static void
expect_round_trip(const struct softrdma_datagram *datagram)
{
	const size_t size = HEADER + (size_t)datagram->length;
	uint8_t *bytes = calloc(1, size);
	struct softrdma_datagram got;
	assert_non_null(bytes);
	memset(&got, 0xaa, sizeof(got));
	softrdma_datagram_encode(datagram, bytes);
	assert_true(softrdma_datagram_decode(bytes, size, &got));
	expect_equal(&got, datagram);
	free(bytes);
}

static void
test_bytes(void **state)
{
	(void)state;
	const struct softrdma_datagram datagram = example();
	uint8_t header[HEADER];
	memset(header, 0xff, sizeof(header)); /* every byte is written */
	softrdma_datagram_encode(&datagram, header);
	assert_memory_equal(header, example_bytes, HEADER);
}

/* each field with its smallest and its largest value, the others as in the example */
static void
test_round_trips(void **state)
{
	(void)state;
	struct softrdma_datagram datagram = example();
	expect_round_trip(&datagram);
#define BOTH(field, low, high) \
	do { \
		datagram = example(); \
		datagram.field = low; \
		expect_round_trip(&datagram); \
		datagram.field = high; \
		expect_round_trip(&datagram); \
	} while (0)
	BOTH(length, 0, SOFTRDMA_DATAGRAM_MAX);
	BOTH(to_qp, 0, 0xffffff);
	BOTH(from_qp, 0, 0xffffff);
	BOTH(qkey, 0, 0xffffffff);
	BOTH(imm, 0, 0xffffffff);
	BOTH(flow_label, 0, 0xfffff);
	BOTH(traffic_class, 0, 0xff);
	BOTH(hop_limit, 0, 0xff);
	BOTH(sum, 0, 0xffffffff);
	BOTH(from.raw[0], 0, 0xff);
	BOTH(from.raw[15], 0, 0xff);
	BOTH(to.raw[0], 0, 0xff);
	BOTH(to.raw[15], 0, 0xff);
	for (int flags = 0; flags < 8; flags++) {
		datagram = example();
		datagram.has_imm = flags & 1;
		datagram.solicited = flags & 2;
		datagram.summed = flags & 4;
		datagram.imm = datagram.has_imm ? 1 : 0;
		datagram.sum = datagram.summed ? 1 : 0;
		expect_round_trip(&datagram);
	}
}

/* the example's bytes with one byte replaced; the size is right */
static bool
decodes_with(size_t at, uint8_t value)
{
	static uint8_t bytes[HEADER + 0x0203];
	struct softrdma_datagram datagram;
	memcpy(bytes, example_bytes, HEADER);
	bytes[at] = value;
	return softrdma_datagram_decode(bytes, sizeof(bytes), &datagram);
}

static void
test_refusals(void **state)
{
	(void)state;
	assert_true(decodes_with(0, 'S'));
	for (size_t at = 0; at < 4; at++)
		assert_false(decodes_with(at, 'x'));
	assert_false(decodes_with(4, 0));
	assert_false(decodes_with(4, 2));
	for (int bit = 3; bit < 8; bit++)
		assert_false(decodes_with(5, (uint8_t)(5 | 1 << bit)));
	assert_true(decodes_with(5, 7));
	assert_false(decodes_with(5, 4)); /* immediate data, but no flag */
	assert_false(decodes_with(5, 1)); /* a sum, but no flag */
	assert_false(decodes_with(6, 0x02));
	assert_false(decodes_with(6, 0x04));
	assert_false(decodes_with(7, 0x12));
	assert_false(decodes_with(11, 1)); /* 25 bits */
	assert_false(decodes_with(15, 0x80));
	assert_false(decodes_with(26, 1));
	assert_false(decodes_with(27, 0x80));
	assert_false(decodes_with(30, 0x1e)); /* 21 bits */
	assert_false(decodes_with(31, 1));
	assert_true(decodes_with(30, 0x0f));
}

/* in memory of exactly this size, so that a sanitizer sees a byte too many */
static bool
decodes_of_size(size_t size, uint16_t length)
{
	struct softrdma_datagram datagram = example();
	uint8_t header[HEADER];
	datagram.length = length;
	softrdma_datagram_encode(&datagram, header);
	uint8_t *bytes = calloc(1, size ? size : 1);
	assert_non_null(bytes);
	memcpy(bytes, header, size < HEADER ? size : HEADER);
	const bool good = softrdma_datagram_decode(bytes, size, &datagram);
	free(bytes);
	return good;
}

static void
test_sizes(void **state)
{
	(void)state;
	for (size_t size = 0; size < HEADER; size++)
		assert_false(decodes_of_size(size, 0));
	assert_true(decodes_of_size(HEADER, 0));
	assert_false(decodes_of_size(HEADER, 1));
	assert_false(decodes_of_size(HEADER, UINT16_MAX));
	assert_false(decodes_of_size(HEADER + 1, 0));
	assert_true(decodes_of_size(HEADER + 1, 1));
	assert_true(decodes_of_size(HEADER + SOFTRDMA_DATAGRAM_MAX, SOFTRDMA_DATAGRAM_MAX));
	assert_false(decodes_of_size(HEADER + SOFTRDMA_DATAGRAM_MAX + 1, SOFTRDMA_DATAGRAM_MAX + 1));
	/* a length that differs by 2^16 */
	assert_false(decodes_of_size(HEADER + 0x10000, 0));
}

/* the sum is that of the header with 0 in its place, whatever is there; and nothing but its place changes when it is set */
static void
test_sum(void **state)
{
	(void)state;
	uint8_t header[HEADER], zeroed[HEADER];
	memcpy(header, example_bytes, HEADER);
	memcpy(zeroed, example_bytes, HEADER);
	memset(zeroed + 64, 0, 4);
	const uint32_t sum = softrdma_crc32c(0, zeroed, HEADER);
	assert_int_equal(softrdma_datagram_begin_sum(header), sum);
	assert_int_equal(softrdma_datagram_begin_sum(zeroed), sum);
	softrdma_datagram_set_sum(header, 0xa1b2c3d4);
	assert_memory_equal(header, example_bytes, 64);
	assert_memory_equal(header + 64, "\xd4\xc3\xb2\xa1", 4);
	for (size_t at = 0; at < 64; at++) {
		zeroed[at] ^= 0x10;
		assert_int_not_equal(softrdma_datagram_begin_sum(zeroed), sum);
		zeroed[at] ^= 0x10;
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_round_trips),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_sum),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
