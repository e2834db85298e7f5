/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_private_data.c -- copies of private data */

#include "mock.h"
#include "private_data.h"

static void
copies(void **state)
{
	(void)state;
	uint8_t bytes[255];
	for (int len = 0; len <= 255; len++) {
		struct rpma_conn_private_data pdata = { bytes, 9 };
		memset(bytes, len, sizeof(bytes));
		assert_ok(rpmai_private_data_copy(bytes, (uint8_t)len, &pdata));
		assert_int_equal(pdata.len, len);
		assert_int_equal(pdata.ptr == NULL, len == 0);
		assert_ptr_not_equal(pdata.ptr, bytes);
		if (len)
			assert_memory_equal(pdata.ptr, bytes, (size_t)len);
		rpmai_private_data_free(&pdata);
		assert_null(pdata.ptr);
		assert_int_equal(pdata.len, 0);
	}
}

static void
nothing(void **state)
{
	(void)state;
	struct rpma_conn_private_data pdata = { NULL, 9 };
	assert_ok(rpmai_private_data_copy(NULL, 5, &pdata));
	assert_null(pdata.ptr);
	assert_int_equal(pdata.len, 0);
}

static void
no_memory(void **state)
{
	(void)state;
	struct rpma_conn_private_data pdata = { NULL, 0 };
	mock.malloc_skip = 0;
	assert_fails(RPMA_E_NOMEM, rpmai_private_data_copy("x", 1, &pdata));
	assert_null(pdata.ptr);
}

/* ---- the length at the end of a buffer that is always sent whole ---- */

static const uint8_t limits[] = { 1, 5, 6, 7, 56, 148, 196, 255 };

/* checks what the other side gets out of a buffer */
static void
assert_copied(const uint8_t *buf, uint8_t len, const uint8_t *expected, uint8_t expected_len)
{
	struct rpma_conn_private_data pdata = { NULL, 9 };
	assert_ok(rpmai_private_data_copy(buf, len, &pdata));
	assert_int_equal(pdata.len, expected_len);
	assert_int_equal(pdata.ptr == NULL, expected_len == 0);
	if (expected_len)
		assert_memory_equal(pdata.ptr, expected, expected_len);
	rpmai_private_data_free(&pdata);
}

/* every length: exact if the trailer fits, otherwise padded with zeros; the data is never moved */
static void
each_length_travels(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(limits); i++) {
		const uint8_t max = limits[i];
		for (int len = 0; len <= max; len++) {
			uint8_t bytes[255], buf[255], wire[255] = { 0 };
			for (int b = 0; b < 255; b++)
				bytes[b] = (uint8_t)(b * 7 + len + 1);
			memset(buf, 0xEE, sizeof(buf));
			const struct rpma_conn_private_data pdata = { bytes, (uint8_t)len };
			const bool fits = len + PRIVATE_DATA_TRAILER <= max;
			const uint8_t sent = rpmai_private_data_pad(len ? &pdata : NULL, buf, max);
			assert_int_equal(sent, fits ? max : len);
			assert_memory_equal(buf, bytes, (size_t)len);
			for (int b = sent; b < 255; b++)
				assert_int_equal(buf[b], 0xEE); /* nothing is written after it */

			/* the device pads it */
			memcpy(wire, buf, sent);
			memcpy(bytes + len, (const uint8_t[6]){ 0 }, len <= 249 ? 6 : (size_t)(255 - len));
			assert_copied(wire, max, bytes, fits ? (uint8_t)len : max);
			if (!fits)
				assert_copied(buf, sent, bytes, sent); /* over a device that does not pad */

			/*
			 * a receiver that does not know the trailer finds zeros after the data, and then the
			 * trailer
			 */
			if (fits)
				for (int b = len; b < max - PRIVATE_DATA_TRAILER; b++)
					assert_int_equal(buf[b], 0);
		}
	}
}

/* data that ends in zeros, or in bytes that look like a trailer, arrives unchanged */
static void
bytes_that_mislead(void **state)
{
	(void)state;
	uint8_t bytes[50] = { 1 }, buf[56];
	struct rpma_conn_private_data pdata = { bytes, sizeof(bytes) };
	assert_int_equal(rpmai_private_data_pad(&pdata, buf, 56), 56);
	assert_copied(buf, 56, bytes, 50);
	pdata.len = 20;
	assert_int_equal(rpmai_private_data_pad(&pdata, buf, 56), 56);
	assert_copied(buf, 56, bytes, 20);

	/* the data is a whole padded buffer */
	uint8_t inner[50], outer[56];
	pdata = (struct rpma_conn_private_data){ bytes, 3 };
	assert_int_equal(rpmai_private_data_pad(&pdata, inner, 50), 50);
	pdata = (struct rpma_conn_private_data){ inner, 50 };
	assert_int_equal(rpmai_private_data_pad(&pdata, outer, 56), 56);
	assert_copied(outer, 56, inner, 50);
}

/* bytes that are not consistent are no trailer, and nothing is cut off */
static void
false_trailers(void **state)
{
	(void)state;
	uint8_t bytes[10], good[56], bad[56];
	memset(bytes, 0x5A, sizeof(bytes));
	const struct rpma_conn_private_data pdata = { bytes, sizeof(bytes) };
	assert_int_equal(rpmai_private_data_pad(&pdata, good, 56), 56);
	assert_copied(good, 56, bytes, 10);

	/* any bit of the trailer, any byte in between */
	for (int bit = 8 * 10; bit < 8 * 56; bit++) {
		memcpy(bad, good, sizeof(bad));
		bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_copied(bad, 56, bad, 56);
	}
	/* a length that matches its inverse, but not the rest */
	for (int told = 0; told < 256; told++) {
		memcpy(bad, good, sizeof(bad));
		bad[54] = (uint8_t)told;
		bad[55] = (uint8_t)~told;
		/* a smaller length cuts the user's bytes; one that is too large is no trailer */
		const bool fits = told >= 10 && told <= 50;
		assert_copied(bad, 56, bad, fits ? (uint8_t)told : 56);
	}
	/* one byte too few */
	assert_copied(good, 55, good, 55);
	for (uint8_t len = 1; len < PRIVATE_DATA_TRAILER; len++)
		assert_copied(good + 50, len, good + 50, len);
	assert_copied(good + 51, 5, good + 51, 5);
}

/* only the trailer, as a sender without data sends it */
static void
nothing_is_nothing(void **state)
{
	(void)state;
	uint8_t buf[255];
	for (size_t i = 0; i < sizeof(limits); i++) {
		const uint8_t sent = rpmai_private_data_pad(NULL, buf, limits[i]);
		assert_int_equal(sent, limits[i] >= PRIVATE_DATA_TRAILER ? limits[i] : 0);
		assert_copied(buf, sent, NULL, 0);
	}
	mock.malloc_skip = 0; /* not even an allocation */
	rpmai_private_data_pad(NULL, buf, 56);
	assert_copied(buf, 56, NULL, 0);
	assert_int_equal(mock.malloc_skip, 0);
}

/* data of the original: no trailer, but zeros up to the limit, which may belong to the data */
static void
data_of_the_original(void **state)
{
	(void)state;
	uint8_t buf[56] = { 'a', 'b', 'c' };
	assert_copied(buf, 56, buf, 56);
	assert_copied(buf, 3, buf, 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(copies),
		rpma_test(nothing),
		rpma_test(no_memory),
		rpma_test(each_length_travels),
		rpma_test(bytes_that_mislead),
		rpma_test(false_trailers),
		rpma_test(nothing_is_nothing),
		rpma_test(data_of_the_original),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
