/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* private_data.h -- a copy of the private data that came with a connection event */

#ifndef RPMAI_PRIVATE_DATA_H
#define RPMAI_PRIVATE_DATA_H

#include <librpma.h>
#include <stdint.h>

#include "rdma.h"

/*
 * Devices of InfiniBand's connection manager always bring a buffer of the greatest length, filled up with
 * zeros. A length at its end tells how many bytes are meant: trailers are written to such devices, and
 * understood from everywhere.
 */

/* bytes that a buffer must have beyond the data for its length to travel with it */
#define PRIVATE_DATA_TRAILER 6

/* fills buf, of max bytes, with the data and what follows it; the number of bytes to be sent */
uint8_t rpmai_private_data_pad(const struct rpma_conn_private_data *pdata, uint8_t *buf, uint8_t max);

/*
 * Private data (NULL: none) as the device wants it sent; buf, of max bytes, is where it is if the device
 * needs more than was given
 */
struct rpma_conn_private_data rpmai_private_data_prepare(const struct rdma_api *rdma,
	const struct rpma_conn_private_data *pdata, uint8_t *buf, uint8_t max);

/* rejects a client with this (NULL: no) reason; 0, or -1 with errno */
int rpmai_private_data_reject(const struct rdma_api *rdma, struct rdma_cm_id *id,
	const struct rpma_conn_private_data *reason);

/* copies len bytes, or as many as their trailer says; nothing (NULL or 0) becomes {NULL, 0}. RPMA_E_NOMEM */
int rpmai_private_data_copy(const void *ptr, uint8_t len, struct rpma_conn_private_data *pdata);

/* frees the copy and leaves {NULL, 0} */
void rpmai_private_data_free(struct rpma_conn_private_data *pdata);

#endif /* RPMAI_PRIVATE_DATA_H */
