/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * op.h -- what the calls that post operations have in common
 *
 * A work request is begun by rpmai_op_init, gets its remote range and its local memory, and is posted. Ranges
 * are checked here because a remote access error would break the connection, and truncating a length to the
 * 32 bits of verbs would lose data in silence.
 */

#ifndef RPMAI_OP_H
#define RPMAI_OP_H

#include "mr.h"
#include "post.h"

/* at least one RPMA_F_COMPLETION_* bit and nothing unknown? RPMA_E_INVAL */
int rpmai_op_check_flags(int flags);

/* a request without memory, with the verbs flags that the (checked) flags mean */
void rpmai_op_init(struct work_request *req, int opcode, int flags, const void *op_context);

/* is the range inside the remote region? RPMA_E_INVAL */
int rpmai_op_check_remote(const struct rpma_mr_remote *mr, size_t offset, size_t len);

/* where it acts on the other side. RPMA_E_INVAL: not inside the region */
int rpmai_op_add_remote(struct work_request *req, const struct rpma_mr_remote *mr, size_t offset, size_t len);

/*
 * The memory of this side, one registered range. RPMA_E_INVAL: not inside the region, or more than the port
 * transfers at once
 */
int rpmai_op_add_local(const struct rpma_conn *conn, struct work_request *req, const struct rpma_mr_local *mr,
	size_t offset, size_t len);

/*
 * The same in pieces, which go to sges (room for the connection's max_sge); *len is the sum of their lengths.
 * RPMA_E_INVAL: also too many
 */
int rpmai_op_add_pieces(const struct rpma_conn *conn, struct work_request *req, struct ibv_sge *sges,
	const struct rpma_sge *pieces, int count, size_t *len);

/* data that is copied when the request is posted. RPMA_E_INVAL: longer than the connection takes it */
int rpmai_op_add_inline(const struct rpma_conn *conn, struct work_request *req, const void *src, size_t len);

/*
 * Fills wr (which points to sge) for a receive into [offset, offset + len) of dst; dst NULL with offset and
 * len 0 for an empty message. RPMA_E_INVAL
 */
int rpmai_op_prepare_recv(const struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context,
	struct ibv_sge *sge, struct ibv_recv_wr *wr);

/* posts a receive on a connection, or on what is to become one. RPMA_E_INVAL, RPMA_E_PROVIDER */
int rpmai_op_recv(struct rpma_conn *conn, const struct rpma_mr_local *dst, size_t offset, size_t len,
	const void *op_context);

/* the result of a verbs call that posts: 0, or RPMA_E_PROVIDER with a sentence */
int rpmai_op_posted(const char *call, int errnum);

#endif /* RPMAI_OP_H */
