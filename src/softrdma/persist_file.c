/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * persist_file.c -- the files behind registered memory: of which kind they are, and held while in use
 *
 * A file is held by a descriptor that was opened with O_PATH. It keeps the inode, and so its number, from
 * being used again, and needs no right to read the file. Above all, closing it does not drop the record locks
 * (fcntl) that the application may hold on its own file: closing any other descriptor would.
 *
 * The kernel reports a failed write-back once per open file, to whoever asks first. Two threads that msync()
 * the same file may so both have lost data, and only one of them is told. Therefore one object per file, one
 * msync() at a time, and a failure that stays until the last user of the file is gone.
 */

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "env.h"
#include "fork.h"
#include "persist_dax.h"
#include "persist_file.h"
#include "persist_msync.h"

/* writing 1 MiB of cache lines back takes some 100 us, as a disk does: more is not for the progress thread */
#define DAX_INLINE_MAX ((size_t)1 << 20)

#define DELETED " (deleted)"

/* no names for these in every version of the headers */
#define DMA_BUF_FS 0x444d4142
#define SECRETMEM_FS 0x5345434d

enum kind {
	KIND_DISK,   /* msync writes it to a medium */
	KIND_MEMORY, /* tmpfs, memfd, huge pages: survives the process, not the power; msync is a formality */
	KIND_DAX,    /* the processor's caches are all that is between a store and the medium */
};

struct softrdma_file {
	struct softrdma_file *next;
	unsigned int users; /* under files_lock */

	/* what the mappings of the file show, the key of the list */
	dev_t dev;
	uint64_t inode;

	int fd;
	bool sized; /* a regular file, whose size says how far a mapping is backed; devices have none */
	enum kind kind;

	pthread_mutex_t msync_lock;
	atomic_bool failed; /* of KIND_DISK, set under msync_lock */
};

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct softrdma_file *files; /* under files_lock */

/* the parent's, and so are their locks; the child holds the files of its own regions by itself */
void
softrdma_file_after_fork(void)
{
	softrdma_fork_keep(files);
	files = NULL;
	files_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* file systems that are views of the kernel or hand out mappings of something else than stored bytes */
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

static bool
ends_with(const char *text, const char *end)
{
	size_t text_len = strlen(text), end_len = strlen(end);
	return text_len >= end_len && strcmp(text + text_len - end_len, end) == 0;
}

static bool
is_memfd(const char *name)
{
	return strncmp(name, "/memfd:", 7) == 0 && ends_with(name, DELETED);
}

/*
 * Is it the file of the area? btrfs (its subvolumes) and overlayfs show one device number by stat() and
 * another one for mappings, and both of them are numbers that no real device has: then the inode's has to do.
 */
static bool
is_file_of(int fd, const struct softrdma_area *area)
{
	struct stat st;
	if (fstat(fd, &st) || st.st_ino != area->inode)
		return false;
	return st.st_dev == area->dev || major(st.st_dev) == 0;
}

/* opens path if it is the area's file; -1 if not */
static int
open_if_same(const char *path, const struct softrdma_area *area)
{
	int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd >= 0 && !is_file_of(fd, area)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* the kernel's own link to a mapped file: names what has no path any more, and needs privileges */
static int
open_map_file(const struct softrdma_area *area)
{
	char path[sizeof("/proc/self/map_files/") + 2 * 2 * sizeof(uintptr_t) + 1];
	snprintf(path, sizeof(path), "/proc/self/map_files/%" PRIxPTR "-%" PRIxPTR, area->start, area->end);
	return open(path, O_PATH | O_CLOEXEC);
}

/* a memfd or a deleted file may still be open in this process */
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
		/* by number first: most descriptors are not it */
		if (entry->d_name[0] != '.' && stat(path, &st) == 0 && st.st_ino == area->inode)
			fd = open_if_same(path, area);
	}
	closedir(dir);
	return fd;
}

static int
open_file(const struct softrdma_area *area, const char *name)
{
	int fd = -1;
	if (name[0] == '/')
		fd = open_if_same(name, area);
	if (fd < 0)
		fd = open_map_file(area);
	if (fd < 0)
		fd = open_own_descriptor(area);
	return fd;
}

static bool
is_dax_device(dev_t rdev)
{
	char path[64], target[256];
	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/subsystem", major(rdev), minor(rdev));
	ssize_t len = readlink(path, target, sizeof(target) - 1);
	if (len < 0)
		return false;
	target[len] = '\0';
	return ends_with(target, "/dax"); /* of the bus, and before that of the class */
}

/*
 * Only a mapping with MAP_SYNC is DAX in the sense of needing no msync: with any other one the file system
 * may still owe the place of the data on the medium. The kernel's attribute spares the long way through
 * smaps.
 */
static bool
is_dax_mapping(int fd, const struct softrdma_area *area)
{
	struct statx stx;
	if (statx(fd, "", AT_EMPTY_PATH, 0, &stx) == 0 && (stx.stx_attributes_mask & STATX_ATTR_DAX) &&
		!(stx.stx_attributes & STATX_ATTR_DAX))
		return false;
	return softrdma_mapping_is_sync(area->start);
}

/* what a regular file is kept in; NULL with *kind, or why it cannot be made durable */
static const char *
classify_regular(int fd, const struct softrdma_area *area, const char *name, const struct stat *st,
	enum kind *kind)
{
	struct statfs fs;
	if (fstatfs(fd, &fs))
		return "its file system is unknown";

	unsigned int magic = (unsigned int)fs.f_type;
	for (size_t i = 0; i < sizeof(no_storage) / sizeof(no_storage[0]); i++)
		if (magic == no_storage[i])
			return "its file system stores nothing";

	if (magic != TMPFS_MAGIC && magic != HUGETLBFS_MAGIC && magic != RAMFS_MAGIC) {
		*kind = is_dax_mapping(fd, area) ? KIND_DAX : KIND_DISK;
		return NULL;
	}
	/* shared anonymous memory and System V segments are nameless files of tmpfs as well */
	if (st->st_nlink == 0 && !is_memfd(name))
		return "it has no name under which another process could find it";
	*kind = KIND_MEMORY;
	return NULL;
}

static const char *
classify(int fd, const struct softrdma_area *area, const char *name, enum kind *kind, bool *sized)
{
	struct stat st;
	if (fstat(fd, &st))
		return "it cannot be looked at";

	*sized = S_ISREG(st.st_mode);
	if (S_ISREG(st.st_mode))
		return classify_regular(fd, area, name, &st, kind);

	*kind = S_ISBLK(st.st_mode) ? KIND_DISK : KIND_DAX;
	if (S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && is_dax_device(st.st_rdev)))
		return NULL;
	return "it is neither a file nor a DAX device";
}

static void
warn_of_memory(const char *name)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	if (!atomic_flag_test_and_set(&warned))
		SOFTRDMA_LOG(WARNING,
			"persistent memory on a file system in memory (%s): it survives the process, not a "
			"power failure (said once)",
			name);
}

static void
file_free(struct softrdma_file *file)
{
	pthread_mutex_destroy(&file->msync_lock);
	close(file->fd);
	free(file);
}

static int
file_new(const struct softrdma_area *area, const char *name, struct softrdma_file **file_ptr)
{
	int fd = open_file(area, name);
	if (fd < 0) {
		SOFTRDMA_LOG(WARNING, "the file behind a mapping (%s) cannot be found", name);
		return EOPNOTSUPP;
	}
	enum kind kind;
	bool sized;
	const char *refused = classify(fd, area, name, &kind, &sized);
	if (refused) {
		SOFTRDMA_LOG(WARNING, "memory mapped from %s cannot be made durable: %s", name, refused);
		close(fd);
		return EOPNOTSUPP;
	}

	int ret = kind == KIND_DAX ? softrdma_dax_init() : 0;
	struct softrdma_file *file = ret ? NULL : malloc(sizeof(*file));
	if (file == NULL) {
		close(fd);
		return ret ? ret : ENOMEM;
	}
	*file = (struct softrdma_file){
		.users = 1,
		.dev = area->dev,
		.inode = area->inode,
		.fd = fd,
		.sized = sized,
		.kind = kind,
	};
	pthread_mutex_init(&file->msync_lock, NULL);
	if (kind == KIND_MEMORY)
		warn_of_memory(name);
	*file_ptr = file;
	return 0;
}

/*
 * An object that another user holds already. One file can be mapped with MAP_SYNC and without, which are two
 * kinds: the kind of the area at hand decides.
 */
static struct softrdma_file *
file_find(const struct softrdma_area *area)
{
	for (struct softrdma_file *file = files; file; file = file->next) {
		if (file->dev != area->dev || file->inode != area->inode)
			continue;
		if (!file->sized || file->kind == KIND_MEMORY ||
			is_dax_mapping(file->fd, area) == (file->kind == KIND_DAX))
			return file;
	}
	return NULL;
}

int
softrdma_file_get(const struct softrdma_area *area, const char *name, struct softrdma_file **file_ptr)
{
	assert(area->shared);
	int ret = 0;

	pthread_mutex_lock(&files_lock);
	struct softrdma_file *file = file_find(area);
	if (file == NULL) {
		ret = file_new(area, name, &file);
		if (ret == 0) {
			file->next = files;
			files = file;
		}
	} else if (atomic_load(&file->failed)) {
		SOFTRDMA_LOG(ERROR, "writing %s to its medium has failed: deregister all its memory first",
			name);
		ret = EIO;
	} else {
		file->users++;
	}
	pthread_mutex_unlock(&files_lock);

	if (ret == 0)
		*file_ptr = file;
	return ret;
}

void
softrdma_file_put(struct softrdma_file *file)
{
	if (file == NULL)
		return;
	pthread_mutex_lock(&files_lock);
	assert(file->users > 0);
	bool last = --file->users == 0;
	if (last) {
		struct softrdma_file **link = &files;
		while (*link != file)
			link = &(*link)->next;
		*link = file->next;
	}
	pthread_mutex_unlock(&files_lock);
	if (last)
		file_free(file);
}

bool
softrdma_file_may_block(const struct softrdma_file *file, size_t len)
{
	return file->kind == KIND_DISK || (file->kind == KIND_DAX && len > DAX_INLINE_MAX);
}

bool
softrdma_file_touches_memory(const struct softrdma_file *file)
{
	return file->kind == KIND_DAX;
}

int
softrdma_file_reaches(const struct softrdma_file *file, uint64_t end_offset)
{
	if (!file->sized)
		return 0;
	/*
	 * The size alone: whoever asks for time stamps makes the next write take a new one (Linux 6.13 and
	 * later), which the next msync then has to write as well.
	 */
	struct statx stx;
	if (statx(file->fd, "", AT_EMPTY_PATH, STATX_SIZE, &stx))
		return errno;
	return stx.stx_size >= end_offset ? 0 : ENXIO;
}

/* see the top of the file: who is told of a failure is a matter of chance unless there is one asker */
static int
flush_disk(struct softrdma_file *file, const void *addr, size_t len)
{
	pthread_mutex_lock(&file->msync_lock);
	int ret = atomic_load(&file->failed) ? EIO : softrdma_msync(addr, len);
	if (ret)
		atomic_store(&file->failed, true);
	pthread_mutex_unlock(&file->msync_lock);
	return ret;
}

int
softrdma_file_flush(struct softrdma_file *file, const void *addr, size_t len)
{
	if (file->kind == KIND_DAX) {
		softrdma_dax_flush(addr, len);
		return 0;
	}
	if (file->kind == KIND_MEMORY)
		return softrdma_msync(addr, len);
	assert(file->kind == KIND_DISK);
	return flush_disk(file, addr, len);
}
