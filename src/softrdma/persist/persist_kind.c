/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* persist_kind.c -- what stores a mapped file, and therefore what makes it durable */

#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "softrdma/base/env.h"
#include "softrdma/base/high_fd.h"
#include "softrdma/persist/persist_kind.h"

/* some versions of the headers have no names for these */
#define DMA_BUF_FS 0x444d4142
#define SECRETMEM_FS 0x5345434d
#define CIFS_FS 0xff534d42
#define SMB2_FS 0xfe534d42
#define FUSE_FS 0x65735546
#define CEPH_FS 0x00c36400

/* file systems that show data of the kernel, or whose mappings are something other than stored bytes */
static const unsigned int no_storage[] = {
	PROC_SUPER_MAGIC,
	SYSFS_MAGIC,
	DEBUGFS_MAGIC,
	TRACEFS_MAGIC,
	SECURITYFS_MAGIC,
	CGROUP_SUPER_MAGIC,
	CGROUP2_SUPER_MAGIC,
	BPF_FS_MAGIC,
	ANON_INODE_FS_MAGIC,
	SOCKFS_MAGIC,
	PIPEFS_MAGIC,
	DMA_BUF_FS,
	SECRETMEM_FS,
};

#define IN_MEMORY "it survives the process, not a power failure"
#define OF_SERVER \
	"it is as durable as the server of that file system makes it, which cannot be seen from here"

/* gives the path in sysfs where the kernel describes a device; "" if it does not */
static void
find_in_sysfs(const char *kind, dev_t dev, const char *rest, char *target, size_t size)
{
	char path[80];
	snprintf(path, sizeof(path), "/sys/dev/%s/%u:%u%s", kind, major(dev), minor(dev), rest);
	ssize_t len = readlink(path, target, size - 1);
	target[len > 0 ? len : 0] = '\0';
}

/* true if the device with this path in sysfs is known to hold an ext4 without a journal */
static bool
has_no_journal(const char *device)
{
	char path[320], task[8] = "";
	const char *name = strrchr(device, '/');
	snprintf(path, sizeof(path), "/sys/fs/ext4%s/journal_task", name ? name : "");
	int fd = softrdma_high_fd(open(path, O_RDONLY | O_CLOEXEC));
	ssize_t len = fd >= 0 ? read(fd, task, sizeof(task) - 1) : 0;
	if (fd >= 0)
		close(fd);
	return len > 0 && strncmp(task, "<none>", 6) == 0;
}

/* file systems and devices on which a flush guarantees less than on a local disk */
static struct lesser {
	const unsigned int magic; /* of the file system; 0: the entry is about a device */
	const char *const device; /* a part of the device's path in sysfs */
	const char *const name, *const worth;
	atomic_bool told;
	bool (*const also)(const char *device); /* a further condition; NULL: none */
} lesser[] = {
	{ TMPFS_MAGIC, NULL, "a file system in memory", IN_MEMORY, false, NULL },
	{ HUGETLBFS_MAGIC, NULL, "a file system in memory", IN_MEMORY, false, NULL },
	{ RAMFS_MAGIC, NULL, "a file system in memory", IN_MEMORY, false, NULL },
	{ OVERLAYFS_SUPER_MAGIC, NULL, "an overlay file system",
		"it is as durable as the upper layer, which may be in memory", false, NULL },
	{ NFS_SUPER_MAGIC, NULL, "NFS", OF_SERVER, false, NULL },
	{ CIFS_FS, NULL, "CIFS", OF_SERVER, false, NULL },
	{ SMB2_FS, NULL, "CIFS", OF_SERVER, false, NULL },
	{ V9FS_MAGIC, NULL, "9p", OF_SERVER, false, NULL },
	{ CEPH_FS, NULL, "Ceph", OF_SERVER, false, NULL },
	{ FUSE_FS, NULL, "FUSE", OF_SERVER, false, NULL },
	{ 0, "/block/ram", "a RAM disk", IN_MEMORY, false, NULL },
	{ 0, "/block/zram", "a compressed RAM disk", IN_MEMORY, false, NULL },
	{ 0, "/block/loop", "a loop device",
		"some kernels report success although the file system of its image was full", false, NULL },
	{ EXT4_SUPER_MAGIC, NULL, "an ext4 without a journal",
		"some kernels report success before the disk knows where new blocks are", false,
		has_no_journal },
};

static bool
is_dax_device(dev_t rdev)
{
	char target[256];
	find_in_sysfs("char", rdev, "/subsystem", target, sizeof(target));
	const char *last = strrchr(target, '/');
	return last && strcmp(last, "/dax") == 0; /* the bus; in older kernels the class */
}

bool
softrdma_kind_is_dax_mapping(int fd, const struct softrdma_area *area)
{
	/* the kernel's attribute often avoids reading smaps, which takes longer */
	struct statx stx;
	if (statx(fd, "", AT_EMPTY_PATH, 0, &stx) == 0 && (stx.stx_attributes_mask & STATX_ATTR_DAX) &&
		!(stx.stx_attributes & STATX_ATTR_DAX))
		return false;
	return softrdma_mapping_is_sync(area->start);
}

static const char *
kind_of_regular(int fd, const struct softrdma_area *area, enum softrdma_kind *kind)
{
	struct statfs fs;
	/* message(why-not-durable) */
	if (fstatfs(fd, &fs))
		return "its file system is unknown";

	unsigned int magic = (unsigned int)fs.f_type;
	for (size_t i = 0; i < sizeof(no_storage) / sizeof(no_storage[0]); i++)
		/* message(why-not-durable) */
		if (magic == no_storage[i])
			return "its file system stores nothing";

	if (magic == TMPFS_MAGIC || magic == HUGETLBFS_MAGIC || magic == RAMFS_MAGIC)
		*kind = SOFTRDMA_KIND_MEMORY;
	else
		*kind = softrdma_kind_is_dax_mapping(fd, area) ? SOFTRDMA_KIND_DAX : SOFTRDMA_KIND_DISK;
	return NULL;
}

const char *
softrdma_kind_of(int fd, const struct softrdma_area *area, const struct stat *st, enum softrdma_kind *kind)
{
	if (S_ISREG(st->st_mode))
		return kind_of_regular(fd, area, kind);
	*kind = S_ISBLK(st->st_mode) ? SOFTRDMA_KIND_DISK : SOFTRDMA_KIND_DAX;
	if (S_ISBLK(st->st_mode) || (S_ISCHR(st->st_mode) && is_dax_device(st->st_rdev)))
		return NULL;
	/* message(why-not-durable) */
	return "it is neither a file nor a DAX device";
}

void
softrdma_kind_warn(int fd, const struct stat *st, const char *name)
{
	struct statfs fs;
	char device[256] = "";
	bool is_file = S_ISREG(st->st_mode), is_device = S_ISBLK(st->st_mode);
	bool known = is_file && fstatfs(fd, &fs) == 0;
	if (is_file || is_device)
		find_in_sysfs("block", is_device ? st->st_rdev : st->st_dev, "", device, sizeof(device));
	for (struct lesser *at = lesser; at < lesser + sizeof(lesser) / sizeof(lesser[0]); at++) {
		bool fits = at->magic ? known && (unsigned int)fs.f_type == at->magic
				      : strstr(device, at->device) != NULL;
		/* a cause that was logged once need not be checked again */
		if (!fits || atomic_load(&at->told) || (at->also && !at->also(device)))
			continue;
		/*
		 * message(memory): once for each kind of storage: a flush is accepted, and is worth less
		 * than on a local disk -> Decide if that is enough; *tmpfs* survives the process, not a
		 * power failure.
		 */
		if (!atomic_exchange(&at->told, true))
			SOFTRDMA_LOG(WARNING, "persistent memory on %s (%s): %s (said once)", at->name, name,
				at->worth);
	}
}
