/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* private_data.h -- a copy of the private data of a connection event */

#ifndef RPMAI_PRIVATE_DATA_H
#define RPMAI_PRIVATE_DATA_H

#include <librpma.h>
#include <stdint.h>

#include "rdma.h"

/*
 * Devices that use InfiniBand's connection manager always deliver a buffer of the greatest length, padded
 * with zeros. A trailer at the end of the buffer tells the length of the data. The library writes trailers
 * for such devices, and understands them from every device.
 */

/* bytes that a buffer needs beyond the data to carry the length */
#define PRIVATE_DATA_TRAILER 6

/* fills buf, of max bytes, with the data, the padding and the trailer; returns the number of bytes to send */
uint8_t rpmai_private_data_pad(const struct rpma_conn_private_data *pdata, uint8_t *buf, uint8_t max);

/*
 * Returns private data (NULL: none) in the form in which the device sends it. If the device needs more bytes
 * than were given, they are in buf, which has max bytes.
 */
struct rpma_conn_private_data rpmai_private_data_prepare(const struct rdma_api *rdma,
	const struct rpma_conn_private_data *pdata, uint8_t *buf, uint8_t max);

/* rejects a client and sends reason (NULL: none); 0, or -1 with errno */
int rpmai_private_data_reject(const struct rdma_api *rdma, struct rdma_cm_id *id,
	const struct rpma_conn_private_data *reason);

/* copies len bytes, or as many as the trailer says; no data (NULL or 0) becomes {NULL, 0}. RPMA_E_NOMEM */
int rpmai_private_data_copy(const void *ptr, uint8_t len, struct rpma_conn_private_data *pdata);

/* frees the copy and sets {NULL, 0} */
void rpmai_private_data_free(struct rpma_conn_private_data *pdata);

#endif /* RPMAI_PRIVATE_DATA_H */
