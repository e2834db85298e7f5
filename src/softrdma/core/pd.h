/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * pd.h -- protection domains
 *
 * A key is valid in one protection domain. A parent domain stands for the protection domain that it was created from
 * (domain.h).
 */

#ifndef SOFTRDMA_PD_H
#define SOFTRDMA_PD_H

#include <stdatomic.h>

#include "softrdma/softrdma.h"

struct softrdma_td;

struct softrdma_pd {
	struct ibv_pd pd;
	/* number of regions, queue pairs, shared receive queues and parent domains; of a parent domain also completion queues */
	atomic_uint users;
	struct softrdma_pd *stands_for; /* NULL: this is a protection domain; else it is a parent domain */
	struct softrdma_td *td;         /* of a parent domain; may be NULL */
	struct softrdma_stats
		past; /* of its queue pairs that are destroyed; guarded by the lock of the list of links */
};

static inline struct softrdma_pd *
softrdma_pd_of(struct ibv_pd *pd)
{
	return (struct softrdma_pd *)pd;
}

/* the protection domain that keys are checked against. Any thread. */
static inline const struct ibv_pd *
softrdma_domain_of_keys(const struct ibv_pd *pd)
{
	const struct softrdma_pd *at = (const struct softrdma_pd *)pd;
	return at->stands_for ? &at->stands_for->pd : pd;
}

#endif /* SOFTRDMA_PD_H */
