/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* path.c -- what the machine tells about the durability of memory kept at a path */

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "file_map.h"
#include "info.h"

#define PROBE_SIZE ((off_t)2 << 20) /* a huge page: the largest alignment of a device or file system on DAX */

/* for a directory, the probe is a temporary file; else it is the file itself, which stays unchanged */
struct probe {
	int fd;
	char *created;
	struct file_map map;
};

/*
 * Parses a line of mountinfo: id, parent, device, root, mount point, options, optional fields, "-", file
 * system. The id is that of statx, which is right even where stat shows other device numbers (btrfs,
 * overlayfs).
 */
static bool
parse_mount(char *line, uint64_t id, struct info_path *path)
{
	char *rest = line;
	char *fields[5];
	for (int i = 0; i < 5; i++)
		if ((fields[i] = strsep(&rest, " ")) == NULL)
			return false;
	if (strtoull(fields[0], NULL, 10) != id || rest == NULL)
		return false;
	const char *behind = strstr(rest, " - ");
	if (behind == NULL)
		return false;
	snprintf(path->mount_point, sizeof(path->mount_point), "%.511s", fields[4]);
	snprintf(path->file_system, sizeof(path->file_system), "%.*s", (int)strcspn(behind + 3, " "),
		behind + 3);
	return true;
}

/*
 * Finds the file system by its magic number alone: below chroot(2), mountinfo may have no line for the file
 * system of the root.
 */
static void
find_file_system(struct info_path *path)
{
	static const struct {
		unsigned long magic;
		const char *name;
		bool is_in_memory;
	} known[] = {
		{ EXT4_SUPER_MAGIC, "ext4", false },
		{ XFS_SUPER_MAGIC, "xfs", false },
		{ BTRFS_SUPER_MAGIC, "btrfs", false },
		{ OVERLAYFS_SUPER_MAGIC, "overlay", false },
		{ NFS_SUPER_MAGIC, "nfs", false },
		{ TMPFS_MAGIC, "tmpfs", true },
		{ RAMFS_MAGIC, "ramfs", true },
		{ HUGETLBFS_MAGIC, "hugetlbfs", true },
	};
	struct statfs stfs;

	snprintf(path->file_system, sizeof(path->file_system), "unknown");
	if (statfs(path->path, &stfs))
		return;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if ((unsigned long)stfs.f_type != known[i].magic)
			continue;
		snprintf(path->file_system, sizeof(path->file_system), "%s", known[i].name);
		path->is_in_memory = known[i].is_in_memory;
	}
}

/* the mount tells more: ext3 or ext4, tmpfs or devtmpfs, and the mount point */
static void
find_mount(struct info_path *path)
{
	struct statx stx;
	if (statx(AT_FDCWD, path->path, 0, STATX_MNT_ID, &stx))
		return;
	path->is_dax = stx.stx_attributes & STATX_ATTR_DAX;
	FILE *file = stx.stx_mask & STATX_MNT_ID ? fopen("/proc/self/mountinfo", "re") : NULL;
	if (file == NULL)
		return;
	char *line = NULL;
	size_t size = 0;
	while (getline(&line, &size, file) > 0)
		if (parse_mount(line, stx.stx_mnt_id, path))
			break;
	free(line);
	fclose(file);
}

static bool
probe_open(struct probe *probe, struct info_path *path)
{
	struct stat st;
	if (stat(path->path, &st)) {
		snprintf(path->why_not, sizeof(path->why_not), "%m");
		return false;
	}
	if (!S_ISDIR(st.st_mode)) {
		probe->fd = open(path->path, O_RDWR | O_CLOEXEC);
	} else if (asprintf(&probe->created, "%s/rpma-info-XXXXXX", path->path) < 0) {
		probe->created = NULL;
	} else {
		probe->fd = mkostemp(probe->created, O_CLOEXEC);
		if (probe->fd < 0) {
			free(probe->created);
			probe->created = NULL;
		}
	}
	if (probe->fd < 0 || (probe->created && ftruncate(probe->fd, PROBE_SIZE))) {
		/* message(info, why-nothing-found): the reasons why nothing can be found out about memory */
		snprintf(path->why_not, sizeof(path->why_not), "a file cannot be opened for writing: %m");
		return false;
	}
	return true;
}

static bool
probe_map(struct probe *probe, struct info_path *path)
{
	static const enum info_granularity granularities[] = {
		[FILE_GRANULARITY_BYTE] = GRANULARITY_BYTE,
		[FILE_GRANULARITY_CACHE_LINE] = GRANULARITY_CACHE_LINE,
		[FILE_GRANULARITY_PAGE] = GRANULARITY_PAGE,
	};
	char reason[401];
	if (!file_map_open(&probe->map, probe->fd, 0, reason, sizeof(reason))) {
		/* message(why-nothing-found) */
		snprintf(path->why_not, sizeof(path->why_not), "it cannot be mapped: %s", reason);
		return false;
	}
	path->granularity = granularities[probe->map.granularity];
	return true;
}

static void
probe_close(struct probe *probe)
{
	file_map_close(&probe->map);
	if (probe->fd >= 0)
		close(probe->fd);
	if (probe->created) {
		(void)unlink(probe->created);
		free(probe->created);
	}
}

/* true if the region's descriptor offers flushing to persistence, which is what a client would see */
static bool
is_offered(const struct rpma_mr_local *mr)
{
	char descriptor[64];
	size_t size;
	struct rpma_mr_remote *seen = NULL;
	int flush = 0;
	if (rpma_mr_get_descriptor_size(mr, &size) || size > sizeof(descriptor) ||
		rpma_mr_get_descriptor(mr, descriptor) ||
		rpma_mr_remote_from_descriptor(descriptor, size, &seen))
		return false;
	(void)rpma_mr_remote_get_flush_type(seen, &flush);
	(void)rpma_mr_remote_delete(&seen);
	return flush & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
}

static void
try_flush(const struct probe *probe, const struct info_device *device, bool *can_flush,
	char why_not[static INFO_TEXT_MAX])
{
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *mr = NULL;
	if (!device->is_usable) {
		snprintf(why_not, INFO_TEXT_MAX, "the device cannot be used");
		return;
	}
	/* one page is enough for the test and fits into small limits */
	size_t size = probe->map.size;
	size = size < 4096 ? size : 4096;
	if (rpma_peer_new(device->context, &peer) ||
		rpma_mr_reg(peer, probe->map.ptr, size,
			RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC |
				RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT,
			&mr))
		snprintf(why_not, INFO_TEXT_MAX, "%s", rpma_errormsg());
	else if (!is_offered(mr))
		snprintf(why_not, INFO_TEXT_MAX,
			"the device does not take it for memory that can be made durable");
	else
		*can_flush = true;
	(void)rpma_mr_dereg(&mr);
	(void)rpma_peer_delete(&peer);
}

void
info_find_path(struct info *info, const char *text)
{
	struct info_path *path = &info->path;
	struct probe probe = { .fd = -1 };
	path->path = text;
	find_file_system(path);
	find_mount(path);
	if (probe_open(&probe, path) && probe_map(&probe, path))
		for (int i = 0; i < info->device_count; i++)
			try_flush(&probe, &info->devices[i], &path->can_flush[i], path->flush_why_not[i]);
	probe_close(&probe);
}

const char *
info_granularity_name(enum info_granularity granularity)
{
	static const char *const names[] = {
		[GRANULARITY_UNKNOWN] = "unknown",
		[GRANULARITY_BYTE] = "byte",
		[GRANULARITY_CACHE_LINE] = "cache line",
		[GRANULARITY_PAGE] = "page",
	};
	return names[granularity];
}

const char *
info_path_meaning(const struct info_path *path)
{
	if (path->is_in_memory && path->granularity != GRANULARITY_UNKNOWN)
		return "a file system in RAM: its content survives processes, but neither a power failure nor a "
		       "restart of the machine; keep data in a file on a disk or on persistent memory";
	switch (path->granularity) {
	case GRANULARITY_BYTE:
		return "the platform saves the processor's caches when the power fails (eADR): what is visible is "
		       "durable, and direct write to persistent memory may be declared";
	case GRANULARITY_CACHE_LINE:
		return "persistent memory, without what is still in the processor's caches (ADR): direct write may be "
		       "declared only if the RDMA device bypasses them, DDIO switched off for its slot, which the "
		       "machine does not tell";
	case GRANULARITY_PAGE:
		return "no persistent memory that the processor reaches directly: direct write must not be declared; "
		       "the software device makes it durable by msync where it is a file on a disk";
	default:
		return NULL;
	}
}
