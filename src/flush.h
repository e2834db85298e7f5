/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* flush.h -- the ways to flush */

#ifndef RPMAI_FLUSH_H
#define RPMAI_FLUSH_H

#include "conn.h"
#include "mr.h"
#include "post.h"

struct flush_ops {
	/* does such a flush over this connection do what it says? 0, RPMA_E_INVAL or RPMA_E_NOSUPP */
	int (*check)(const struct rpma_conn *conn, enum rpma_flush_type type, size_t len);
	/* makes the request; the range is inside the region */
	void (*build)(const struct rpma_conn *conn, struct work_request *req, const struct mr_descriptor *dst,
		size_t dst_offset, size_t len, enum rpma_flush_type type, int flags, const void *op_context);
};

/* the request of a flush, with all its checks but that of the flags. RPMA_E_INVAL, RPMA_E_NOSUPP */
int rpmai_flush_prepare(const struct rpma_conn *conn, struct work_request *req,
	const struct rpma_mr_remote *dst, size_t dst_offset, size_t len, enum rpma_flush_type type, int flags,
	const void *op_context);

/* the FLUSH operation of both devices */
extern const struct flush_ops rpmai_flush_native;

/* an RDMA READ, which pushes the writes before it */
extern const struct flush_ops rpmai_flush_raw;

/* where the bytes read by rpmai_flush_raw land; one for each connection. RPMA_E_NOMEM, RPMA_E_PROVIDER */
int rpmai_flush_scratch_new(struct rpma_peer *peer, struct flush_scratch **scratch_ptr);

/* frees it when the queue pair is gone; pointer to NULL is allowed. RPMA_E_PROVIDER */
int rpmai_flush_scratch_delete(struct flush_scratch **scratch_ptr);

#endif /* RPMAI_FLUSH_H */
