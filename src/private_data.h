/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* private_data.h -- a copy of the private data that came with a connection event */

#ifndef RPMAI_PRIVATE_DATA_H
#define RPMAI_PRIVATE_DATA_H

#include <stdint.h>

#include "public.h"

/* copies len bytes; nothing (NULL or 0) becomes {NULL, 0}. RPMA_E_NOMEM */
int rpmai_private_data_copy(const void *ptr, uint8_t len, struct rpma_conn_private_data *pdata);

/* frees the copy and leaves {NULL, 0} */
void rpmai_private_data_free(struct rpma_conn_private_data *pdata);

#endif /* RPMAI_PRIVATE_DATA_H */
