/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* write_flush.h -- merging the two completions of rpma_write_flush into one */

#ifndef RPMAI_WRITE_FLUSH_H
#define RPMAI_WRITE_FLUSH_H

#include <stdatomic.h>

#include "public.h"

/*
 * The write parts of the durable writes of one connection, for its completion queue. A write part has a
 * completion only if it fails; the wr_id of that completion is the address of one of these.
 */
struct write_part {
	uint64_t op_context;
	atomic_bool is_alone; /* true if its flush part was not posted, so that the call has failed */
};

struct write_parts {
	struct write_part *list; /* a ring of size elements, used in turn */
	uint32_t size;
	uint32_t next;     /* guarded by the lock of the connection's held posts */
	bool has_reported; /* true if a failed write was reported as that of its durable write ... */
	uint64_t reported; /* ... with this context: then the completion of its flush part is not reported */
};

/* for a send queue of sq_size entries. RPMA_E_NOMEM */
int rpmai_write_parts_new(uint32_t sq_size, struct write_parts **parts_ptr);
void rpmai_write_parts_delete(struct write_parts **parts_ptr);

/*
 * Merges the two completions of each failed durable write among count completions just collected. Returns the
 * number left. One thread at a time calls it, with completions in the order in which they were collected.
 */
int rpmai_write_parts_merge(struct write_parts *parts, struct ibv_wc *wc, int count);

#endif /* RPMAI_WRITE_FLUSH_H */
