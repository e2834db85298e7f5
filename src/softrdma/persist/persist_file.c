/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * persist_file.c -- the files behind registered memory, held while in use and remembered afterwards
 *
 * While memory of a file is registered, a descriptor that was opened with O_PATH holds the file. It keeps the
 * inode number from being used again, and needs no permission to read the file. Closing it does not drop the
 * record locks (fcntl) that the application may hold on its own file.
 *
 * The kernel reports a failed write-back once per open file description, to the first caller that asks. If two
 * threads flush the same file, both may have lost data although only one gets the error. Therefore there is one
 * object per file, with a description of its own (persist_description.h), and one flush at a time. A failure
 * is remembered until the process ends, because the kernel counts what it could not write as written. On ext4
 * even later writes to such a page do not reach the medium until the file system is mounted again, though
 * fsync() succeeds.
 *
 * A file and its description stay known after its last region is deregistered: a write-back may fail then,
 * and the next registration of the file must learn of it.
 */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/bounds.h"
#include "softrdma/persist/persist_dax.h"
#include "softrdma/persist/persist_description.h"
#include "softrdma/persist/persist_file.h"
#include "softrdma/persist/persist_find.h"
#include "softrdma/persist/persist_kind.h"
#include "softrdma/persist/persist_msync.h"

/* bytes: writing back 1 MiB of cache lines takes about 100 us, like a disk; too long for the progress thread */
#define DAX_INLINE_MAX ((size_t)1 << 20)

/* remembered files that are checked each time that one is added: more than one, so that their number falls */
#define SWEEP_STEPS 2

/*
 * Identifies a file. Inode numbers are unique only within st_dev (btrfs has one for each subvolume) and only
 * while the file exists: a later file with the same number has another time of birth.
 */
struct identity {
	uint32_t dev_major, dev_minor;
	uint64_t inode;
	struct statx_timestamp birth; /* 0 if the file system has none */
};

struct softrdma_file {
	struct softrdma_file *next;
	unsigned int users; /* under files_lock */

	struct identity identity;
	int fd;     /* of O_PATH */
	bool sized; /* a regular file, whose size limits what of a mapping is backed; a device has no size */
	bool named; /* it must have a name, because another process could not find it otherwise */
	/* the kernel may show the same numbers for mappings of another file */
	bool ambiguous;
	enum softrdma_kind kind;

	pthread_mutex_t sync_lock;               /* taken after files_lock; one flush at a time */
	struct softrdma_description description; /* KIND_DISK only; under sync_lock */
	atomic_bool failed;                      /* KIND_DISK only; set under sync_lock */
};

/* what is remembered of a file of KIND_DISK without users */
struct idle_file {
	struct softrdma_description description; /* without a base: the entry is free */
	struct identity identity;
	bool failed;
};

/* both under files_lock */
static struct softrdma_file *files;
static struct idle_file idle_files[SOFTRDMA_IDLE_FILES_MAX];
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * The files that have failed, for a forked child: it opens descriptions of its own, which do not get errors
 * that were reported before. Entries are only added, and counted only when they are complete, so a child can
 * read them no matter what its parent's threads were doing at the fork.
 */
static struct {
	struct identity identities[SOFTRDMA_FAILED_FILES_MAX];
	atomic_uint count;
	bool inherited;       /* this process is a child */
	pthread_mutex_t lock; /* no other lock is taken under it */
} failures = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* the files and their locks stay the parent's; a child has none of the descriptions, see MADV_DONTFORK */
static void
after_fork(void)
{
	failures.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	failures.inherited = true;
	softrdma_fork_keep(files);
	files = NULL;
	memset(idle_files, 0, sizeof(idle_files));
	files_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

/* --- files that have failed --- */

static bool
same_identity(const struct identity *left, const struct identity *right)
{
	return left->dev_major == right->dev_major && left->dev_minor == right->dev_minor &&
		left->inode == right->inode && left->birth.tv_sec == right->birth.tv_sec &&
		left->birth.tv_nsec == right->birth.tv_nsec;
}

static void
note_failure(const struct identity *identity)
{
	pthread_mutex_lock(&failures.lock);
	const unsigned count = atomic_load(&failures.count);
	if (count < SOFTRDMA_FAILED_FILES_MAX) {
		failures.identities[count] = *identity;
		atomic_store(&failures.count, count + 1);
	}
	pthread_mutex_unlock(&failures.lock);
}

/*
 * For a forked child only: a parent finds its failed files by their descriptions. If the list is full, it may
 * lack some files, so every file counts as failed.
 */
static bool
has_failed(const struct identity *identity)
{
	if (!failures.inherited)
		return false;
	const unsigned count = atomic_load(&failures.count);
	for (unsigned i = 0; i < count; i++)
		if (same_identity(&failures.identities[i], identity))
			return true;
	return count == SOFTRDMA_FAILED_FILES_MAX;
}

/* --- files that are not known yet --- */

static bool
look_at_file(int fd, struct stat *st, struct statx *stx)
{
	const unsigned int wanted = STATX_TYPE | STATX_INO | STATX_NLINK | STATX_BTIME;
	return fstat(fd, st) == 0 && statx(fd, "", AT_EMPTY_PATH, wanted, stx) == 0;
}

/* sets what is known of the file; NULL, or the reason why it is refused. A memfd needs no name, unlike others. */
static const char *
classify(int fd, const struct softrdma_area *area, const char *name, struct softrdma_file *file)
{
	struct stat st;
	struct statx stx;
	/*
	 * message(memory, why-not-durable): why memory is not durable; *bytes cannot be made durable*
	 * follows -> Use a file with a name, on a file system that stores it.
	 */
	if (!look_at_file(fd, &st, &stx))
		return "it cannot be looked at";
	const char *refused = softrdma_kind_of(fd, area, &st, &file->kind);
	if (refused)
		return refused;
	file->sized = S_ISREG(st.st_mode);
	const bool memfd = file->kind == SOFTRDMA_KIND_MEMORY && softrdma_find_is_memfd(name);
	file->named = file->sized && !memfd;
	/* message(why-not-durable) */
	if (file->named && stx.stx_nlink == 0)
		return "it has no name under which another process could find it";
	/* without a device and a time of birth the number comes from a server, which may use it twice */
	const bool of_server = major(st.st_dev) == 0 && !(stx.stx_mask & STATX_BTIME);
	file->ambiguous = file->sized && (st.st_dev != area->dev || of_server);
	softrdma_kind_warn(fd, &st, name);
	file->identity = (struct identity){
		.dev_major = stx.stx_dev_major,
		.dev_minor = stx.stx_dev_minor,
		.inode = stx.stx_ino,
	};
	if (stx.stx_mask & STATX_BTIME)
		file->identity.birth = stx.stx_btime;
	return NULL;
}

/* 0, EOPNOTSUPP, or another errno value */
static int
open_description(struct softrdma_file *file, const struct softrdma_area *area, const char *name,
	uint64_t end_offset)
{
	struct stat st;
	int ret = softrdma_description_open(file->fd, end_offset, &file->description);
	if (ret == EACCES || ret == EPERM || ret == EROFS) {
		/*
		 * message(memory): the rights of the file have changed, or the process has changed its user
		 * -> Give the process the right to write the file.
		 */
		SOFTRDMA_LOG(WARNING,
			"memory mapped from %s cannot be made durable: this process may not open the file for "
			"writing (%s), and needs to, to hear of failures of the medium",
			name, strerror(ret));
		return EOPNOTSUPP;
	}
	if (ret)
		return ret;
	if (fstat(file->fd, &st) == 0 && softrdma_find_is_same(file->description.base, area, name, &st))
		return 0;
	softrdma_description_close(&file->description);
	/* message(why-not-found) */
	SOFTRDMA_LOG(WARNING, "the file behind a mapping (%s) cannot be found", name);
	return EOPNOTSUPP;
}

/* sets up what a new object needs to make its file durable */
static int
prepare(struct softrdma_file *file, const struct softrdma_area *area, const char *name, uint64_t end_offset)
{
	if (file->kind == SOFTRDMA_KIND_DAX)
		return softrdma_dax_init(name);
	if (file->kind == SOFTRDMA_KIND_DISK)
		return open_description(file, area, name, end_offset);
	return 0;
}

static void
file_free(struct softrdma_file *file)
{
	softrdma_description_close(&file->description);
	pthread_mutex_destroy(&file->sync_lock);
	if (file->fd >= 0)
		close(file->fd);
	free(file);
}

/* --- files that are in use; files_lock is held --- */

/* compares the kind too: a file mapped both with and without MAP_SYNC has two kinds and two objects */
static struct softrdma_file *
find_file(const struct softrdma_file *wanted)
{
	for (struct softrdma_file *file = files; file; file = file->next)
		if (file->kind == wanted->kind && same_identity(&file->identity, &wanted->identity))
			return file;
	return NULL;
}

static int
refuse_failed(const char *name)
{
	/*
	 * message(memory): the disk is full or broken -> Free space or replace the disk, mount the file
	 * system again, start the program again.
	 */
	SOFTRDMA_LOG(ERROR,
		"writing %s to its medium has failed: no flush of it can be trusted before its file system is "
		"mounted again and this process has been started again",
		name);
	return EIO;
}

/* adds a user; 0 or an errno value */
static int
use_file(struct softrdma_file *file, const char *name, uint64_t end_offset)
{
	int ret = 0;
	if (atomic_load(&file->failed))
		return refuse_failed(name);
	pthread_mutex_lock(&file->sync_lock);
	if (file->kind == SOFTRDMA_KIND_DISK && end_offset > file->description.len)
		ret = softrdma_description_grow(&file->description, end_offset);
	pthread_mutex_unlock(&file->sync_lock);
	if (ret == 0)
		file->users++;
	return ret;
}

/* --- files that have been in use; files_lock is held --- */

static struct idle_file *
find_idle(const struct softrdma_file *wanted)
{
	for (struct idle_file *idle = idle_files; idle < idle_files + SOFTRDMA_IDLE_FILES_MAX; idle++)
		if (wanted->kind == SOFTRDMA_KIND_DISK && idle->description.base &&
			same_identity(&idle->identity, &wanted->identity))
			return idle;
	return NULL;
}

/* a remembered file is used again: moves its description to the new object; 0 or an errno value */
static int
wake_file(struct idle_file *idle, const char *name, uint64_t end_offset, struct softrdma_file *file)
{
	if (idle->failed)
		return refuse_failed(name);
	if (end_offset > idle->description.len) {
		int ret = softrdma_description_grow(&idle->description, end_offset);
		if (ret)
			return ret;
	}
	file->description = idle->description;
	idle->description = (struct softrdma_description){ 0 };
	return 0;
}

/* syncs the file; true if all of it is on the medium, so that it need not be remembered */
static bool
is_clean(struct idle_file *idle)
{
	if (!idle->failed && softrdma_description_sync(&idle->description, 0, idle->description.len)) {
		idle->failed = true;
		note_failure(&idle->identity);
	}
	return !idle->failed;
}

/* frees the entry of a file that need not be remembered; NULL: all must be remembered */
static struct idle_file *
make_room(unsigned first)
{
	for (unsigned i = 0; i < SOFTRDMA_IDLE_FILES_MAX; i++) {
		struct idle_file *idle = &idle_files[(first + i) % SOFTRDMA_IDLE_FILES_MAX];
		if (idle->description.base && is_clean(idle)) {
			softrdma_description_close(&idle->description);
			return idle;
		}
	}
	return NULL;
}

/*
 * Forgets files that were deleted since, so that their entries become free: no process will map them again.
 * The kernel shows only one name, and a file may have others, so the file must be clean as well.
 */
static void
sweep(unsigned first)
{
	for (unsigned i = 0; i < SWEEP_STEPS; i++) {
		struct idle_file *idle = &idle_files[(first + i) % SOFTRDMA_IDLE_FILES_MAX];
		if (idle->description.base && softrdma_find_is_deleted(idle->description.base) &&
			is_clean(idle))
			softrdma_description_close(&idle->description);
	}
}

/* remembers the description of a file; false: there is no room */
static bool
remember(struct softrdma_file *file)
{
	static unsigned turn; /* index of the entry where the next search begins */
	struct idle_file *place = NULL;
	turn = (turn + SWEEP_STEPS) % SOFTRDMA_IDLE_FILES_MAX;
	sweep(turn);
	for (unsigned i = 0; i < SOFTRDMA_IDLE_FILES_MAX && place == NULL; i++)
		if (idle_files[i].description.base == NULL)
			place = &idle_files[i];
	if (place == NULL)
		place = make_room(turn);
	if (place == NULL)
		return false;
	*place = (struct idle_file){
		.description = file->description,
		.identity = file->identity,
		.failed = atomic_load(&file->failed),
	};
	file->description = (struct softrdma_description){ 0 };
	return true;
}

/* true if the file no longer has any name, so it can never be registered again */
static bool
is_nameless(const struct softrdma_file *file)
{
	struct statx stx;
	return file->sized && statx(file->fd, "", AT_EMPTY_PATH, STATX_NLINK, &stx) == 0 &&
		stx.stx_nlink == 0;
}

/* the last user is gone; if there is no entry to remember the file in, its object stays */
static void
retire(struct softrdma_file *file)
{
	if (file->kind == SOFTRDMA_KIND_DISK && !is_nameless(file) && !remember(file))
		return;
	struct softrdma_file **at = &files;
	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	file_free(file);
}

/* makes the object of a file that is not in use; allocates it first, so that no remembered file can be lost */
static int
get_unused(const struct softrdma_file *found, const struct softrdma_area *area, const char *name,
	uint64_t end_offset, struct softrdma_file **file_ptr)
{
	if (found->kind == SOFTRDMA_KIND_DISK && has_failed(&found->identity))
		return refuse_failed(name);
	struct softrdma_file *file = malloc(sizeof(*file));
	if (file == NULL)
		return ENOMEM;
	*file = *found;
	struct idle_file *idle = find_idle(found);
	int ret = idle ? wake_file(idle, name, end_offset, file) : prepare(file, area, name, end_offset);
	if (ret) {
		free(file);
		return ret;
	}
	pthread_mutex_init(&file->sync_lock, NULL);
	file->users = 1;
	file->next = files;
	files = file;
	*file_ptr = file;
	return 0;
}

/* --- the interface for regions --- */

int
softrdma_file_get(const struct softrdma_area *area, const char *name, uint64_t end_offset,
	struct softrdma_file **file_ptr)
{
	assert(area->shared);
	struct softrdma_file found = { .fd = softrdma_find_file(area, name) };
	if (found.fd < 0) {
		SOFTRDMA_LOG(WARNING, "the file behind a mapping (%s) cannot be found", name);
		return EOPNOTSUPP;
	}
	const char *refused = classify(found.fd, area, name, &found);
	if (refused) {
		/* message(why-not-durable) */
		SOFTRDMA_LOG(WARNING, "memory mapped from %s cannot be made durable: %s", name, refused);
		close(found.fd);
		return EOPNOTSUPP;
	}

	pthread_mutex_lock(&files_lock);
	struct softrdma_file *file = find_file(&found);
	const bool in_use = file != NULL;
	int ret =
		in_use ? use_file(file, name, end_offset) : get_unused(&found, area, name, end_offset, &file);
	pthread_mutex_unlock(&files_lock);

	if (ret || in_use)
		close(found.fd);
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
	if (--file->users == 0)
		retire(file);
	pthread_mutex_unlock(&files_lock);
}

bool
softrdma_file_may_block(const struct softrdma_file *file, size_t len)
{
	return file->kind == SOFTRDMA_KIND_DISK || (file->kind == SOFTRDMA_KIND_DAX && len > DAX_INLINE_MAX);
}

bool
softrdma_file_touches_memory(const struct softrdma_file *file)
{
	return file->kind == SOFTRDMA_KIND_DAX;
}

int
softrdma_file_reaches(const struct softrdma_file *file, uint64_t end_offset)
{
	if (!file->sized)
		return 0;
	/*
	 * Does not ask for time stamps: after that the next write would take new ones (Linux 6.13 and later),
	 * and the next flush would have to write them as well.
	 */
	struct statx stx;
	if (statx(file->fd, "", AT_EMPTY_PATH, STATX_SIZE | STATX_NLINK, &stx))
		return errno;
	if (file->named && stx.stx_nlink == 0)
		return ENOENT;
	return stx.stx_size >= end_offset ? 0 : ENXIO;
}

/* under sync_lock, so that an error reported to one caller fails all others too (see the top of the file) */
static int
flush_disk(struct softrdma_file *file, const void *addr, uint64_t offset, size_t len)
{
	pthread_mutex_lock(&file->sync_lock);
	int ret =
		atomic_load(&file->failed) ? EIO : softrdma_description_sync(&file->description, offset, len);
	/* the check of the mapping would not notice that another file with the same numbers has replaced this one */
	if (ret == 0 && file->ambiguous)
		ret = softrdma_msync(addr, len);
	if (ret && !atomic_exchange(&file->failed, true))
		note_failure(&file->identity);
	pthread_mutex_unlock(&file->sync_lock);
	return ret;
}

int
softrdma_file_flush(struct softrdma_file *file, const void *addr, uint64_t offset, size_t len)
{
	if (file->kind == SOFTRDMA_KIND_DAX) {
		softrdma_dax_flush(addr, len);
		return 0;
	}
	if (file->kind == SOFTRDMA_KIND_MEMORY)
		return softrdma_msync(addr, len);
	return flush_disk(file, addr, offset, len);
}
