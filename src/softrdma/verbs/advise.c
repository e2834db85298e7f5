/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * advise.c -- advice about registered memory: fetching pages before an operation needs them
 *
 * The device accesses memory through the page tables of the process, so a page fetched for the process is also
 * fetched for the device. The calling thread fetches the pages without a lock, and before the call returns, even
 * if the flags do not request that.
 */

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/copy.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/missing.h"
#include "softrdma/core/memory.h"

/* a hint to the kernel, for kernels that cannot fetch pages on request; failures do not matter */
static void
hint(uint8_t *addr, size_t len)
{
	const size_t skip = (uintptr_t)addr % (size_t)sysconf(_SC_PAGESIZE);
	(void)madvise(addr - skip, skip + len, MADV_WILLNEED);
}

/* 0, or EFAULT if a page cannot be provided, for example past the end of a file or on a full disk */
static int
fetch(const struct ibv_sge *sge, bool write)
{
	uint8_t *addr = (uint8_t *)(uintptr_t)sge->addr;
	if (sge->length == 0)
		return 0;
	int ret =
		write ? softrdma_copy_populate(addr, sge->length) : softrdma_copy_prefetch(addr, sge->length);
	if (ret != EOPNOTSUPP)
		return ret;
	hint(addr, sge->length);
	return 0;
}

/* checks all SGEs before it fetches a page; the errors are those of ibv_advise_mr(3) */
int
softrdma_ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	struct ibv_sge *sg_list, uint32_t num_sge)
{
	SOFTRDMA_NO_CANCEL;
	if (softrdma_is_inherited(pd->context))
		return softrdma_fork_refuse("ibv_advise_mr");
	switch (advice) {
	case IBV_ADVISE_MR_ADVICE_PREFETCH:
	case IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE:
	case IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT:
		break;
	default:
		return softrdma_missing("ibv_advise_mr", " with this advice", SOFTRDMA_SEE_MANUAL);
	}
	if ((flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) || num_sge == 0 || sg_list == NULL)
		return EINVAL;

	const bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	for (uint32_t i = 0; i < num_sge; i++) {
		int ret = softrdma_mr_check(pd, sg_list[i].lkey, sg_list[i].addr, sg_list[i].length,
			write ? IBV_ACCESS_LOCAL_WRITE : 0);
		if (ret)
			return ret;
	}
	if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return 0; /* pages that are present need no fetch, and others must not fault */

	for (uint32_t i = 0; i < num_sge; i++) {
		int ret = fetch(&sg_list[i], write);
		if (ret)
			return ret;
	}
	return 0;
}
