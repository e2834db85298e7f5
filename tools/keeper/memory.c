/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* memory.c -- the memory that the keeper lends */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libpmem2.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "durable_file.h"
#include "memory.h"

#define PAGE_SHIFT 12
#define LINE_SHIFT 6

static bool
open_anonymous(struct memory *memory, uint64_t size, char why[static WHY_MAX])
{
	const struct identity_file none = { 0 };

	/* shared, as that of a file is: a flush to visibility and its cost are the same */
	void *ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ptr == MAP_FAILED)
		return why_say(why, "%" PRIu64 " bytes of memory: %m", size);
	memory->ptr = ptr;
	memory->size = size;
	memory->persistence = KEEPER_VOLATILE;
	memory->block_shift = PAGE_SHIFT;
	memory->created = true;
	return identity_new(&memory->identity, &none, why);
}

static bool
lock(const struct memory *memory, const char *path, bool read_only, char why[static WHY_MAX])
{
	if (flock(memory->fd, (read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0)
		return true;
	return errno == EWOULDBLOCK ? why_say(why, "%s: another keeper lends it", path)
				    : why_say(why, "locking %s: %m", path);
}

/* a record that is there already is about an earlier file, whose number in the file system the new one may get */
static bool
forget_identity(const char *identity_path, char why[static WHY_MAX])
{
	if (unlink(identity_path) == 0)
		return durable_file_sync_directory(identity_path, why);
	return errno == ENOENT || why_say(why, "removing %s: %m", identity_path);
}

/*
 * The file gets its blocks under a name that no other file has, and its own name last. So a file that has the name is
 * complete, also if the keeper or the machine died meanwhile. link() does not replace the file of a keeper that was
 * faster.
 */
static bool
create_file(struct memory *memory, const char *path, uint64_t size, char why[static WHY_MAX])
{
	char fresh[PATH_MAX];

	if (snprintf(fresh, sizeof(fresh), "%s.new-XXXXXX", path) >= (int)sizeof(fresh))
		return why_say(why, "%s: the path is too long", path);
	memory->fd = mkostemp(fresh, O_CLOEXEC);
	if (memory->fd < 0)
		return why_say(why, "creating %s: %m", fresh);
	bool good = lock(memory, fresh, false, why) && forget_identity(memory->identity_path, why);
	/* all blocks now: a disk that is full later would end a client's connection */
	int errnum = good ? posix_fallocate(memory->fd, 0, (off_t)size) : 0;
	if (errnum)
		good = why_say(why, "%" PRIu64 " bytes of %s: %s", size, fresh, strerror(errnum));
	if (good && fsync(memory->fd))
		good = why_say(why, "syncing %s: %m", fresh);
	if (good && link(fresh, path))
		good = why_say(why, "giving %s the name %s: %m", fresh, path);
	(void)unlink(fresh);
	memory->created = good;
	return good && durable_file_sync_directory(path, why);
}

static bool
check_size(const char *path, uint64_t wanted, uint64_t size, char why[static WHY_MAX])
{
	if (wanted && wanted != size)
		return why_say(why, "%s has %" PRIu64 " bytes and not %" PRIu64, path, size, wanted);
	if (size == 0 || size % MEMORY_ALIGNMENT)
		return why_say(why, "%s has %" PRIu64 " bytes, which is no multiple of %d", path, size,
			MEMORY_ALIGNMENT);
	return true;
}

/* finds the identity of memory that existed before, or gives the memory one */
static bool
identify(struct memory *memory, bool is_device, bool read_only, char why[static WHY_MAX])
{
	struct identity_file file = { 0 };
	struct identity recorded;

	if (!is_device && !identity_of_file(memory->fd, &file, why))
		return false;
	/* a record that is there when the file is created is about an earlier file */
	if (!memory->created) {
		switch (identity_load(memory->identity_path, &file, &recorded, why)) {
		case IDENTITY_FOUND:
			memory->identity = recorded;
			return true;
		case IDENTITY_UNREADABLE:
			return false;
		case IDENTITY_NONE:
		case IDENTITY_OF_ANOTHER_FILE:
			memory->renewed = true;
		}
	}
	/* memory that is only read may be on a medium that is only read; its identity is then a passing one */
	return identity_new(&memory->identity, &file, why) &&
		(read_only || identity_store(memory->identity_path, &memory->identity, why));
}

/* libpmem2 maps each kind as it needs: with MAP_SYNC, aligned, a device DAX */
static bool
map(struct memory *memory, const struct memory_source *source, char why[static WHY_MAX])
{
	struct pmem2_config *config = NULL;
	size_t size = 0;

	bool mapped = pmem2_config_new(&config) == 0 &&
		pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE) == 0 &&
		pmem2_config_set_protection(config,
			source->read_only ? PMEM2_PROT_READ : PMEM2_PROT_READ | PMEM2_PROT_WRITE) == 0 &&
		pmem2_source_from_fd(&memory->source, memory->fd) == 0 &&
		pmem2_source_size(memory->source, &size) == 0;
	if (!mapped) {
		pmem2_config_delete(&config);
		return why_say(why, "%s: %s", source->path, pmem2_errormsg());
	}
	if (!check_size(source->path, source->size, size, why)) {
		pmem2_config_delete(&config);
		return false;
	}
	mapped = pmem2_map_new(&memory->map, config, memory->source) == 0;
	pmem2_config_delete(&config);
	if (!mapped)
		return why_say(why, "mapping %s: %s", source->path, pmem2_errormsg());

	memory->ptr = pmem2_map_get_address(memory->map);
	memory->size = size;
	return true;
}

/* a file in memory ends with the machine, although the library accepts it as persistent */
static bool
classify(struct memory *memory, const char *path, char why[static WHY_MAX])
{
	struct statfs fs;

	memory->block_shift = PAGE_SHIFT;
	if (pmem2_map_get_store_granularity(memory->map) != PMEM2_GRANULARITY_PAGE) {
		memory->persistence = KEEPER_LINES;
		memory->block_shift = LINE_SHIFT;
		return true;
	}
	if (fstatfs(memory->fd, &fs))
		return why_say(why, "%s: %m", path);
	memory->persistence =
		fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC
		? KEEPER_VOLATILE
		: KEEPER_PAGES;
	return true;
}

char *
memory_identity_path(const struct memory_source *source)
{
	char *path;

	if (source->identity_path)
		return strdup(source->identity_path);
	return asprintf(&path, "%s.identity", source->path) < 0 ? NULL : path;
}

static bool
open_file(struct memory *memory, const struct memory_source *source, char why[static WHY_MAX])
{
	struct stat st = { 0 };

	bool exists = stat(source->path, &st) == 0;
	if (!exists && errno != ENOENT)
		return why_say(why, "%s: %m", source->path);
	if (exists && !S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))
		return why_say(why, "%s is neither a file nor a device DAX", source->path);
	if (S_ISCHR(st.st_mode) && source->identity_path == NULL)
		return why_say(why, "%s: a device DAX needs identity=FILE, a file on a disk", source->path);
	memory->identity_path = memory_identity_path(source);
	if (memory->identity_path == NULL)
		return why_say(why, "out of memory");

	if (exists) {
		memory->fd = open(source->path, (source->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
		if (memory->fd < 0)
			return why_say(why, "opening %s: %m", source->path);
	} else if (source->read_only || source->size == 0) {
		return why_say(why, "%s does not exist%s", source->path,
			source->read_only ? "" : ", and no size= says how large it is to be");
	} else if (!create_file(memory, source->path, source->size, why)) {
		return false;
	}
	return lock(memory, source->path, source->read_only, why) && map(memory, source, why) &&
		classify(memory, source->path, why) &&
		identify(memory, S_ISCHR(st.st_mode), source->read_only, why);
}

bool
memory_open(struct memory *memory, const struct memory_source *source, char why[static WHY_MAX])
{
	*memory = (struct memory){ .fd = -1 };
	bool good = source->path ? open_file(memory, source, why) : open_anonymous(memory, source->size, why);
	if (!good)
		memory_close(memory);
	return good;
}

/* after a failure the record may be the earlier one or this one, and it must be written before anyone relies on it */
static bool
record(struct memory *memory, const struct identity *identity, char why[static WHY_MAX])
{
	memory->unrecorded = memory->identity_path && !identity_store(memory->identity_path, identity, why);
	return !memory->unrecorded;
}

bool
memory_record_writer(struct memory *memory, uint64_t client, char why[static WHY_MAX])
{
	struct identity with = memory->identity;

	with.last_writer = client;
	if (!record(memory, &with, why))
		return false;
	memory->identity = with;
	return true;
}

bool
memory_record_failure(struct memory *memory, char why[static WHY_MAX])
{
	memory->identity.failed = true;
	return record(memory, &memory->identity, why);
}

bool
memory_record_again(struct memory *memory, char why[static WHY_MAX])
{
	return !memory->unrecorded || record(memory, &memory->identity, why);
}

bool
memory_clear_failure(const struct memory_source *source, bool *was_failed, char why[static WHY_MAX])
{
	/* without a size no file is created; and the record is written, also if the memory is lent for reading only */
	const struct memory_source existing = { .path = source->path,
		.identity_path = source->identity_path };
	struct memory memory;

	if (!memory_open(&memory, &existing, why))
		return false;
	*was_failed = memory.identity.failed;
	memory.identity.failed = false;
	bool good = !*was_failed || identity_store(memory.identity_path, &memory.identity, why);
	memory_close(&memory);
	return good;
}

bool
memory_flush(struct memory *memory, char why[static WHY_MAX])
{
	if (memory->map == NULL || memory->persistence == KEEPER_VOLATILE)
		return true;
	/* the function of libpmem2 has no result for pages, and a disk can fail */
	if (memory->persistence == KEEPER_LINES)
		pmem2_get_persist_fn(memory->map)(memory->ptr, memory->size);
	else if (msync(memory->ptr, memory->size, MS_SYNC))
		return why_say(why, "msync: %m");
	return true;
}

void
memory_close(struct memory *memory)
{
	if (memory->map)
		(void)pmem2_map_delete(&memory->map);
	else if (memory->ptr)
		munmap(memory->ptr, memory->size);
	if (memory->source)
		(void)pmem2_source_delete(&memory->source);
	if (memory->fd >= 0)
		close(memory->fd);
	free(memory->identity_path);
	*memory = (struct memory){ .fd = -1 };
}
