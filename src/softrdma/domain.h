/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * domain.h -- thread domains and parent domains
 *
 * A parent domain stands for the protection domain that it was made
 * of, and can be used in its place; with it come a thread domain and a way to allocate memory, which other
 * devices make use of (ibv_alloc_parent_domain(3)). This one has locks that cost next to nothing as long as
 * one thread takes them, so a thread domain is only counted.
 */

#ifndef SOFTRDMA_DOMAIN_H
#define SOFTRDMA_DOMAIN_H

#include <stdatomic.h>

#include "pd.h"

struct softrdma_td {
	struct ibv_td td;
	atomic_uint users; /* parent domains */
};

/* behind the functions of verbs.h, through the context. As their manual pages say. */
struct ibv_td *softrdma_ibv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int softrdma_ibv_dealloc_td(struct ibv_td *td);
struct ibv_pd *softrdma_ibv_alloc_parent_domain(struct ibv_context *context,
	struct ibv_parent_domain_init_attr *attr);

#endif /* SOFTRDMA_DOMAIN_H */
