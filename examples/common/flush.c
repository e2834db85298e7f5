/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include "connection.h"
#include "flush.h"

int
flush_best(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t offset, size_t len,
	const void *op_context, enum rpma_flush_type *type)
{
	int types = 0;
	int ret = rpma_mr_remote_get_flush_type(dst, &types);
	if (ret)
		return checked("rpma_mr_remote_get_flush_type", ret);

	/* the other side does not offer persistence, or offers it but a device cannot provide it */
	*type = RPMA_FLUSH_TYPE_PERSISTENT;
	ret = RPMA_E_NOSUPP;
	if (types & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)
		ret = rpma_flush(conn, dst, offset, len, *type, RPMA_F_COMPLETION_ALWAYS, op_context);
	if (ret == RPMA_E_NOSUPP) {
		*type = RPMA_FLUSH_TYPE_VISIBILITY;
		ret = rpma_flush(conn, dst, offset, len, *type, RPMA_F_COMPLETION_ALWAYS, op_context);
	}

	return checked("rpma_flush", ret);
}
