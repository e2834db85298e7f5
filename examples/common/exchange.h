/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * exchange.h -- what a server tells its client about its memory, as private data of the connection
 *
 * The layout is the one that librpma's examples have always used, 28 bytes, little-endian, so that each side
 * may be built against another release:
 *
 *	offset  size
 *	     0     2  where the data begins within the registered memory
 *	     2     1  length of the memory registration descriptor
 *	     3     1  length of the peer configuration descriptor
 *	     4    24  the two descriptors, one behind the other
 *
 * It came over the network, so nothing in it is used before it was checked.
 */

#ifndef EXAMPLES_EXCHANGE_H
#define EXAMPLES_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include <librpma.h>

#define EXCHANGE_HEADER_SIZE 4
#define EXCHANGE_DESCRIPTORS_MAX 24
#define EXCHANGE_SIZE (EXCHANGE_HEADER_SIZE + EXCHANGE_DESCRIPTORS_MAX)

/* the memory of the other side, as its private data describe it */
struct exchange {
	struct rpma_mr_remote *mr;
	struct rpma_peer_cfg *pcfg; /* NULL if the other side sent none */
	size_t data_offset;         /* within mr: always smaller than size */
	size_t size;                /* of mr */
};

/*
 * exchange_pack -- describe mr (and pcfg, if not NULL) in buf; pdata points at buf afterwards
 *
 * Returns 0, or RPMA_E_INVAL if the description does not fit.
 */
int exchange_pack(uint8_t buf[static EXCHANGE_SIZE], const struct rpma_mr_local *mr,
	const struct rpma_peer_cfg *pcfg, size_t data_offset, struct rpma_conn_private_data *pdata);

/*
 * exchange_unpack -- check and import the description that the other side of conn sent
 *
 * Returns 0, RPMA_E_INVAL if it is no such description, or what librpma says. The result is released by
 * exchange_release().
 */
int exchange_unpack(const struct rpma_conn *conn, struct exchange *ex);

void exchange_release(struct exchange *ex);

#endif /* EXAMPLES_EXCHANGE_H */
