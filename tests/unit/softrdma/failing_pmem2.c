/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* failing_pmem2.c -- calls of libpmem2 that fail on a test's request: see failing.h */

#include <libpmem2.h>
#include <stddef.h>

#include "failing_wrap.h"

WRAP(int, pmem2_source_from_anon, error, (struct pmem2_source * *src, size_t size), (src, size))
WRAP(int, pmem2_map_from_existing, error,
	(struct pmem2_map * *map, const struct pmem2_source *src, void *addr, size_t len,
		enum pmem2_granularity granularity),
	(map, src, addr, len, granularity))
