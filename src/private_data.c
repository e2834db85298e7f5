/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* private_data.c -- a copy of the private data of a connection event */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "err.h"
#include "private_data.h"

static const uint8_t magic[4] = { 'r', 'p', 'm', 'a' };

static_assert(sizeof(magic) + 2 == PRIVATE_DATA_TRAILER, "magic, length, inverted length");

uint8_t
rpmai_private_data_pad(const struct rpma_conn_private_data *pdata, uint8_t *buf, uint8_t max)
{
	const uint8_t len = pdata ? pdata->len : 0;
	if (len)
		memcpy(buf, pdata->ptr, len);
	if (len + PRIVATE_DATA_TRAILER > max)
		return len;

	uint8_t *trailer = buf + max - PRIVATE_DATA_TRAILER;
	memset(buf + len, 0, (size_t)(trailer - (buf + len)));
	memcpy(trailer, magic, sizeof(magic));
	trailer[4] = len;
	trailer[5] = len ^ UINT8_MAX;
	return max;
}

struct rpma_conn_private_data
rpmai_private_data_prepare(const struct rdma_api *rdma, const struct rpma_conn_private_data *pdata,
	uint8_t *buf, uint8_t max)
{
	if (rdma->pads_private_data)
		return (struct rpma_conn_private_data){ buf, rpmai_private_data_pad(pdata, buf, max) };
	return pdata ? *pdata : (struct rpma_conn_private_data){ NULL, 0 };
}

int
rpmai_private_data_reject(const struct rdma_api *rdma, struct rdma_cm_id *id,
	const struct rpma_conn_private_data *reason)
{
	uint8_t buf[UINT8_MAX];
	const struct rpma_conn_private_data data =
		rpmai_private_data_prepare(rdma, reason, buf, rdma->reject_data_max);
	return rdma->reject(id, data.ptr, data.len);
}

static bool
all_zero(const uint8_t *from, const uint8_t *end)
{
	while (from < end && *from == 0)
		from++;
	return from == end;
}

/* the number of bytes that are data: all of them, unless a valid trailer tells a smaller number */
static uint8_t
meant(const uint8_t *buf, uint8_t len)
{
	if (len < PRIVATE_DATA_TRAILER)
		return len;

	const uint8_t *trailer = buf + len - PRIVATE_DATA_TRAILER;
	const uint8_t told = trailer[4];
	if (memcmp(trailer, magic, sizeof(magic)) != 0 || (trailer[5] ^ told) != UINT8_MAX ||
		told > len - PRIVATE_DATA_TRAILER || !all_zero(buf + told, trailer))
		return len;
	return told;
}

int
rpmai_private_data_copy(const void *ptr, uint8_t len, struct rpma_conn_private_data *pdata)
{
	*pdata = (struct rpma_conn_private_data){ NULL, 0 };
	if (ptr == NULL || len == 0)
		return 0;
	len = meant(ptr, len);
	if (len == 0)
		return 0;

	void *copy = malloc(len);
	if (copy == NULL)
		return RPMAI_FAIL_NOMEM();

	memcpy(copy, ptr, len);
	*pdata = (struct rpma_conn_private_data){ copy, len };
	return 0;
}

void
rpmai_private_data_free(struct rpma_conn_private_data *pdata)
{
	free(pdata->ptr);
	*pdata = (struct rpma_conn_private_data){ NULL, 0 };
}
