/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* op.h -- what the calls that post operations have in common */

#ifndef RPMAI_OP_H
#define RPMAI_OP_H

#include "mr.h"

/* at least one RPMA_F_COMPLETION_* bit and nothing unknown? RPMA_E_INVAL */
int rpmai_op_check_flags(int flags);

/* IBV_SEND_SIGNALED if the flags ask for a completion in any case */
unsigned int rpmai_op_send_flags(int flags);

/* is the range inside the remote region? RPMA_E_INVAL */
int rpmai_op_check_remote(const struct rpma_mr_remote *mr, size_t offset, size_t len);

/* the result of a verbs call that posts: 0, or RPMA_E_PROVIDER with a sentence */
int rpmai_op_posted(const char *call, int errnum);

/*
 * Fills wr (which points to sge) for a receive into [offset, offset + len) of dst; dst NULL with offset and
 * len 0 for an empty message. RPMA_E_INVAL
 */
int rpmai_op_prepare_recv(const struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context,
	struct ibv_sge *sge, struct ibv_recv_wr *wr);

/* posts a receive on a connection, or on what is to become one. RPMA_E_INVAL, RPMA_E_PROVIDER */
int rpmai_op_recv(struct rpma_conn *conn, const struct rpma_mr_local *dst, size_t offset, size_t len,
	const void *op_context);

#endif /* RPMAI_OP_H */
