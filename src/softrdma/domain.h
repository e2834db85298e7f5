/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * domain.h -- protection domains, thread domains, and parent domains
 *
 * A key is good in one protection domain. A parent domain stands for the protection domain that it was made
 * of, and can be used in its place; with it come a thread domain and a way to allocate memory, which other
 * devices make use of (ibv_alloc_parent_domain(3)). This one has locks that cost next to nothing as long as
 * one thread takes them, so a thread domain is only counted.
 */

#ifndef SOFTRDMA_DOMAIN_H
#define SOFTRDMA_DOMAIN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "softrdma.h"

struct softrdma_td {
	struct ibv_td td;
	atomic_uint users; /* parent domains */
};

struct softrdma_pd {
	struct ibv_pd pd;
	atomic_uint
		users; /* regions, queue pairs, shared receive queues, parent domains; completion queues */
	struct softrdma_pd *stands_for; /* NULL: this is a protection domain; else it is a parent domain */
	struct softrdma_td *td;         /* of a parent domain; may be NULL */
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

/* behind the functions of verbs.h, through the context. As their manual pages say. */
struct ibv_td *softrdma_ibv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int softrdma_ibv_dealloc_td(struct ibv_td *td);
struct ibv_pd *softrdma_ibv_alloc_parent_domain(struct ibv_context *context,
	struct ibv_parent_domain_init_attr *attr);

#endif /* SOFTRDMA_DOMAIN_H */
