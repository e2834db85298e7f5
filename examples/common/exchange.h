/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * exchange.h -- the description of a server's memory, sent to its client as private data of the connection
 *
 * The layout is the one that librpma's examples have always used, 28 bytes, little-endian. So each side may
 * be built against another release:
 *
 *	offset  size
 *	     0     2  where the data begins within the registered memory
 *	     2     1  length of the memory registration descriptor
 *	     3     1  length of the peer configuration descriptor
 *	     4    24  the two descriptors, one after the other
 *
 * It comes from the network, so nothing in it is used before it is checked.
 */

#ifndef EXAMPLES_EXCHANGE_H
#define EXAMPLES_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include <librpma.h>

#define EXCHANGE_HEADER_SIZE 4
#define EXCHANGE_DESCRIPTORS_MAX 24
#define EXCHANGE_SIZE (EXCHANGE_HEADER_SIZE + EXCHANGE_DESCRIPTORS_MAX)

/* the memory of the other side, as its private data describes it */
struct exchange {
	struct rpma_mr_remote *mr;
	struct rpma_peer_cfg *pcfg; /* NULL if the other side sent none */
	size_t data_offset;         /* within mr: always less than size */
	size_t size;                /* of mr */
};

/*
 * exchange_pack -- writes the description of mr (and of pcfg, if not NULL) to buf, and makes pdata point to
 * buf
 *
 * Returns 0, or RPMA_E_INVAL if the description does not fit.
 */
int exchange_pack(uint8_t buf[static EXCHANGE_SIZE], const struct rpma_mr_local *mr,
	const struct rpma_peer_cfg *pcfg, size_t data_offset, struct rpma_conn_private_data *pdata);

/*
 * exchange_unpack -- checks and imports the description that the other side of conn sent
 *
 * Returns 0, RPMA_E_INVAL if it is no such description, or the error of librpma. Release the result with
 * exchange_release().
 */
int exchange_unpack(const struct rpma_conn *conn, struct exchange *ex);

void exchange_release(struct exchange *ex);

#endif /* EXAMPLES_EXCHANGE_H */
