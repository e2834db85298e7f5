/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* local_peer.c -- a local peer: another process on the same host, with its registry and its memory */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/copy.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/high_fd.h"
#include "softrdma/persist/mapping.h"
#include "softrdma/samehost/local_peer.h"

#define REGISTRY_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

/* bytes of a mapping's block, which is populated as a whole on its first use */
#define BLOCK ((size_t)2 << 20)

#define PROC_PATH_MAX 64

struct softrdma_local_peer {
	struct softrdma_local_peer *next; /* under the lock */
	unsigned users;                   /* under the lock */
	pid_t pid;
	const struct softrdma_registry *registry;
};

static pthread_mutex_t local_peers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct softrdma_local_peer *local_peers;

static void
after_fork(void)
{
	softrdma_fork_keep(local_peers);
	local_peers = NULL;
	local_peers_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

/* --- registries --- */

/* true if the file belongs to this user, has the size of a registry, and is a regular file, safe to open */
static bool
looks_like_a_registry(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_size == sizeof(struct softrdma_registry) &&
		st->st_uid == geteuid();
}

/* opens the other process's descriptor by its path in /proc; in another PID namespace the path may name another file */
static const struct softrdma_registry *
map_registry(const struct softrdma_shm_offer *offer)
{
	char path[PROC_PATH_MAX];
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/fd/%" PRIu32, offer->pid, offer->fd);
	struct stat st;
	if (stat(path, &st) != 0 || !looks_like_a_registry(&st))
		return NULL;
	int fd = softrdma_high_fd(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
	if (fd < 0)
		return NULL;
	void *map = MAP_FAILED;
	int seals = fcntl(fd, F_GET_SEALS);
	/* the number may refer to another file by now */
	if (fstat(fd, &st) == 0 && looks_like_a_registry(&st) && seals >= 0 &&
		(seals & REGISTRY_SEALS) == REGISTRY_SEALS)
		map = mmap(NULL, sizeof(struct softrdma_registry), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return NULL;
	const struct softrdma_registry *registry = map;
	if (registry->magic == SOFTRDMA_REGISTRY_MAGIC &&
		memcmp(registry->id, offer->id, sizeof(registry->id)) == 0)
		return registry;
	munmap(map, sizeof(*registry));
	return NULL;
}

/* the caller holds the lock */
static struct softrdma_local_peer *
find(const struct softrdma_shm_offer *offer)
{
	struct softrdma_local_peer *local_peer = local_peers;
	while (local_peer && memcmp(local_peer->registry->id, offer->id, sizeof(offer->id)) != 0)
		local_peer = local_peer->next;
	return local_peer;
}

/* the caller holds the lock */
static struct softrdma_local_peer *
add(const struct softrdma_shm_offer *offer)
{
	struct softrdma_local_peer *local_peer = calloc(1, sizeof(*local_peer));
	if (local_peer == NULL)
		return NULL;
	local_peer->registry = map_registry(offer);
	if (local_peer->registry == NULL) {
		free(local_peer);
		return NULL;
	}
	local_peer->pid = (pid_t)offer->pid;
	local_peer->next = local_peers;
	local_peers = local_peer;
	return local_peer;
}

struct softrdma_local_peer *
softrdma_local_peer_meet(const struct softrdma_shm_offer *offer)
{
	pthread_mutex_lock(&local_peers_lock);
	struct softrdma_local_peer *local_peer = find(offer);
	if (local_peer == NULL)
		local_peer = add(offer);
	if (local_peer)
		local_peer->users++;
	pthread_mutex_unlock(&local_peers_lock);
	return local_peer;
}

void
softrdma_local_peer_leave(struct softrdma_local_peer *local_peer)
{
	pthread_mutex_lock(&local_peers_lock);
	bool last = --local_peer->users == 0;
	if (last) {
		struct softrdma_local_peer **at = &local_peers;
		while (*at != local_peer)
			at = &(*at)->next;
		*at = local_peer->next;
	}
	pthread_mutex_unlock(&local_peers_lock);
	if (!last)
		return;
	munmap((void *)(uintptr_t)local_peer->registry, sizeof(*local_peer->registry));
	free(local_peer);
}

const struct softrdma_registry *
softrdma_local_peer_registry(const struct softrdma_local_peer *local_peer)
{
	return local_peer->registry;
}

bool
softrdma_local_peer_alive(const struct softrdma_local_peer *local_peer)
{
	return softrdma_registry_is_held(&local_peer->registry->alive);
}

/* --- mappings --- */

/* finds the area that contains the whole region; false: there is no such area */
static bool
find_area(pid_t pid, uint64_t start, uint64_t end, struct softrdma_area *area, char **name_ptr)
{
	char path[PROC_PATH_MAX];
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *maps = softrdma_high_stream(fopen(path, "re"));
	if (maps == NULL)
		return false;
	char *line = NULL, *name = NULL;
	size_t line_size = 0;
	bool found = false;
	while (!found && getline(&line, &line_size, maps) > 0)
		found = softrdma_mapping_parse(line, area, &name) && area->start <= start && area->end >= end;
	*name_ptr = found ? strdup(name) : NULL;
	free(line);
	fclose(maps);
	return *name_ptr != NULL;
}

static bool
is_file_of(const struct stat *st, const struct softrdma_area *area)
{
	return S_ISREG(st->st_mode) && st->st_ino == area->inode && st->st_dev == area->dev;
}

/*
 * Checks the file first, because opening something other than a file may have effects. Checks it again after
 * opening it, because the name may refer to another file by then.
 */
static int
open_if_same(const char *path, const struct softrdma_area *area)
{
	struct stat st;
	if (stat(path, &st) != 0 || !is_file_of(&st, area))
		return -1;
	int fd = softrdma_high_fd(open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
	if (fd >= 0 && (fstat(fd, &st) != 0 || !is_file_of(&st, area))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* finds the file among the other process's descriptors, where a memfd or a deleted file may still be open */
static int
open_descriptor_of(pid_t pid, const struct softrdma_area *area)
{
	char path[PROC_PATH_MAX];
	int len = snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	if (dir == NULL)
		return -1;
	int fd = -1;
	struct dirent *entry;
	while (fd < 0 && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path + len, sizeof(path) - (size_t)len, "/%.20s", entry->d_name);
		fd = open_if_same(path, area);
	}
	closedir(dir);
	return fd;
}

/* opens the file that contains the region, if it may be mapped here; -1: it may not */
static int
open_file(pid_t pid, const struct softrdma_registry_region *region, bool trust_files,
	struct softrdma_area *area)
{
	char *name;
	if (!find_area(pid, region->addr, region->addr + region->length, area, &name))
		return -1;
	int fd = -1;
	bool shared = area->shared && area->inode != 0;
	bool is_memfd = strncmp(name, "/memfd:", strlen("/memfd:")) == 0;
	if (shared && trust_files)
		fd = open_if_same(name, area);
	if (shared && fd < 0 && (trust_files || is_memfd))
		fd = open_descriptor_of(pid, area);
	free(name);
	return fd;
}

/* maps a file on which a store to an allocated block cannot fail; MAP_FAILED: it is another one, or mmap has failed */
static void *
map_file(int fd, uint64_t offset, size_t length, bool trust_files)
{
	struct statfs fs;
	int seals = fcntl(fd, F_GET_SEALS);
	bool stays = trust_files || (seals >= 0 && (seals & F_SEAL_SHRINK));
	if (!stays || fstatfs(fd, &fs) != 0)
		return MAP_FAILED;
	/* refuses huge pages, which accept no MAP_SYNC: after a hole is punched, a page may be missing */
	const int flags = fs.f_type == TMPFS_MAGIC ? MAP_SHARED : MAP_SHARED_VALIDATE | MAP_SYNC;
	return mmap(NULL, length, PROT_READ | PROT_WRITE, flags, fd, (off_t)offset);
}

void
softrdma_peer_map_open(struct softrdma_peer_map *map, const struct softrdma_local_peer *local_peer,
	const struct softrdma_registry_region *region, bool trust_files)
{
	SOFTRDMA_NO_CANCEL;
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct softrdma_area area;
	map->serial = region->serial;
	map->addr = region->addr;
	map->length = region->length;
	if (region->length > SIZE_MAX / 2 || region->addr > UINT64_MAX - region->length)
		return; /* such a region cannot exist: the registry is wrong */
	int fd = open_file(local_peer->pid, region, trust_files, &area);
	if (fd < 0)
		return;
	uint64_t offset = area.offset + (region->addr - area.start);
	uint64_t skip = offset % page; /* an area begins at a page, a region need not */
	map->map_length = skip + region->length;
	map->touched = calloc(map->map_length / BLOCK + 1, 1);
	if (map->touched == NULL)
		goto out_close;
	map->map = map_file(fd, offset - skip, map->map_length, trust_files);
	if (map->map != MAP_FAILED) {
		map->base = (uint8_t *)map->map + skip;
	} else {
		free(map->touched);
		map->touched = NULL;
	}

out_close:
	close(fd);
}

void
softrdma_peer_map_close(struct softrdma_peer_map *map)
{
	if (map->base)
		munmap(map->map, map->map_length);
	free(map->touched);
	memset(map, 0, sizeof(*map));
}

/* populates a block; false where an access would raise SIGBUS, because the disk is full or memory is missing */
static bool
touch(struct softrdma_peer_map *map, size_t block)
{
	size_t offset = block * BLOCK;
	size_t left = map->map_length - offset;
	if (softrdma_copy_populate((char *)map->map + offset, left < BLOCK ? left : BLOCK) != 0)
		return false;
	map->touched[block] = 1;
	return true;
}

bool
softrdma_peer_map_holds(struct softrdma_peer_map *map, uint64_t offset, size_t len)
{
	if (offset > map->length || len > map->length - offset)
		return false;
	size_t first = (size_t)(map->base - (uint8_t *)map->map) + offset;
	for (size_t block = first / BLOCK; block <= (first + len - 1) / BLOCK; block++) {
		if (!map->touched[block] && !touch(map, block))
			return false;
	}
	return true;
}

/* --- other memory --- */

bool
softrdma_local_peer_copy(const struct softrdma_local_peer *local_peer, const struct iovec *local, int count,
	uint64_t remote, size_t len, bool from_there)
{
	const struct iovec there = { (void *)(uintptr_t)remote, len };
	ssize_t n = from_there
		? process_vm_readv(local_peer->pid, local, (unsigned long)count, &there, 1, 0)
		: process_vm_writev(local_peer->pid, local, (unsigned long)count, &there, 1, 0);
	return n == (ssize_t)len;
}
