/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* file_map_pmem2.c -- a file or a DAX device, mapped by libpmem2: with MAP_SYNC, aligned, as each kind needs it */

#include <libpmem2.h>
#include <stdio.h>

#include "file_map.h"

static enum file_granularity
granularity_of(struct pmem2_map *map)
{
	switch (pmem2_map_get_store_granularity(map)) {
	case PMEM2_GRANULARITY_BYTE:
		return FILE_GRANULARITY_BYTE;
	case PMEM2_GRANULARITY_CACHE_LINE:
		return FILE_GRANULARITY_CACHE_LINE;
	default:
		return FILE_GRANULARITY_PAGE;
	}
}

bool
file_map_open(struct file_map *map, int fd, size_t at_least, char *why, size_t why_size)
{
	struct pmem2_config *config = NULL;
	size_t length = 0;
	*map = (struct file_map){ .ptr = NULL };
	/* every file allows page granularity: libpmem2 gives a finer one if the storage is better */
	bool good = pmem2_config_new(&config) == 0 &&
		pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE) == 0 &&
		pmem2_source_from_fd(&map->source, fd) == 0 && pmem2_source_size(map->source, &length) == 0;
	if (good && length < at_least) {
		/* message(perf): `--memory FILE` is too short -> Give a larger file, or a directory. */
		snprintf(why, why_size, "it has %zu bytes, and %zu are needed", length, at_least);
		good = false;
	} else {
		good = good && pmem2_map_new(&map->map, config, map->source) == 0;
		if (!good)
			snprintf(why, why_size, "%s", pmem2_errormsg());
	}
	pmem2_config_delete(&config);
	if (!good) {
		file_map_close(map);
		return false;
	}
	map->ptr = pmem2_map_get_address(map->map);
	map->size = pmem2_map_get_size(map->map);
	map->granularity = granularity_of(map->map);
	return true;
}

void
file_map_close(struct file_map *map)
{
	if (map->map)
		(void)pmem2_map_delete(&map->map);
	if (map->source)
		(void)pmem2_source_delete(&map->source);
	map->ptr = NULL;
}
