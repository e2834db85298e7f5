/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* no_msync.c -- to be preloaded: an msync() that makes nothing durable and reports success */

#include <stddef.h>
#include <sys/mman.h>

int
msync(void *addr, size_t len, int flags)
{
	(void)addr;
	(void)len;
	(void)flags;
	return 0;
}
