/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <linux/magic.h>
#include <stdio.h>
#include <sys/statfs.h>

#include "persistent.h"

static const char *
granularity_2str(enum pmem2_granularity granularity, int fd)
{
	struct statfs fs;

	switch (granularity) {
	case PMEM2_GRANULARITY_BYTE:
		return "byte (persistent memory, caches included)";
	case PMEM2_GRANULARITY_CACHE_LINE:
		return "cache line (persistent memory)";
	case PMEM2_GRANULARITY_PAGE:
		break;
	}

	if (fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC)
		return "page (tmpfs: survives the process, not the power)";

	return "page (a disk, by msync)";
}

static int
map_source(struct pmem2_source *source, int fd, bool writable, struct persistent *mem)
{
	struct pmem2_config *cfg;

	int ret = pmem2_config_new(&cfg);
	if (ret)
		return ret;

	/* page granularity is what every file has: libpmem2 gives a finer one where the storage is better */
	ret = pmem2_config_set_required_store_granularity(cfg, PMEM2_GRANULARITY_PAGE);
	if (ret == 0 && !writable)
		ret = pmem2_config_set_protection(cfg, PMEM2_PROT_READ);
	if (ret == 0)
		ret = pmem2_map_new(&mem->map, cfg, source);
	(void)pmem2_config_delete(&cfg);
	if (ret)
		return ret;

	mem->ptr = pmem2_map_get_address(mem->map);
	mem->size = pmem2_map_get_size(mem->map);
	mem->persist = pmem2_get_persist_fn(mem->map);
	mem->granularity = granularity_2str(pmem2_map_get_store_granularity(mem->map), fd);

	return 0;
}

int
persistent_map(int fd, const char *path, bool writable, struct persistent *mem)
{
	struct pmem2_source *source;

	int ret = pmem2_source_from_fd(&source, fd);
	if (ret == 0) {
		ret = map_source(source, fd, writable, mem);
		(void)pmem2_source_delete(&source);
	}
	if (ret) {
		fprintf(stderr, "%s: cannot be mapped: %s\n", path, pmem2_errormsg());
		return -1;
	}

	return 0;
}

void
persistent_unmap(struct persistent *mem)
{
	if (mem->map && pmem2_map_delete(&mem->map))
		fprintf(stderr, "pmem2_map_delete failed: %s\n", pmem2_errormsg());
	mem->ptr = NULL;
}
