/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * domain.h -- thread domains and parent domains
 *
 * A parent domain stands for the protection domain that it was made from, and can be used in its place. It can also
 * name a thread domain and an allocator, which other devices use (ibv_alloc_parent_domain(3)). This device only
 * counts the users of a thread domain: its locks cost next to nothing if a single thread takes them.
 */

#ifndef SOFTRDMA_DOMAIN_H
#define SOFTRDMA_DOMAIN_H

#include <stdatomic.h>

#include "softrdma/core/pd.h"

struct softrdma_td {
	struct ibv_td td;
	atomic_uint users; /* parent domains */
};

/* the inline functions of verbs.h call these through the context */
struct ibv_td *softrdma_ibv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int softrdma_ibv_dealloc_td(struct ibv_td *td);
struct ibv_pd *softrdma_ibv_alloc_parent_domain(struct ibv_context *context,
	struct ibv_parent_domain_init_attr *attr);

#endif /* SOFTRDMA_DOMAIN_H */
