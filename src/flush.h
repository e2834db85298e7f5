/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* flush.h -- the ways to flush */

#ifndef RPMAI_FLUSH_H
#define RPMAI_FLUSH_H

#include "conn.h"
#include "mr.h"

struct flush_ops {
	/* does a flush of this type over this connection do what it says? 0 or RPMA_E_NOSUPP */
	int (*check)(const struct rpma_conn *conn, enum rpma_flush_type type);
	/* posts it; the range is inside the region. 0 or RPMA_E_PROVIDER */
	int (*post)(struct rpma_conn *conn, const struct mr_descriptor *dst, size_t dst_offset, size_t len,
		enum rpma_flush_type type, int flags, const void *op_context);
};

/* the FLUSH operation of both devices */
extern const struct flush_ops rpmai_flush_native;

/* an RDMA READ, which pushes the writes before it */
extern const struct flush_ops rpmai_flush_raw;

/* where the bytes read by rpmai_flush_raw land; one for each connection. RPMA_E_NOMEM, RPMA_E_PROVIDER */
int rpmai_flush_scratch_new(const struct rpma_peer *peer, struct flush_scratch **scratch_ptr);

/* frees it when the queue pair is gone; pointer to NULL is allowed. RPMA_E_PROVIDER */
int rpmai_flush_scratch_delete(struct flush_scratch **scratch_ptr);

#endif /* RPMAI_FLUSH_H */
