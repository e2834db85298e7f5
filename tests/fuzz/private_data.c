/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* private_data.c -- private data with and without its length in it */

#include <string.h>

#include <librpma.h>

#include "fuzz.h"
#include "private_data.h"

/* what a connection manager has brought */
static void
check_arrived(const uint8_t *data, uint8_t len)
{
	struct rpma_conn_private_data pdata;
	uint8_t again[UINT8_MAX];

	FUZZ_CHECK(rpmai_private_data_copy(data, len, &pdata) == 0);
	FUZZ_CHECK(pdata.len <= len && (pdata.len == 0) == (pdata.ptr == NULL));
	FUZZ_CHECK(pdata.len == 0 || memcmp(pdata.ptr, data, pdata.len) == 0);
	if (pdata.len < len) {
		/* shorter means that a trailer said so: the same is made of it again */
		FUZZ_CHECK(len - pdata.len >= PRIVATE_DATA_TRAILER);
		FUZZ_CHECK(rpmai_private_data_pad(&pdata, again, len) == len);
		FUZZ_CHECK(memcmp(again, data, len) == 0);
	}
	rpmai_private_data_free(&pdata);
	FUZZ_CHECK(pdata.ptr == NULL && pdata.len == 0);
}

/* what an application sends, in a buffer that takes max bytes */
static void
check_sent(const uint8_t *data, uint8_t len, uint8_t max)
{
	const struct rpma_conn_private_data sent = { .ptr = (void *)(uintptr_t)data, .len = len };
	struct rpma_conn_private_data arrived;
	uint8_t buf[UINT8_MAX];

	if (len > max)
		return; /* refused before it comes so far */
	uint8_t size = rpmai_private_data_pad(&sent, buf, max);
	bool fits = len + PRIVATE_DATA_TRAILER <= max;
	FUZZ_CHECK(size == (fits ? max : len));
	FUZZ_CHECK(rpmai_private_data_copy(buf, size, &arrived) == 0);
	/* bytes without a trailer of ours may look as if they had one: then fewer of them arrive */
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
