/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* persist_msync.c -- durability of pages that the kernel writes to a medium */

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softrdma/persist/persist_msync.h"

int
softrdma_msync(const void *addr, size_t len)
{
	assert(len > 0);
	uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)addr & ~(page_size - 1);
	uintptr_t end = (uintptr_t)addr + len; /* the kernel rounds it up */

	int ret;
	do {
		ret = msync((void *)start, end - start, MS_SYNC) ? errno : 0;
	} while (ret == EINTR); /* network file systems; the pages are still dirty */
	return ret;
}
