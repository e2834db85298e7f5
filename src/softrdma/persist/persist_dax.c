/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * persist_dax.c -- durability of memory that the processor accesses directly: writes back its caches
 *
 * libpmem2 knows the right instructions for each processor and gives a persist function for a mapping. The
 * application may have mapped its file with libpmem2 too, and libpmem2 refuses a range that it knows already. So
 * this file asks it about one page of its own. The function depends only on the granularity, so one page is
 * enough for the process. libpmem2 1.12 never frees its data of a mapping that it did not make itself. Therefore
 * the page stays mapped until the process ends.
 */

#include <assert.h>
#include <errno.h>
#include <glob.h>
#include <libpmem2.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/high_fd.h"
#include "softrdma/persist/persist_dax.h"

/* the kernel's statement of what survives a power failure, one file per set of persistent memory modules */
#define DOMAIN_FILES "/sys/bus/nd/devices/region*/persistence_domain"

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pmem2_map *map; /* keeps the map reachable for leak checkers */
static _Atomic(pmem2_persist_fn) persist;

static void
after_fork(void)
{
	init_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

static bool
is_cpu_cache(const char *path)
{
	char text[32] = "";
	FILE *file = softrdma_high_stream(fopen(path, "re"));
	if (file == NULL)
		return false;
	bool yes = fgets(text, sizeof(text), file) && strcmp(text, "cpu_cache\n") == 0;
	fclose(file);
	return yes;
}

/*
 * True if the processor's caches survive a power failure (eADR) for every region. When in doubt false: an
 * unnecessary write-back of a cache line costs time, a missing one costs data.
 */
static bool
platform_has_eadr(void)
{
	glob_t found = { 0 };
	bool all = glob(DOMAIN_FILES, 0, NULL, &found) == 0 && found.gl_pathc > 0;
	for (size_t i = 0; all && i < found.gl_pathc; i++)
		all = is_cpu_cache(found.gl_pathv[i]);
	globfree(&found);
	return all;
}

/* libpmem2 has error codes of its own below the negative errno values */
static int
pmem2_error(const char *name, int ret)
{
	/* message(memory): persistent memory, and libpmem2 refuses it -> The text is libpmem2's. */
	SOFTRDMA_LOG(ERROR, "libpmem2 gives no persist function for %s: %s", name, pmem2_errormsg());
	return ret > PMEM2_E_UNKNOWN ? -ret : ENOTSUP;
}

static int
ask(const char *name, void *page, size_t page_size)
{
	struct pmem2_source *src;
	int ret = pmem2_source_from_anon(&src, page_size);
	if (ret)
		return pmem2_error(name, ret);
	ret = pmem2_map_from_existing(&map, src, page, page_size,
		platform_has_eadr() ? PMEM2_GRANULARITY_BYTE : PMEM2_GRANULARITY_CACHE_LINE);
	if (ret)
		ret = pmem2_error(name, ret);
	pmem2_source_delete(&src);
	return ret;
}

static int
init(const char *name)
{
	size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return errno;
	int ret = ask(name, page, page_size);
	if (ret)
		munmap(page, page_size);
	else
		atomic_store(&persist, pmem2_get_persist_fn(map));
	return ret;
}

int
softrdma_dax_init(const char *name)
{
	pthread_mutex_lock(&init_lock);
	int ret = atomic_load(&persist) ? 0 : init(name);
	pthread_mutex_unlock(&init_lock);
	return ret;
}

void
softrdma_dax_flush(const void *addr, size_t len)
{
	pmem2_persist_fn flush = atomic_load(&persist);
	assert(flush);
	flush(addr, len);
}
