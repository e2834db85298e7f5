/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

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

	/* every file allows page granularity: libpmem2 gives a finer one if the storage is better */
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
persistent_sync_directory(const char *path)
{
	char copy[PATH_MAX];

	if (snprintf(copy, sizeof(copy), "%s", path) >= (int)sizeof(copy)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	int ret = fsync(fd);
	int err = errno;
	close(fd);
	errno = err;

	return ret;
}

int
persistent_map(int fd, const char *path, bool writable, struct persistent *mem)
{
	struct pmem2_source *source;
	struct stat st;

	/* The file may be new. A flush makes its content durable; a power cut could still lose its name. */
	if (writable && (fstat(fd, &st) || (S_ISREG(st.st_mode) && persistent_sync_directory(path)))) {
		fprintf(stderr,
			"%s: its directory cannot be synced, so a power cut could lose the file: %s\n", path,
			strerror(errno));
		return -1;
	}

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
