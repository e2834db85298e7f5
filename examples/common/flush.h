/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* flush.h -- a flush as far as the two sides can do it */

#ifndef EXAMPLES_FLUSH_H
#define EXAMPLES_FLUSH_H

#include <librpma.h>

/*
 * flush_best -- post a flush of the range: to persistence if that can be had, else to visibility
 *
 * librpma says at once, and truthfully, whether it can. *type is what it was; a completion is asked for.
 * Returns 0, or the librpma error after it has told the user.
 */
int flush_best(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t offset, size_t len,
	const void *op_context, enum rpma_flush_type *type);

#endif /* EXAMPLES_FLUSH_H */
