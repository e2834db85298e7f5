/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* file_map_posix.c -- a mapped file, for builds without libpmem2: msync() makes it durable, wherever it is stored */

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "file_map.h"

bool
file_map_open(struct file_map *map, int fd, size_t at_least, char *why, size_t why_size)
{
	struct stat st;
	*map = (struct file_map){ .ptr = NULL };
	if (fstat(fd, &st)) {
		snprintf(why, why_size, "%m");
		return false;
	}
	if (!S_ISREG(st.st_mode)) {
		snprintf(why, why_size,
			"it is no file, and this program was built without libpmem2 (WITH_PMEM)");
		return false;
	}
	if ((uintmax_t)st.st_size < at_least || st.st_size == 0) {
		snprintf(why, why_size, "it has %jd bytes, and %zu are needed", (intmax_t)st.st_size,
			at_least ? at_least : 1);
		return false;
	}
	/* without MAP_SYNC, so that the software device takes it for a file on a disk */
	void *ptr = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ptr == MAP_FAILED) {
		snprintf(why, why_size, "%m");
		return false;
	}
	map->ptr = ptr;
	map->size = (size_t)st.st_size;
	map->granularity = FILE_GRANULARITY_PAGE;
	return true;
}

void
file_map_close(struct file_map *map)
{
	if (map->ptr)
		munmap(map->ptr, map->size);
	map->ptr = NULL;
}
