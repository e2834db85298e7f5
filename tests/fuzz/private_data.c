/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* private_data.c -- private data with and without a trailer that holds its length */

#include <string.h>

#include <librpma.h>

#include "fuzz.h"
#include "private_data.h"

/* private data as the connection manager delivers it */
static void
check_arrived(const uint8_t *data, uint8_t len)
{
	struct rpma_conn_private_data pdata;
	uint8_t again[UINT8_MAX];

	FUZZ_CHECK(rpmai_private_data_copy(data, len, &pdata) == 0);
	FUZZ_CHECK(pdata.len <= len && (pdata.len == 0) == (pdata.ptr == NULL));
	FUZZ_CHECK(pdata.len == 0 || memcmp(pdata.ptr, data, pdata.len) == 0);
	if (pdata.len < len) {
		/* it is shorter because of a trailer, so padding it gives the same bytes again */
		FUZZ_CHECK(len - pdata.len >= PRIVATE_DATA_TRAILER);
		FUZZ_CHECK(rpmai_private_data_pad(&pdata, again, len) == len);
		FUZZ_CHECK(memcmp(again, data, len) == 0);
	}
	rpmai_private_data_free(&pdata);
	FUZZ_CHECK(pdata.ptr == NULL && pdata.len == 0);
}

/* private data as an application sends it, in a buffer of max bytes */
static void
check_sent(const uint8_t *data, uint8_t len, uint8_t max)
{
	const struct rpma_conn_private_data sent = { .ptr = (void *)(uintptr_t)data, .len = len };
	struct rpma_conn_private_data arrived;
	uint8_t buf[UINT8_MAX];

	if (len > max)
		return; /* the library refuses this earlier */
	uint8_t size = rpmai_private_data_pad(&sent, buf, max);
	bool fits = len + PRIVATE_DATA_TRAILER <= max;
	FUZZ_CHECK(size == (fits ? max : len));
	FUZZ_CHECK(rpmai_private_data_copy(buf, size, &arrived) == 0);
	/* bytes without our trailer may look as if they had one; fewer of them arrive then */
	FUZZ_CHECK(fits ? arrived.len == len : arrived.len <= len);
	FUZZ_CHECK(arrived.len == 0 || memcmp(arrived.ptr, data, arrived.len) == 0);
	rpmai_private_data_free(&arrived);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > UINT8_MAX + 1)
		return 0;
	check_arrived(data + 1, (uint8_t)(size - 1));
	check_sent(data + 1, (uint8_t)(size - 1), data[0]);
	return 0;
}
