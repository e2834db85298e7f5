/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* mr.h -- memory regions, local and remote, for the operations on them */

#ifndef RPMAI_MR_H
#define RPMAI_MR_H

#include "descriptor.h"
#include "peer.h"

/* any thread may read it: it never changes after rpma_mr_reg */
struct rpma_mr_local {
	struct rpma_peer *peer;
	struct ibv_mr *ibv_mr;
	int usage; /* as granted: without FLUSH_TYPE_PERSISTENT if the device refused the right */
};

struct rpma_mr_remote {
	struct mr_descriptor desc;
};

/* rpma_mr_reg, with the arguments already checked */
int rpmai_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage, struct rpma_mr_local **mr_ptr);

/* true if [offset, offset + len) is inside a region of size bytes */
static inline bool
rpmai_range_ok(uint64_t size, uint64_t offset, uint64_t len)
{
	uint64_t rest;

	return !__builtin_sub_overflow(size, offset, &rest) && len <= rest;
}

#endif /* RPMAI_MR_H */
