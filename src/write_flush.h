/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* write_flush.h -- the two parts of rpma_write_flush become one completion */

#ifndef RPMAI_WRITE_FLUSH_H
#define RPMAI_WRITE_FLUSH_H

#include <stdatomic.h>

#include "public.h"

/*
 * The write parts of the durable writes of one connection, for its completion queue. A write part has no
 * completion unless it fails; then its wr_id is the address of one of these.
 */
struct write_part {
	uint64_t op_context;
	atomic_bool is_alone; /* its flush part was not posted, and the call has failed */
};

struct write_parts {
	struct write_part *list; /* a ring of size elements, used one after the other */
	uint32_t size;
	uint32_t next;     /* under the lock of the connection's held posts */
	bool has_reported; /* a failed write has been reported as the completion of its durable write ... */
	uint64_t reported; /* ... with this context: the completion of its flush part is not the user's */
};

/* for a send queue of sq_size entries. RPMA_E_NOMEM */
int rpmai_write_parts_new(uint32_t sq_size, struct write_parts **parts_ptr);
void rpmai_write_parts_delete(struct write_parts **parts_ptr);

/*
 * Makes one completion of the two of a durable write that failed, among count completions just collected;
 * the number that is left. One thread at a time, in the order in which they were collected.
 */
int rpmai_write_parts_merge(struct write_parts *parts, struct ibv_wc *wc, int count);

#endif /* RPMAI_WRITE_FLUSH_H */
