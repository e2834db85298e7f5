/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * persist_find.c -- finding the file of a mapping
 *
 * The kernel shows a path, a device number and an inode number for each mapping. The path may lead to another
 * file by now. The numbers are those of the file system, and stat(2) may report others: btrfs gives each
 * subvolume a device number of its own and the same inode numbers, overlayfs has numbers of its own.
 */

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "softrdma/base/high_fd.h"
#include "softrdma/persist/persist_find.h"

#define DELETED " (deleted)"

static bool
ends_with(const char *text, const char *end)
{
	size_t text_len = strlen(text), end_len = strlen(end);
	return text_len >= end_len && strcmp(text + text_len - end_len, end) == 0;
}

bool
softrdma_find_is_memfd(const char *name)
{
	return strncmp(name, "/memfd:", 7) == 0 && ends_with(name, DELETED);
}

/*
 * True if fd may refer to the area's file. If stat() shows no real device (major 0), the mapping may show
 * another device number. Then only the inode number is compared, and softrdma_find_is_same() decides later.
 */
static bool
may_be_file_of(int fd, const struct softrdma_area *area)
{
	struct stat st;
	return fstat(fd, &st) == 0 && st.st_ino == area->inode &&
		(st.st_dev == area->dev || major(st.st_dev) == 0);
}

/* opens path if it may be the area's file; -1 if not */
static int
open_if_same(const char *path, const struct softrdma_area *area)
{
	int fd = softrdma_high_fd(open(path, O_PATH | O_CLOEXEC));
	if (fd >= 0 && !may_be_file_of(fd, area)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* opens the kernel's own link to a mapped file, which needs privileges */
static int
open_map_file(const struct softrdma_area *area)
{
	char path[sizeof("/proc/self/map_files/") + 2 * 2 * sizeof(uintptr_t) + 1];
	snprintf(path, sizeof(path), "/proc/self/map_files/%" PRIxPTR "-%" PRIxPTR, area->start, area->end);
	return softrdma_high_fd(open(path, O_PATH | O_CLOEXEC));
}

/* finds the file among this process's descriptors, where a memfd or a deleted file may still be open */
static int
open_own_descriptor(const struct softrdma_area *area)
{
	DIR *dir = opendir("/proc/self/fd");
	if (dir == NULL)
		return -1;

	int fd = -1;
	struct dirent *entry;
	while (fd < 0 && (entry = readdir(dir)) != NULL) {
		char path[sizeof("/proc/self/fd/") + sizeof(entry->d_name)];
		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		struct stat st;
		/* the inode number first, because it excludes most descriptors */
		if (entry->d_name[0] != '.' && stat(path, &st) == 0 && st.st_ino == area->inode)
			fd = open_if_same(path, area);
	}
	closedir(dir);
	return fd;
}

int
softrdma_find_file(const struct softrdma_area *area, const char *name)
{
	/* the kernel's link is exact; a path may lead elsewhere by now, also by a mount over it */
	int fd = open_map_file(area);
	if (fd < 0 && name[0] == '/')
		fd = open_if_same(name, area);
	if (fd < 0)
		fd = open_own_descriptor(area);
	return fd;
}

/* the values that are compared with what the kernel shows for a mapping */
struct shown {
	dev_t dev;
	uint64_t inode;
	const char *name; /* NULL: any */
};

static int
compare(const struct softrdma_area *area, const char *name, void *arg)
{
	const struct shown *shown = arg;
	bool same = area->dev == shown->dev && area->inode == shown->inode &&
		(shown->name == NULL || strcmp(name, shown->name) == 0);
	return same ? 0 : 1;
}

bool
softrdma_find_is_same(const void *base, const struct softrdma_area *area, const char *name,
	const struct stat *st)
{
	struct shown shown = {
		.dev = area->dev,
		.inode = area->inode,
		.name = st->st_dev == area->dev ? NULL : name,
	};
	return softrdma_mapping_each(NULL, (uintptr_t)base, (uintptr_t)base + 1, true, compare, &shown) == 0;
}

static int
look_for_deleted(const struct softrdma_area *area, const char *name, void *arg)
{
	(void)area;
	*(bool *)arg = ends_with(name, DELETED);
	return 0;
}

bool
softrdma_find_is_deleted(const void *base)
{
	bool deleted = false;
	softrdma_mapping_each(NULL, (uintptr_t)base, (uintptr_t)base + 1, true, look_for_deleted, &deleted);
	return deleted;
}
