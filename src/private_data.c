/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* private_data.c -- a copy of the private data that came with a connection event */

#include <stdlib.h>
#include <string.h>

#include "err.h"
#include "private_data.h"

int
rpmai_private_data_copy(const void *ptr, uint8_t len, struct rpma_conn_private_data *pdata)
{
	if (ptr == NULL || len == 0) {
		*pdata = (struct rpma_conn_private_data){ NULL, 0 };
		return 0;
	}

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
