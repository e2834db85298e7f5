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
#include "resolve.h"
#include "warm.h"

#define PAGE_SHIFT 12
#define LINE_SHIFT 6
/* another keeper has the directory for as long as it takes to give a file its name */
#define DIRECTORY_TRIES 100
#define DIRECTORY_PAUSE_US 50000

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

/*
 * A record beside the file is about an earlier one, whose number in the file system the new one may get. One that is kept
 * elsewhere may be about a file whose file system is not mounted. A file that is no record is not ours.
 */
static bool
forget_identity(const char *identity_path, bool is_beside, char why[static WHY_MAX])
{
	const struct identity_file none = { 0 };
	struct identity identity;

	switch (identity_load(identity_path, &none, &identity, why)) {
	case IDENTITY_NONE:
		return true;
	case IDENTITY_UNREADABLE:
		return false;
	case IDENTITY_FOUND:
	case IDENTITY_OF_ANOTHER_FILE:
		break;
	}
	/*
	 * message(keeper, no-memory-behind-name): status 1: the disk of the memory may not be mounted ->
	 * Mount it. If the memory is to be new: remove the link or the record.
	 */
	if (!is_beside)
		return why_say(why,
			"the memory does not exist, and %s is a record of it: mount its file system, or remove the record",
			identity_path);
	if (unlink(identity_path))
		return why_say(why, "removing %s: %m", identity_path);
	return durable_file_sync_directory(identity_path, why);
}

static bool
lock_directory(int fd, const char *path, char why[static WHY_MAX])
{
	for (int i = 0; i < DIRECTORY_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		if (errno != EWOULDBLOCK)
			return why_say(why, "locking the directory of %s: %m", path);
		(void)usleep(DIRECTORY_PAUSE_US);
	}
	/*
	 * message(keeper, two-keepers): status 1: two keepers were started with the same new file -> Start
	 * one.
	 */
	return why_say(why, "another program has locked the directory of %s", path);
}

/* as rename(2), but no file is replaced */
static int
rename_new(const char *from, const char *to)
{
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS) /* some file systems cannot do that */
		return -1;
	return rename(from, to); /* the directory is locked, and the name was free */
}

/*
 * Gives the file its name, unless another keeper was faster: then the record of the identity is that one's. An earlier
 * record is removed before, because after it the keeper may be killed.
 */
static bool
give_name(const char *fresh, const struct memory_source *source, const char *identity_path,
	char why[static WHY_MAX])
{
	const char *path = source->path;

	int fd = durable_file_open_directory(path, why);
	if (fd < 0)
		return false;
	bool good = lock_directory(fd, path, why);
	/* message(two-keepers) */
	if (good && access(path, F_OK) == 0)
		good = why_say(why, "another program has created %s meanwhile", path);
	good = good && forget_identity(identity_path, source->identity_path == NULL, why);
	if (good && rename_new(fresh, path))
		good = why_say(why, "giving %s the name %s: %m", fresh, path);
	close(fd); /* and the lock with it */
	return good;
}

/*
 * The file gets its blocks under a name that no other file has, and its own name last. So a file that has the name is
 * complete, also if the keeper or the machine died meanwhile.
 */
static bool
create_file(const struct memory_source *source, const char *identity_path, char why[static WHY_MAX])
{
	const char *path = source->path;
	const uint64_t size = source->size;
	char fresh[PATH_MAX];

	if (snprintf(fresh, sizeof(fresh), "%s.new-XXXXXX", path) >= (int)sizeof(fresh))
		return why_say(why, "%s: the path is too long", path);
	int fd = mkostemp(fresh, O_CLOEXEC);
	if (fd < 0)
		return why_say(why, "creating %s: %m", fresh);
	bool good = true;
	/* all blocks now: a disk that is full later would end a client's connection */
	int errnum = posix_fallocate(fd, 0, (off_t)size);
	if (errnum)
		good = why_say(why, "%" PRIu64 " bytes of %s: %s", size, fresh, strerror(errnum));
	if (good && fsync(fd))
		good = why_say(why, "syncing %s: %m", fresh);
	good = good && give_name(fresh, source, identity_path, why);
	if (!good)
		(void)unlink(fresh);
	close(fd);
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

/*
 * Whether the record that was found is that of the file. A file that carries an identity was lent with a record of it: if
 * that is not there, or is about an earlier time, what the keeper knows of the last writer and of failures is not true.
 */
static bool
is_of_the_file(const struct memory_source *source, const char *identity_path, enum identity_found record,
	const struct identity *recorded, const struct identity_stamp *stamp, char why[static WHY_MAX])
{
	char id[IDENTITY_TEXT_SIZE];

	if (source->read_only || !stamp->is_there ||
		(record == IDENTITY_FOUND && memcmp(stamp->id, recorded->id, sizeof(stamp->id)) == 0))
		return true;
	identity_text(stamp->id, id);
	/*
	 * message(keeper): status 1: the file carries an identity, and the record that was found is not
	 * about it -> Mount the disk of the record; give the keeper's `identity=`; rename the record as the
	 * file was renamed.
	 */
	return why_say(why,
		"%s was lent with another record than %s (identity %s): is its file system mounted, or identity= missing? "
		"To make it new memory, remove its attribute: setfattr -x user.rpma-keeper",
		source->path, identity_path, id);
}

/* finds the identity that is on record, or gives the memory one */
static bool
identify(struct memory *memory, bool is_device, const struct memory_source *source, char why[static WHY_MAX])
{
	struct identity_file file = { 0 };
	struct identity *identity = &memory->identity;
	struct identity_stamp stamp = { .is_there = false };
	char unsaid[WHY_MAX];
	/* memory that is only read may be on a medium that is only read; its identity is then a passing one */
	const bool keeps = !source->read_only && !source->no_new_record;

	if (!is_device &&
		(!identity_of_file(memory->fd, &file, why) || !identity_stamp_load(memory->fd, &stamp, why)))
		return false;
	const enum identity_found found = identity_load(memory->identity_path, &file, identity, why);
	if (found == IDENTITY_UNREADABLE ||
		!is_of_the_file(source, memory->identity_path, found, identity, &stamp, why))
		return false;
	if (found != IDENTITY_FOUND) {
		memory->renewed = !memory->created;
		if (!identity_new(identity, &file, why) ||
			(keeps &&
				identity_store(memory->identity_path, identity, why) !=
					DURABLE_FILE_REPLACED))
			return false;
	}
	const bool differs = !stamp.is_there || stamp.failed != identity->failed;
	identity->failed = identity->failed || stamp.failed;
	/* after the record, which is good without it: a disk may have no room for it */
	if (keeps && !is_device && differs)
		(void)identity_stamp_store(memory->fd, identity, unsaid);
	return true;
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
classify(struct memory *memory, const struct memory_source *source, char why[static WHY_MAX])
{
	struct statfs fs;

	memory->block_shift = PAGE_SHIFT;
	if (pmem2_map_get_store_granularity(memory->map) != PMEM2_GRANULARITY_PAGE) {
		memory->persistence = KEEPER_LINES;
		memory->block_shift = LINE_SHIFT;
		return true;
	}
	if (fstatfs(memory->fd, &fs))
		return why_say(why, "%s: %m", source->path);
	/*
	 * message(keeper): status 1: a file in a container, mostly -> Lend a file of a volume. If the upper
	 * layer is on a disk: `--lend NAME=PATH,durable`.
	 */
	if (fs.f_type == OVERLAYFS_SUPER_MAGIC && !source->read_only && !source->vouched)
		return why_say(why,
			"%s is on an overlay file system, whose upper layer may be in memory: lend a file of another one, "
			"or add ,durable if it is on a disk",
			source->path);
	memory->persistence =
		fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC
		? KEEPER_VOLATILE
		: KEEPER_PAGES;
	return true;
}

/* a flush of a few bytes is to write a few pages, and a first access is not to wait for the disk */
static void
choose_pages(struct memory *memory)
{
	if (memory->persistence != KEEPER_PAGES || !warm_reserve(memory->size))
		return;
	(void)madvise(memory->ptr, memory->size, MADV_RANDOM);
	if (!memory->created)
		memory->warm = warm_start(memory->fd, memory->size);
}

char *
memory_identity_path(const struct memory_source *source)
{
	char *path, resolved[RESOLVED_MAX];

	if (source->identity_path)
		return strdup(source->identity_path);
	resolve(source->path, resolved);
	return asprintf(&path, "%s.identity", resolved) < 0 ? NULL : path;
}

/* false also if it is no memory that can be lent */
static bool
look_at(const struct memory_source *source, bool *exists, bool *is_device, char why[static WHY_MAX])
{
	struct stat st = { 0 }, link;

	*exists = stat(source->path, &st) == 0;
	*is_device = S_ISCHR(st.st_mode);
	if (!*exists && errno != ENOENT)
		return why_say(why, "%s: %m", source->path);
	/* message(no-memory-behind-name) */
	if (!*exists && lstat(source->path, &link) == 0)
		return why_say(why, "%s is a symbolic link to what does not exist", source->path);
	if (*exists && !S_ISREG(st.st_mode) && !*is_device)
		return why_say(why, "%s is neither a file nor a device DAX", source->path);
	/* message(keeper): status 1 -> Remove the other names, or make a copy. */
	if (*exists && !*is_device && st.st_nlink > 1 && !source->read_only && !source->no_new_record)
		return why_say(why, "%s has %u names (hard links), and each would have a record of its own",
			source->path, (unsigned)st.st_nlink);
	if (*is_device && source->identity_path == NULL)
		return why_say(why, "%s: a device DAX needs identity=FILE, a file on a disk", source->path);
	if (!*exists && (source->read_only || source->size == 0))
		return why_say(why, "%s does not exist%s", source->path,
			source->read_only ? "" : ", and no size= says how large it is to be");
	return true;
}

/*
 * An earlier keeper may have been killed after it gave a file its name, and before that was durable. A power cut would take the
 * name away then: of the memory, with all that was flushed; or of the record, with the last writer and a failure.
 */
static bool
make_names_durable(const struct memory *memory, const struct memory_source *source, char why[static WHY_MAX])
{
	char path[RESOLVED_MAX], identity_path[RESOLVED_MAX];

	resolve(source->path, path);
	resolve(memory->identity_path, identity_path);
	return durable_file_sync_directory(path, why) && durable_file_sync_directory(identity_path, why);
}

static bool
open_file(struct memory *memory, const struct memory_source *source, char why[static WHY_MAX])
{
	bool exists, is_device;

	if (!look_at(source, &exists, &is_device, why))
		return false;
	memory->identity_path = memory_identity_path(source);
	if (memory->identity_path == NULL)
		return why_say(why, "out of memory");
	if (!exists) {
		if (!create_file(source, memory->identity_path, why))
			return false;
		memory->created = true;
	}
	memory->fd = open(source->path, (source->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (memory->fd < 0)
		return why_say(why, "opening %s: %m", source->path);
	if (!lock(memory, source->path, source->read_only, why) || !map(memory, source, why) ||
		!classify(memory, source, why) || !identify(memory, is_device, source, why))
		return false;
	if (source->read_only || source->no_new_record)
		return true;
	/* also of a device, whose directory is in memory: that costs nothing */
	if (!make_names_durable(memory, source, why))
		return false;
	choose_pages(memory);
	return true;
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

bool
memory_record_writer(struct memory *memory, uint64_t client, char why[static WHY_MAX])
{
	struct identity with = memory->identity;
	enum durable_file_result result = DURABLE_FILE_REPLACED;

	with.last_writer = client;
	if (memory->identity_path)
		result = identity_store(memory->identity_path, &with, why);
	if (result == DURABLE_FILE_REPLACED) {
		memory->unrecorded = false;
		memory->identity = with;
	} else if (result == DURABLE_FILE_UNSURE) {
		memory->unrecorded = true;
	}
	return result == DURABLE_FILE_REPLACED;
}

/* after a failure the record is not what the identity says, and it must be written before anyone relies on it */
static bool
record(struct memory *memory, char why[static WHY_MAX])
{
	memory->unrecorded = memory->identity_path &&
		identity_store(memory->identity_path, &memory->identity, why) != DURABLE_FILE_REPLACED;
	return !memory->unrecorded;
}

bool
memory_restore_writer(struct memory *memory, uint64_t client, char why[static WHY_MAX])
{
	memory->identity.last_writer = client;
	return record(memory, why);
}

bool
memory_record_failure(struct memory *memory, char why[static WHY_MAX])
{
	char unsaid[WHY_MAX];

	memory->identity.failed = true;
	/* also on the file, for records that other paths lead to; as far as its disk takes it */
	(void)identity_stamp_store(memory->fd, &memory->identity, unsaid);
	return record(memory, why);
}

bool
memory_record_again(struct memory *memory, char why[static WHY_MAX])
{
	return !memory->unrecorded || record(memory, why);
}

bool
memory_clear_failure(const struct memory_source *source, bool *was_failed, char why[static WHY_MAX])
{
	/* without a size no file is created; and the record is written, also if the memory is lent for reading only */
	const struct memory_source existing = { .path = source->path,
		.identity_path = source->identity_path,
		.vouched = true,
		.no_new_record = true };
	struct memory memory;

	if (!memory_open(&memory, &existing, why))
		return false;
	*was_failed = memory.identity.failed;
	memory.identity.failed = false;
	bool good = !*was_failed ||
		(identity_stamp_store(memory.fd, &memory.identity, why) &&
			identity_store(memory.identity_path, &memory.identity, why) == DURABLE_FILE_REPLACED);
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
	warm_stop(memory->warm);
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
