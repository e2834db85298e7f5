/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* flush.h -- the strongest flush that the two sides can do */

#ifndef EXAMPLES_FLUSH_H
#define EXAMPLES_FLUSH_H

#include <librpma.h>

/*
 * flush_best -- posts a flush of the range: to persistence if that is possible, else to visibility
 *
 * librpma refuses at once if the flush is not possible. *type becomes the type of the flush; it asks for a
 * completion. Returns 0, or the librpma error after it has told the user.
 */
int flush_best(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t offset, size_t len,
	const void *op_context, enum rpma_flush_type *type);

#endif /* EXAMPLES_FLUSH_H */
