/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* flush.h -- the ways to flush */

#ifndef RPMAI_FLUSH_H
#define RPMAI_FLUSH_H

#include "conn.h"
#include "mr.h"
#include "post.h"

struct flush_ops {
	/*
	 * checks that such a flush does on this connection what it promises: 0, RPMA_E_INVAL or RPMA_E_NOSUPP
	 */
	int (*check)(const struct rpma_conn *conn, enum rpma_flush_type type, size_t len);
	/* fills in the work request; the range is inside the region */
	void (*build)(const struct rpma_conn *conn, struct work_request *req, const struct mr_descriptor *dst,
		size_t dst_offset, size_t len, enum rpma_flush_type type, int flags, const void *op_context);
};

/* fills in the work request of a flush and checks everything but the flags. RPMA_E_INVAL, RPMA_E_NOSUPP */
int rpmai_flush_prepare(const struct rpma_conn *conn, struct work_request *req,
	const struct rpma_mr_remote *dst, size_t dst_offset, size_t len, enum rpma_flush_type type, int flags,
	const void *op_context);

/* the FLUSH operation, where both devices have it */
extern const struct flush_ops rpmai_flush_native;

/* an RDMA READ, which pushes the earlier WRITEs */
extern const struct flush_ops rpmai_flush_raw;

/* an RDMA READ of no bytes, which needs no right, for VISIBILITY where executed WRITEs are visible */
extern const struct flush_ops rpmai_flush_order;

/*
 * makes the buffer for the bytes that rpmai_flush_raw reads; one per connection. RPMA_E_NOMEM,
 * RPMA_E_PROVIDER
 */
int rpmai_flush_scratch_new(struct rpma_peer *peer, struct flush_scratch **scratch_ptr);

/* frees the buffer after the queue pair is destroyed; pointer to NULL is allowed. RPMA_E_PROVIDER */
int rpmai_flush_scratch_delete(struct flush_scratch **scratch_ptr);

#endif /* RPMAI_FLUSH_H */
