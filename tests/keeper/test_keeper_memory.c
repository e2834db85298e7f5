/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_keeper_memory.c -- files that are created, opened again, replaced, locked; and the identity that they have */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "keeper/memory.h"
#include "keeper/warm.h"

#define SIZE (UINT64_C(64) << 10)

static char dir[] = "keeper-memory-XXXXXX";
static char path[64], identity_path[96], fresh_path[96];
static char why[WHY_MAX];

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_fstatfs(int fd, struct statfs *fs);
int __wrap_fstatfs(int fd, struct statfs *fs);

static bool is_overlay;

int
__wrap_fstatfs(int fd, struct statfs *fs)
{
	const int ret = __real_fstatfs(fd, fs);

	if (is_overlay)
		fs->f_type = OVERLAYFS_SUPER_MAGIC;
	return ret;
}

static bool no_names;   /* the disk does not make names durable */
static ino_t synced[8]; /* directories whose names were made durable */
static size_t synced_count;

int
__wrap_fsync(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		if (no_names) {
			errno = EIO;
			return -1;
		}
		synced[synced_count++ % (sizeof(synced) / sizeof(synced[0]))] = st.st_ino;
	}
	return __real_fsync(fd);
}

static int
set_up(void **state)
{
	(void)state;
	(void)unlink(path);
	(void)unlink(identity_path);
	(void)unlink(fresh_path);
	no_names = false;
	return 0;
}

static struct memory_source
a_file(uint64_t size)
{
	return (struct memory_source){ .path = path, .size = size };
}

static void
opens(struct memory *memory, const struct memory_source *source)
{
	if (!memory_open(memory, source, why))
		fail_msg("%s", why);
}

static void
refuses(const struct memory_source *source, const char *sentence)
{
	struct memory memory;
	why[0] = '\0';
	assert_false(memory_open(&memory, source, why));
	if (strstr(why, sentence) == NULL)
		fail_msg("does not say \"%s\" but \"%s\"", sentence, why);
	assert_int_equal(memory.fd, -1);
	assert_null(memory.map);
}

/* true if files have attributes of users here */
static bool
has_attributes(void)
{
	if (setxattr(dir, "user.test", "x", 1, 0) == 0 && removexattr(dir, "user.test") == 0)
		return true;
	printf("SKIPPED in part: the file system has no attributes of users\n");
	return false;
}

/* as an operator who wants the file to be new memory */
static void
forgets(const char *file)
{
	(void)removexattr(file, "user.rpma-keeper");
}

static void
writes_file(const char *name, const char *text)
{
	FILE *f = fopen(name, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* a new file has all its blocks, and its identity stays when it is opened again */
static void
created_and_opened_again(void **state)
{
	(void)state;
	struct memory_source source = a_file(SIZE);
	struct memory memory;
	struct stat st;
	uint8_t id[KEEPER_IDENTITY_SIZE];
	opens(&memory, &source);
	assert_true(memory.created && !memory.renewed);
	assert_int_equal(memory.size, SIZE);
	assert_int_equal(memory.identity.last_writer, 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true((uint64_t)st.st_blocks * 512 >= SIZE);
	assert_int_equal(access(fresh_path, F_OK), -1);
	memcpy(id, memory.identity.id, sizeof(id));
	memory.ptr[SIZE - 1] = 42;
	assert_true(memory_record_writer(&memory, UINT64_C(0xfedcba9876543210), why));
	assert_true(memory_flush(&memory, why));
	memory_close(&memory);

	source.size = 0;
	opens(&memory, &source);
	assert_false(memory.created || memory.renewed);
	assert_int_equal(memory.size, SIZE);
	assert_int_equal(memory.ptr[SIZE - 1], 42);
	assert_memory_equal(memory.identity.id, id, sizeof(id));
	assert_int_equal(memory.identity.last_writer, UINT64_C(0xfedcba9876543210));
	memory_close(&memory);
}

static void
wrong_sizes(void **state)
{
	(void)state;
	struct memory_source source = a_file(SIZE);
	struct memory memory;
	opens(&memory, &source);
	memory_close(&memory);
	source.size = 2 * SIZE;
	refuses(&source, "and not 131072");
	assert_int_equal(truncate(path, (off_t)SIZE + 1), 0);
	source.size = 0;
	refuses(&source, "no multiple of");
	assert_int_equal(truncate(path, 0), 0);
	refuses(&source, "");
	(void)unlink(path);
	refuses(&source, "no size=");
	source.read_only = true;
	refuses(&source, "does not exist");
	source = (struct memory_source){ .path = dir };
	refuses(&source, "neither a file nor a device DAX");
	source = (struct memory_source){ .path = "/dev/null" };
	refuses(&source, "identity=");
}

/* a file that was replaced, or that has no record, has another identity and no last writer */
static void
replaced(void **state)
{
	(void)state;
	struct memory_source source = a_file(SIZE);
	struct memory memory;
	uint8_t id[KEEPER_IDENTITY_SIZE];
	opens(&memory, &source);
	memcpy(id, memory.identity.id, sizeof(id));
	assert_true(memory_record_writer(&memory, 5, why));
	memory_close(&memory);

	assert_int_equal(rename(path, fresh_path), 0);
	/* a file whose name begins like that of the new one is left alone */
	opens(&memory, &source);
	assert_true(memory.created);
	struct stat st;
	assert_int_equal(stat(fresh_path, &st), 0);
	assert_int_equal(st.st_size, SIZE);
	assert_memory_not_equal(memory.identity.id, id, sizeof(id));
	assert_int_equal(memory.identity.last_writer, 0);
	memory_close(&memory);
	assert_int_equal(unlink(path), 0);
	writes_file(path, "");
	assert_int_equal(truncate(path, (off_t)SIZE), 0);
	opens(&memory, &source);
	assert_true(memory.renewed && !memory.created);
	assert_memory_not_equal(memory.identity.id, id, sizeof(id));
	assert_int_equal(memory.identity.last_writer, 0);
	memcpy(id, memory.identity.id, sizeof(id));
	memory_close(&memory);

	assert_int_equal(unlink(identity_path), 0);
	forgets(path);
	opens(&memory, &source);
	assert_true(memory.renewed);
	assert_memory_not_equal(memory.identity.id, id, sizeof(id));
	memory_close(&memory);
}

/* a record that cannot be understood is an error: a new identity would hide that the old one is lost */
static void
unreadable_identity(void **state)
{
	(void)state;
	static const char *const texts[] = { "", "{", "[]", "{}",
		"{\"version\": 2, \"identity\": \"000102030405060708090a0b0c0d0e0f\", \"last_writer\": "
		"\"0000000000000000\", \"inode\": 1, \"born_s\": 0, \"born_ns\": 0}",
		"{\"version\": 1, \"identity\": \"short\", \"last_writer\": \"0000000000000000\", \"inode\": 1, "
		"\"born_s\": 0, \"born_ns\": 0}",
		"{\"version\": 1, \"identity\": \"000102030405060708090a0b0c0d0e0f\", \"last_writer\": \"x\", "
		"\"inode\": 1, \"born_s\": 0, \"born_ns\": 0}",
		"{\"version\": 1, \"identity\": \"000102030405060708090a0b0c0d0e0f\", \"last_writer\": "
		"\"0000000000000000\", \"inode\": 1, \"born_s\": 0, \"born_ns\": 0, \"failed\": \"no\"}" };
	struct memory_source source = a_file(SIZE);
	struct memory memory;
	opens(&memory, &source);
	memory_close(&memory);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		writes_file(identity_path, texts[i]);
		refuses(&source, "no record of an identity");
	}
}

/* a medium that has failed stays failed when the memory is opened again, whatever else is recorded, until it is cleared */
static void
failed_medium(void **state)
{
	(void)state;
	struct memory_source source = a_file(SIZE);
	struct memory memory;
	uint8_t id[KEEPER_IDENTITY_SIZE];
	bool was_failed = true;
	opens(&memory, &source);
	assert_false(memory.identity.failed);
	assert_false(memory_clear_failure(&source, &was_failed, why)); /* another keeper lends it */
	assert_true(memory_record_failure(&memory, why));
	assert_true(memory.identity.failed && !memory.unrecorded);
	memcpy(id, memory.identity.id, sizeof(id));
	memory_close(&memory);
	opens(&memory, &source);
	assert_true(memory.identity.failed);
	assert_true(memory_record_writer(&memory, 5, why));
	memory_close(&memory);

	assert_true(memory_clear_failure(&source, &was_failed, why));
	assert_true(was_failed);
	opens(&memory, &source);
	assert_false(memory.identity.failed);
	assert_memory_equal(memory.identity.id, id, sizeof(id));
	assert_int_equal(memory.identity.last_writer, 5);
	/* what cannot be recorded is kept in mind, and recorded later */
	assert_int_equal(unlink(identity_path), 0);
	assert_int_equal(mkdir(identity_path, 0700), 0);
	assert_false(memory_record_failure(&memory, why));
	assert_true(memory.identity.failed && memory.unrecorded);
	assert_int_equal(rmdir(identity_path), 0);
	assert_true(memory_record_failure(&memory, why));
	assert_false(memory.unrecorded);
	memory_close(&memory);
	assert_true(memory_clear_failure(&source, &was_failed, why));
	assert_true(memory_clear_failure(&source, &was_failed, why));
	assert_false(was_failed);
	/* it makes no record, which would belong to the user who clears */
	assert_int_equal(unlink(identity_path), 0);
	forgets(path);
	assert_true(memory_clear_failure(&source, &was_failed, why));
	assert_int_equal(access(identity_path, F_OK), -1);
	assert_int_equal(unlink(path), 0);
	assert_false(memory_clear_failure(&source, &was_failed, why));
}

/* a record whose name may not be durable counts as not written, until it is written again */
static void
unsure_record(void **state)
{
	(void)state;
	struct memory_source source = a_file(SIZE);
	struct memory memory;
	opens(&memory, &source);
	assert_true(memory_record_writer(&memory, 5, why));
	no_names = true;
	assert_false(memory_record_writer(&memory, 6, why));
	assert_non_null(strstr(why, "syncing the directory"));
	assert_int_equal(memory.identity.last_writer, 5);
	assert_true(memory.unrecorded);
	assert_false(memory_record_again(&memory, why));
	no_names = false;
	assert_true(memory_record_again(&memory, why));
	assert_false(memory.unrecorded);
	memory_close(&memory);
	opens(&memory, &source);
	assert_int_equal(memory.identity.last_writer, 5);
	memory_close(&memory);

	/* neither does memory whose name or whose record may not be durable get lent */
	assert_int_equal(unlink(identity_path), 0);
	forgets(path);
	no_names = true;
	refuses(&source, "syncing the directory");
	assert_int_equal(unlink(path), 0);
	refuses(&source, "syncing the directory");
}

static bool
was_synced(const char *directory)
{
	struct stat st;

	assert_int_equal(stat(directory, &st), 0);
	for (size_t i = 0; i < sizeof(synced) / sizeof(synced[0]); i++)
		if (synced[i] == st.st_ino)
			return true;
	return false;
}

/* the keeper that has made the file and its record may have been killed before their names were durable */
static void
names_of_an_earlier_keeper(void **state)
{
	(void)state;
	struct memory_source source = a_file(SIZE);
	char elsewhere[64], record[96];
	struct memory memory;
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", dir);
	snprintf(record, sizeof(record), "%s/record", elsewhere);
	assert_int_equal(mkdir(elsewhere, 0700), 0);
	source.identity_path = record;
	opens(&memory, &source);
	memory_close(&memory);

	memset(synced, 0, sizeof(synced));
	opens(&memory, &source);
	memory_close(&memory);
	assert_true(was_synced(dir));
	assert_true(was_synced(elsewhere));

	no_names = true;
	refuses(&source, "syncing the directory");
	source.read_only = true; /* it is not changed, and its medium need not allow that */
	opens(&memory, &source);
	memory_close(&memory);
	assert_int_equal(unlink(record), 0);
	assert_int_equal(rmdir(elsewhere), 0);
	forgets(path);
}

/* a record that was surely not replaced is still the one of the writer before, who may go on */
static void
record_as_before(void **state)
{
	(void)state;
	struct memory_source source = a_file(SIZE);
	struct memory memory;
	char in_the_way[112];
	opens(&memory, &source);
	assert_true(memory_record_writer(&memory, 5, why));
	snprintf(in_the_way, sizeof(in_the_way), "%s.new", identity_path);
	assert_int_equal(mkdir(in_the_way, 0700), 0);
	assert_false(memory_record_writer(&memory, 6, why));
	assert_int_equal(memory.identity.last_writer, 5);
	assert_false(memory.unrecorded);
	assert_true(memory_record_again(&memory, why));
	/* a failure is always to be recorded */
	assert_false(memory_record_failure(&memory, why));
	assert_true(memory.unrecorded);
	assert_int_equal(rmdir(in_the_way), 0);
	assert_true(memory_record_again(&memory, why));
	memory_close(&memory);
}

/* one file has one record, whatever name it is opened by */
static void
names(void **state)
{
	(void)state;
	struct memory_source source = a_file(SIZE);
	struct memory memory;
	char link_path[96];
	uint8_t id[KEEPER_IDENTITY_SIZE];
	opens(&memory, &source);
	memcpy(id, memory.identity.id, sizeof(id));
	memory_close(&memory);
	snprintf(link_path, sizeof(link_path), "%s.link", path);
	assert_int_equal(symlink("disk", link_path), 0);
	const struct memory_source other = { .path = link_path };
	opens(&memory, &other);
	assert_false(memory.renewed);
	assert_memory_equal(memory.identity.id, id, sizeof(id));
	memory_close(&memory);
	assert_int_equal(unlink(link_path), 0);

	assert_int_equal(link(path, link_path), 0);
	refuses(&source, "has 2 names (hard links)");
	refuses(&other, "has 2 names (hard links)");
	const struct memory_source reading = { .path = path, .read_only = true };
	opens(&memory, &reading);
	memory_close(&memory);
	assert_int_equal(unlink(link_path), 0);
	/* a link to a file that is not there gets no file */
	assert_int_equal(symlink("nothing", link_path), 0);
	const struct memory_source dangling = { .path = link_path, .size = SIZE };
	refuses(&dangling, "is a symbolic link to what does not exist");
	assert_int_equal(unlink(link_path), 0);
}

/* the record of a file goes with it, whatever path leads to it; without it the file is not lent */
static void
renamed(void **state)
{
	(void)state;
	const struct memory_source source = a_file(SIZE);
	struct memory memory;
	char other_path[96], other_identity[112];
	uint8_t id[KEEPER_IDENTITY_SIZE];
	bool was_failed;
	snprintf(other_path, sizeof(other_path), "%s.other", path);
	snprintf(other_identity, sizeof(other_identity), "%s.identity", other_path);
	const struct memory_source other = { .path = other_path };
	const struct memory_source reading = { .path = other_path, .read_only = true };
	if (!has_attributes())
		return;
	opens(&memory, &source);
	memcpy(id, memory.identity.id, sizeof(id));
	assert_true(memory_record_writer(&memory, 5, why));
	memory_close(&memory);
	/* a record of an earlier version: the file gets its copy of the identity when it is lent */
	forgets(path);
	opens(&memory, &source);
	assert_memory_equal(memory.identity.id, id, sizeof(id));
	assert_int_equal(memory.identity.last_writer, 5);
	memory_close(&memory);

	assert_int_equal(rename(path, other_path), 0);
	refuses(&other, "was lent with another record than");
	assert_false(memory_clear_failure(&other, &was_failed, why));
	assert_int_equal(access(other_identity, F_OK), -1);
	opens(&memory, &reading);
	assert_memory_not_equal(memory.identity.id, id, sizeof(id));
	memory_close(&memory);
	assert_int_equal(rename(identity_path, other_identity), 0);
	opens(&memory, &other);
	assert_memory_equal(memory.identity.id, id, sizeof(id));
	assert_int_equal(memory.identity.last_writer, 5);
	assert_true(memory_record_failure(&memory, why));
	memory_close(&memory);

	/* new memory under the first path; and then the earlier record is not taken for true */
	assert_int_equal(rename(other_path, path), 0);
	forgets(path);
	opens(&memory, &source);
	assert_true(memory.renewed);
	assert_int_equal(memory.identity.last_writer, 0);
	memory_close(&memory);
	assert_int_equal(rename(path, other_path), 0);
	refuses(&other, "was lent with another record than");
	/* without the attribute it is, and so is its failure */
	forgets(other_path);
	opens(&memory, &other);
	assert_memory_equal(memory.identity.id, id, sizeof(id));
	assert_true(memory.identity.failed);
	memory_close(&memory);
	assert_int_equal(unlink(other_path), 0);
	assert_int_equal(unlink(other_identity), 0);
}

/* a failure that could not be put into the record is on the file, and what is on the file must be understood */
static void
attribute(void **state)
{
	(void)state;
	const struct memory_source source = a_file(SIZE);
	struct memory memory;
	char in_the_way[112];
	bool was_failed;
	if (!has_attributes())
		return;
	opens(&memory, &source);
	snprintf(in_the_way, sizeof(in_the_way), "%s.new", identity_path);
	assert_int_equal(mkdir(in_the_way, 0700), 0);
	assert_false(memory_record_failure(&memory, why));
	memory_close(&memory);
	assert_int_equal(rmdir(in_the_way), 0);
	opens(&memory, &source);
	assert_true(memory.identity.failed);
	memory_close(&memory);
	assert_true(memory_clear_failure(&source, &was_failed, why));
	assert_true(was_failed);
	opens(&memory, &source);
	assert_false(memory.identity.failed);
	memory_close(&memory);

	static const char *const values[] = { "", "000102030405060708090a0b0c0d0e0",
		"x00102030405060708090a0b0c0d0e0f", "000102030405060708090a0b0c0d0e0f faulty",
		"000102030405060708090a0b0c0d0e0f failed, and more than that" };
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		assert_int_equal(setxattr(path, "user.rpma-keeper", values[i], strlen(values[i]), 0), 0);
		refuses(&source, "the attribute user.rpma-keeper");
	}
}

/* memory that is not there, and a file that may be its record, or something else */
static void
record_without_memory(void **state)
{
	(void)state;
	struct memory_source source = a_file(SIZE);
	struct memory memory;
	char kept[96], text[8] = "";
	writes_file(identity_path, "a letter");
	refuses(&source, "no record of an identity");
	FILE *f = fopen(identity_path, "re");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_string_equal(text, "a lette");
	assert_int_equal(unlink(identity_path), 0);

	/* its file system may not be mounted */
	snprintf(kept, sizeof(kept), "%s.kept", path);
	source.identity_path = kept;
	opens(&memory, &source);
	memory_close(&memory);
	assert_int_equal(unlink(path), 0);
	refuses(&source, "mount its file system, or remove the record");
	assert_int_equal(access(kept, F_OK), 0);
	assert_int_equal(access(path, F_OK), -1);

	/* a record by way of a symbolic link is replaced where it is, and what is no file is not */
	assert_int_equal(unlink(kept), 0);
	source.identity_path = fresh_path;
	opens(&memory, &source);
	memory_close(&memory);
	assert_int_equal(symlink("disk.new", kept), 0);
	source.identity_path = kept;
	opens(&memory, &source);
	assert_false(memory.renewed);
	assert_true(memory_record_writer(&memory, 5, why));
	struct stat st;
	assert_int_equal(lstat(kept, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(unlink(fresh_path), 0);
	assert_int_equal(mkfifo(fresh_path, 0600), 0);
	assert_false(memory_record_writer(&memory, 6, why));
	assert_non_null(strstr(why, "is no file"));
	memory_close(&memory);
	assert_int_equal(unlink(fresh_path), 0);
	assert_int_equal(unlink(kept), 0);
}

/* of a client that has never had the memory, the one before is the last writer again, if need be later */
static void
restored_writer(void **state)
{
	(void)state;
	const struct memory_source source = a_file(SIZE);
	struct memory memory;
	opens(&memory, &source);
	assert_true(memory_record_writer(&memory, 5, why));
	assert_true(memory_record_writer(&memory, 6, why));
	no_names = true;
	assert_false(memory_restore_writer(&memory, 5, why));
	assert_int_equal(memory.identity.last_writer, 5);
	assert_true(memory.unrecorded);
	no_names = false;
	assert_true(memory_record_again(&memory, why));
	memory_close(&memory);
	opens(&memory, &source);
	assert_int_equal(memory.identity.last_writer, 5);
	memory_close(&memory);
}

/* true if the kernel does not read ahead of accesses to the mapping */
static bool
has_random_advice(const void *mapping)
{
	char line[512];
	unsigned long start, end;
	bool found = false, is_random = false;
	FILE *smaps = fopen("/proc/self/smaps", "re");
	assert_non_null(smaps);
	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%lx-%lx", &start, &end) == 2)
			found = start == (unsigned long)(uintptr_t)mapping;
		else if (found && strncmp(line, "VmFlags:", 8) == 0)
			is_random = strstr(line, " rr") != NULL;
	}
	fclose(smaps);
	return is_random;
}

/* a flush of a byte must not write the pages around it, so they are small; what is there before is read by a thread */
static void
small_pages(void **state)
{
	(void)state;
	struct memory_source source = a_file(SIZE);
	struct memory memory;
	opens(&memory, &source);
	assert_true(has_random_advice(memory.ptr));
	assert_null(memory.warm);
	memory_close(&memory);
	opens(&memory, &source);
	assert_true(has_random_advice(memory.ptr));
	assert_non_null(memory.warm);
	memory_close(&memory);
	source.read_only = true;
	opens(&memory, &source);
	assert_false(has_random_advice(memory.ptr));
	assert_null(memory.warm);
	memory_close(&memory);
	assert_true(warm_reserve(SIZE));
	assert_false(warm_reserve(SIZE_MAX));
}

static struct memory second;
static struct memory_source second_source;
static char second_why[WHY_MAX];

static void *
open_second(void *arg)
{
	(void)arg;
	return memory_open(&second, &second_source, second_why) ? &second : NULL;
}

/* of two keepers that create the same file, the slower one leaves the other's file and record alone */
static void
created_twice(void **state)
{
	(void)state;
	struct memory memory;
	pthread_t thread;
	void *opened;
	uint8_t id[KEEPER_IDENTITY_SIZE];
	second_source = a_file(SIZE);
	const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(pthread_create(&thread, NULL, open_second, NULL), 0);
	(void)usleep(200000); /* it waits for the directory, or it is late: the result is the same */
	writes_file(path, "");
	assert_int_equal(truncate(path, (off_t)SIZE), 0);
	const struct memory_source first_source = { .path = path };
	opens(&memory, &first_source);
	memcpy(id, memory.identity.id, sizeof(id));
	close(fd);
	pthread_join(thread, &opened);
	assert_null(opened);
	if (strstr(second_why, "has created") == NULL &&
		strstr(second_why, "another keeper lends it") == NULL)
		fail_msg("%s", second_why);
	memory_close(&memory);
	opens(&memory, &first_source);
	assert_memory_equal(memory.identity.id, id, sizeof(id));
	memory_close(&memory);
}

/* the upper layer may be in memory: the operator must vouch for it */
static void
on_an_overlay(void **state)
{
	(void)state;
	struct memory_source source = a_file(SIZE);
	struct memory memory;
	is_overlay = true;
	refuses(&source, "overlay");
	source.vouched = true;
	opens(&memory, &source);
	assert_int_equal(memory.persistence, KEEPER_PAGES);
	memory_close(&memory);
	source = (struct memory_source){ .path = path, .read_only = true };
	opens(&memory, &source);
	memory_close(&memory);
	is_overlay = false;
}

static void
locked(void **state)
{
	(void)state;
	struct memory_source source = a_file(SIZE);
	struct memory memory, reader;
	opens(&memory, &source);
	refuses(&source, "another keeper lends it");
	struct memory_source reading = { .path = path, .read_only = true };
	refuses(&reading, "another keeper lends it");
	memory_close(&memory);
	opens(&memory, &reading);
	opens(&reader, &reading);
	refuses(&source, "another keeper lends it");
	memory_close(&reader);
	memory_close(&memory);
}

static void
anonymous(void **state)
{
	(void)state;
	const struct memory_source source = { .size = SIZE };
	struct memory one, two;
	opens(&one, &source);
	opens(&two, &source);
	assert_int_equal(one.persistence, KEEPER_VOLATILE);
	assert_memory_not_equal(one.identity.id, two.identity.id, KEEPER_IDENTITY_SIZE);
	assert_true(memory_record_writer(&one, 5, why));
	assert_int_equal(one.identity.last_writer, 5);
	assert_true(memory_flush(&one, why));
	memory_close(&one);
	memory_close(&two);
}

/* what is in memory ends with the machine, whatever a flush of it says */
static void
file_in_memory(void **state)
{
	(void)state;
	char name[64];
	struct memory memory;
	snprintf(name, sizeof(name), "/dev/shm/keeper-memory-%d", (int)getpid());
	const struct memory_source source = { .path = name, .size = SIZE };
	if (access("/dev/shm", W_OK)) {
		printf("SKIPPED: /dev/shm cannot be used\n");
		skip();
	}
	opens(&memory, &source);
	assert_int_equal(memory.persistence, KEEPER_VOLATILE);
	(void)unlink(name);
	(void)unlink(memory.identity_path);
	memory_close(&memory);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(created_and_opened_again, set_up),
		cmocka_unit_test_setup(wrong_sizes, set_up),
		cmocka_unit_test_setup(replaced, set_up),
		cmocka_unit_test_setup(unreadable_identity, set_up),
		cmocka_unit_test_setup(failed_medium, set_up),
		cmocka_unit_test_setup(unsure_record, set_up),
		cmocka_unit_test_setup(names_of_an_earlier_keeper, set_up),
		cmocka_unit_test_setup(record_as_before, set_up),
		cmocka_unit_test_setup(names, set_up),
		cmocka_unit_test_setup(renamed, set_up),
		cmocka_unit_test_setup(attribute, set_up),
		cmocka_unit_test_setup(record_without_memory, set_up),
		cmocka_unit_test_setup(restored_writer, set_up),
		cmocka_unit_test_setup(small_pages, set_up),
		cmocka_unit_test_setup(created_twice, set_up),
		cmocka_unit_test_setup(on_an_overlay, set_up),
		cmocka_unit_test_setup(locked, set_up),
		cmocka_unit_test(anonymous),
		cmocka_unit_test(file_in_memory),
	};
	if (mkdtemp(dir) == NULL) {
		perror(dir);
		return 1;
	}
	snprintf(path, sizeof(path), "%s/disk", dir);
	snprintf(identity_path, sizeof(identity_path), "%s.identity", path);
	snprintf(fresh_path, sizeof(fresh_path), "%s.new", path);
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)set_up(NULL);
	(void)rmdir(dir);
	return failed;
}
