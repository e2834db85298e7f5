/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* domain.c -- protection domains, thread domains, and parent domains */

#include <errno.h>
#include <stdlib.h>

#include "softrdma/base/fork.h"
#include "softrdma/base/missing.h"
#include "softrdma/faults/fault_plan.h"
#include "softrdma/verbs/device.h"
#include "softrdma/verbs/domain.h"

/* --- protection domains --- */

/* the context may be a parent's: it names the device, and the new object gets this process's own context */
struct ibv_pd *
softrdma_ibv_alloc_pd(struct ibv_context *context)
{
	context = softrdma_context();
	if (context == NULL)
		return NULL;
	int ret = softrdma_fault_plan_read();
	if (ret) {
		errno = ret;
		return NULL;
	}
	struct softrdma_pd *pd = calloc(1, sizeof(*pd));
	if (pd == NULL)
		return NULL;
	pd->pd.context = context;
	return &pd->pd;
}

/* frees parent domains too */
int
softrdma_ibv_dealloc_pd(struct ibv_pd *ibv_pd)
{
	struct softrdma_pd *pd = softrdma_pd_of(ibv_pd);
	if (softrdma_is_inherited(ibv_pd->context))
		return softrdma_fork_refuse("ibv_dealloc_pd");
	if (atomic_load(&pd->users) > 0)
		return EBUSY;
	if (pd->stands_for)
		atomic_fetch_sub(&pd->stands_for->users, 1);
	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	free(pd);
	return 0;
}

/* --- thread domains --- */

struct ibv_td *
softrdma_ibv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	context = softrdma_context();
	if (context == NULL)
		return NULL;
	if (attr->comp_mask) {
		errno = softrdma_missing("ibv_alloc_td", " with attributes", SOFTRDMA_SEE_MANUAL);
		return NULL;
	}
	struct softrdma_td *td = calloc(1, sizeof(*td));
	if (td == NULL)
		return NULL;
	td->td.context = context;
	return &td->td;
}

int
softrdma_ibv_dealloc_td(struct ibv_td *ibv_td)
{
	struct softrdma_td *td = (struct softrdma_td *)ibv_td;
	if (softrdma_is_inherited(ibv_td->context))
		return softrdma_fork_refuse("ibv_dealloc_td");
	if (atomic_load(&td->users) > 0)
		return EBUSY;
	free(td);
	return 0;
}

/* --- parent domains --- */

/* 0 or an errno value */
static int
check_parent_domain(const struct ibv_parent_domain_init_attr *attr)
{
	if (attr->comp_mask) /* an allocator of the program: the device needs none, as it shares no queues with hardware */
		return softrdma_missing("ibv_alloc_parent_domain", " with an allocator",
			"leave it out: no queue is shared with hardware");
	if (attr->pd == NULL || softrdma_pd_of(attr->pd)->stands_for)
		return EINVAL;
	if (softrdma_is_inherited(attr->pd->context) ||
		(attr->td && softrdma_is_inherited(attr->td->context)))
		return softrdma_fork_refuse("ibv_alloc_parent_domain");
	return 0;
}

struct ibv_pd *
softrdma_ibv_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
	(void)context;
	int ret = check_parent_domain(attr);
	if (ret) {
		errno = ret;
		return NULL;
	}
	struct softrdma_pd *pd = calloc(1, sizeof(*pd));
	if (pd == NULL)
		return NULL;
	pd->pd.context = attr->pd->context;
	pd->stands_for = softrdma_pd_of(attr->pd);
	pd->td = (struct softrdma_td *)attr->td;
	atomic_fetch_add(&pd->stands_for->users, 1);
	if (pd->td)
		atomic_fetch_add(&pd->td->users, 1);
	return &pd->pd;
}
