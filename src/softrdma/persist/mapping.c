/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * mapping.c -- the mapped areas of this process, as the kernel shows them
 *
 * There are two ways to the same information: the query of Linux 6.11, which takes less than a microsecond, and
 * the text of /proc/self/maps, which takes longer the more areas the process has.
 */

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/ioctl.h>
#include <linux/magic.h>
#include <linux/types.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "softrdma/base/high_fd.h"
#include "softrdma/persist/mapping.h"

#define MAPS "/proc/self/maps"
#define NAME_MAX_LEN 4160 /* bytes: the kernel's longest path, and " (deleted)" */

/* PROCMAP_QUERY of <linux/fs.h>: the ABI of Linux 6.11, which older headers do not have */
struct procmap_query {
	__u64 size;
	__u64 query_flags;
	__u64 query_addr;
	__u64 vma_start;
	__u64 vma_end;
	__u64 vma_flags;
	__u64 vma_page_size;
	__u64 vma_offset;
	__u64 inode;
	__u32 dev_major;
	__u32 dev_minor;
	__u32 vma_name_size;
	__u32 build_id_size;
	__u64 vma_name_addr;
	__u64 build_id_addr;
};
_Static_assert(sizeof(struct procmap_query) == 104, "an ABI of the kernel");

#define QUERY_IOCTL _IOWR('f', 17, struct procmap_query)
#define VMA_READABLE 1u
#define VMA_WRITABLE 2u
#define VMA_SHARED 8u

/* 0, EFAULT if nothing is mapped at addr, or another errno value; name may be NULL */
static int
query(int maps_fd, uintptr_t addr, struct softrdma_area *area, char *name, uint32_t name_size)
{
	struct procmap_query q = {
		.size = sizeof(q),
		.query_addr = addr,
		.vma_name_addr = (uintptr_t)name,
		.vma_name_size = name ? name_size : 0,
	};
	if (ioctl(maps_fd, QUERY_IOCTL, &q))
		return errno == ENOENT ? EFAULT : errno;

	area->start = (uintptr_t)q.vma_start;
	area->end = (uintptr_t)q.vma_end;
	area->offset = q.vma_offset;
	area->dev = makedev(q.dev_major, q.dev_minor);
	area->inode = q.inode;
	area->readable = q.vma_flags & VMA_READABLE;
	area->writable = q.vma_flags & VMA_WRITABLE;
	area->shared = q.vma_flags & VMA_SHARED;
	if (name && q.vma_name_size == 0)
		name[0] = '\0';
	return 0;
}

struct softrdma_maps {
	FILE *text; /* NULL: each look opens it */
	bool has_query;
	pthread_mutex_t lock; /* one reader of the text at a time */
};

/* qemu's user mode shows a copy, made in open(2), that never changes again and that a program after exec(2) inherits */
static bool
is_of_the_kernel(FILE *maps)
{
	struct statfs fs;
	return fstatfs(fileno(maps), &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

struct softrdma_maps *
softrdma_maps_open(void)
{
	struct softrdma_area area;
	struct softrdma_maps *maps = malloc(sizeof(*maps));
	if (maps == NULL)
		return NULL;
	maps->text = softrdma_high_stream(fopen(MAPS, "re"));
	if (maps->text == NULL) {
		free(maps);
		return NULL;
	}
	maps->has_query = false;
	if (is_of_the_kernel(maps->text)) {
		maps->has_query = query(fileno(maps->text), (uintptr_t)&area, &area, NULL, 0) == 0;
	} else {
		fclose(maps->text);
		maps->text = NULL;
	}
	pthread_mutex_init(&maps->lock, NULL);
	return maps;
}

void
softrdma_maps_close(struct softrdma_maps *maps)
{
	if (maps == NULL)
		return;
	pthread_mutex_destroy(&maps->lock);
	if (maps->text)
		fclose(maps->text);
	free(maps);
}

static int
each_by_query(int maps_fd, uintptr_t start, uintptr_t end, bool want_name,
	int (*each)(const struct softrdma_area *area, const char *name, void *arg), void *arg)
{
	char name[NAME_MAX_LEN] = "";

	for (uintptr_t addr = start; addr < end;) {
		struct softrdma_area area;
		int ret = query(maps_fd, addr, &area, want_name ? name : NULL, sizeof(name));
		if (ret == 0)
			ret = each(&area, name, arg);
		if (ret)
			return ret;
		assert(area.end > addr);
		addr = area.end;
	}
	return 0;
}

/* the kernel writes a newline inside a path as \012 */
static void
unescape(char *name)
{
	char *to = name;
	for (const char *from = name; *from;) {
		if (strncmp(from, "\\012", 4) == 0) {
			*to++ = '\n';
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
}

bool
softrdma_mapping_parse(char *line, struct softrdma_area *area, char **name_ptr)
{
	uintptr_t start, end;
	uint64_t offset, inode;
	unsigned int dev_major, dev_minor;
	char perms[5];
	int used = 0;

	if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64 "%n", &start, &end, perms,
		    &offset, &dev_major, &dev_minor, &inode, &used) != 7 ||
		strlen(perms) != 4 || start >= end)
		return false;

	*area = (struct softrdma_area){
		.start = start,
		.end = end,
		.offset = offset,
		.dev = makedev(dev_major, dev_minor),
		.inode = inode,
		.readable = perms[0] == 'r',
		.writable = perms[1] == 'w',
		.shared = perms[3] == 's',
	};
	char *name = line + used;
	name += strspn(name, " ");
	name[strcspn(name, "\n")] = '\0';
	unescape(name);
	*name_ptr = name;
	return true;
}

static int
each_by_text(FILE *maps, uintptr_t start, uintptr_t end,
	int (*each)(const struct softrdma_area *area, const char *name, void *arg), void *arg)
{
	char *line = NULL;
	size_t line_size = 0;
	uintptr_t addr = start;
	int ret = 0;
	while (ret == 0 && addr < end) {
		struct softrdma_area area;
		char *name;
		if (getline(&line, &line_size, maps) < 0) {
			ret = feof(maps) ? EFAULT : ENOMEM;
			break;
		}
		if (!softrdma_mapping_parse(line, &area, &name) || area.end <= addr)
			continue;
		ret = area.start > addr ? EFAULT : each(&area, name, arg);
		addr = area.end;
	}
	free(line);
	return ret;
}

/* a look of its own */
static int
each_once(uintptr_t start, uintptr_t end,
	int (*each)(const struct softrdma_area *area, const char *name, void *arg), void *arg)
{
	FILE *maps = softrdma_high_stream(fopen(MAPS, "re"));
	if (maps == NULL)
		return errno;
	int ret = each_by_text(maps, start, end, each, arg);
	fclose(maps);
	return ret;
}

int
softrdma_mapping_each(struct softrdma_maps *maps, uintptr_t start, uintptr_t end, bool want_name,
	int (*each)(const struct softrdma_area *area, const char *name, void *arg), void *arg)
{
	assert(start < end);
	if (maps == NULL || maps->text == NULL)
		return each_once(start, end, each, arg);
	if (maps->has_query)
		return each_by_query(fileno(maps->text), start, end, want_name, each, arg);
	pthread_mutex_lock(&maps->lock);
	rewind(maps->text);
	int ret = each_by_text(maps->text, start, end, each, arg);
	pthread_mutex_unlock(&maps->lock);
	return ret;
}

bool
softrdma_mapping_is_sync(uintptr_t start)
{
	FILE *smaps = softrdma_high_stream(fopen("/proc/self/smaps", "re"));
	if (smaps == NULL)
		return false;

	char *line = NULL;
	size_t line_size = 0;
	bool found = false, sync = false;
	while (getline(&line, &line_size, smaps) > 0) {
		struct softrdma_area area;
		char *name;
		if (softrdma_mapping_parse(line, &area, &name)) {
			if (found)
				break;
			found = area.start == start;
		} else if (found && strncmp(line, "VmFlags:", 8) == 0) {
			sync = strstr(line, " sf") != NULL; /* flags have two letters each */
			break;
		}
	}
	free(line);
	fclose(smaps);
	return sync;
}
