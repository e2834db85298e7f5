/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * batch.c -- the bytes of a batch: what of it has left, a copy of it for streams that cannot send memory itself, and memory
 * that is not there
 */

#include <assert.h>
#include <string.h>

#include "softrdma/core/link.h"
#include "softrdma/core/memory.h"

ssize_t
softrdma_link_tx_copy(const struct softrdma_link *link, uint8_t *to, size_t room)
{
	const struct softrdma_tx *tx = &link->tx;
	size_t copied = 0;
	for (unsigned i = tx->first; i < tx->count && copied < room; i++) {
		const struct iovec *iov = &tx->iov[i];
		size_t n = iov->iov_len < room - copied ? iov->iov_len : room - copied;
		if (tx->mr[i] == NULL)
			memcpy(to + copied, iov->iov_base, n);
		else if (softrdma_mr_load(tx->mr[i], to + copied, iov->iov_base, n) != 0)
			return copied > 0 ? (ssize_t)copied : -1; /* those before the missing memory */
		copied += n;
	}
	return (ssize_t)copied;
}

void
softrdma_link_tx_done(struct softrdma_link *link, size_t len)
{
	struct softrdma_tx *tx = &link->tx;
	while (len > 0) {
		assert(tx->first < tx->count);
		struct iovec *iov = &tx->iov[tx->first];
		if (len < iov->iov_len) {
			iov->iov_base = (char *)iov->iov_base + len;
			iov->iov_len -= len;
			return;
		}
		len -= iov->iov_len;
		tx->first++;
	}
}

void
softrdma_link_tx_fault(struct softrdma_link *link)
{
	const struct softrdma_tx *tx = &link->tx;
	bool asking = false;
	softrdma_mr_tell_missing();
	for (unsigned i = tx->first; i < tx->count; i++)
		asking = asking || (tx->mr[i] && softrdma_opcode_is_request(tx->opcode[i]));
	softrdma_link_fail(link, asking ? IBV_WC_LOC_PROT_ERR : IBV_WC_WR_FLUSH_ERR);
}
