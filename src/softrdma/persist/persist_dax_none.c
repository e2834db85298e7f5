/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* persist_dax_none.c -- no durability of memory that the processor accesses directly, for builds without libpmem2 */

#include <errno.h>
#include <stdlib.h>

#include "softrdma/base/env.h"
#include "softrdma/persist/persist_dax.h"

/* msync() could flush such memory too, but not that of a DAX device, and this file cannot tell which it is */
int
softrdma_dax_init(const char *name)
{
	/*
	 * message(memory): why memory is not durable; *bytes cannot be made durable* follows -> Install a
	 * build with libpmem2, or map without MAP_SYNC.
	 */
	SOFTRDMA_LOG(WARNING,
		"memory mapped from %s cannot be made durable: it is mapped with MAP_SYNC or from a DAX device, and "
		"this library was built without libpmem2 (WITH_PMEM)",
		name);
	return EOPNOTSUPP;
}

/* never called, because no such memory is accepted */
void
softrdma_dax_flush(const void *addr, size_t len)
{
	(void)addr;
	(void)len;
	abort();
}
