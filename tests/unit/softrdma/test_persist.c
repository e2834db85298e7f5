/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_persist.c -- which memory is durable, and that a flush never reports success for memory that is not
 *
 * Everything runs on the real kernel. Only three things are simulated: failures of libc, an older kernel
 * without the query of mappings, and files on DAX. The scenarios run twice, with that query and with
 * /proc/self/maps.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/shm.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "end_child.h"
#include "softrdma/base/env.h"
#include "softrdma/persist/mapping.h"
#include "softrdma/persist/persist.h"
#include "softrdma/persist/persist_dax.h"

#define PAGE ((size_t)4096)
#define PAGES(n) ((n)*PAGE)
#define EXIT_SKIP 77

/* faults and counters in the wrappers of libc */

static _Atomic int msync_error;
static uint64_t msync_inode, msync_offset; /* of the file: the device calls msync() on a mapping of its own */
static size_t msync_len;
static atomic_bool query_missing;
static atomic_bool proc_missing;
static atomic_bool dax;      /* files look like files on DAX, mapped with MAP_SYNC */
static atomic_int malloc_in; /* the allocation that fails, counted from 1; 0: none */
static atomic_int warnings;
static atomic_uint asked_for; /* the attributes of files that were queried */

int __real_msync(void *addr, size_t len, int flags);
int __wrap_msync(void *addr, size_t len, int flags);
int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
int __real_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);
int __real_statx(int fd, const char *path, int flags, unsigned int mask, struct statx *stx);
int __wrap_statx(int fd, const char *path, int flags, unsigned int mask, struct statx *stx);
int __wrap_glob(const char *pattern, int flags, int (*error)(const char *path, int error), glob_t *found);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *
__wrap_malloc(size_t size)
{
	if (malloc_in && --malloc_in == 0) {
		errno = ENOMEM;
		return NULL;
	}
	return __real_malloc(size);
}

int
__wrap_statx(int fd, const char *path, int flags, unsigned int mask, struct statx *stx)
{
	int ret = __real_statx(fd, path, flags, mask, stx);
	asked_for |= mask;
	if (dax)
		stx->stx_attributes |= STATX_ATTR_DAX;
	return ret;
}

int
__wrap_fstat(int fd, struct stat *st)
{
	asked_for |= STATX_BASIC_STATS;
	return __real_fstat(fd, st);
}

/* a copy of smaps in which every mapping has the flag of MAP_SYNC */
static FILE *
open_sync_smaps(void)
{
	FILE *real = __real_fopen("/proc/self/smaps", "re");
	FILE *changed = tmpfile();
	char line[4096];
	while (fgets(line, sizeof(line), real)) {
		if (strncmp(line, "VmFlags:", 8) == 0)
			strcpy(line, "VmFlags: rd wr sh mr mw me ms sf sd\n");
		fputs(line, changed);
	}
	fclose(real);
	rewind(changed);
	return changed;
}

FILE *
__wrap_fopen(const char *path, const char *mode)
{
	static char domain[] = "memory_controller\n";
	if (proc_missing && strncmp(path, "/proc/", 6) == 0) {
		errno = ENOENT;
		return NULL;
	}
	if (dax && strcmp(path, "/proc/self/smaps") == 0)
		return open_sync_smaps();
	if (strcmp(path, "domain") == 0)
		return fmemopen(domain, strlen(domain), "r");
	return __real_fopen(path, mode);
}

/* one set of persistent memory modules; libpmem2 itself still sees the real ones */
int
__wrap_glob(const char *pattern, int flags, int (*error)(const char *path, int error), glob_t *found)
{
	(void)flags;
	(void)error;
	assert_non_null(strstr(pattern, "persistence_domain"));
	found->gl_pathv = calloc(2, sizeof(char *));
	found->gl_pathv[0] = strdup("domain");
	found->gl_pathc = 1;
	return 0;
}

static int
remember(const struct softrdma_area *area, const char *name, void *arg)
{
	(void)name;
	*(struct softrdma_area *)arg = *area;
	return 0;
}

/* the inode of the file behind mapped memory, and the offset in it */
static uint64_t
offset_in_file(const void *addr, uint64_t *inode)
{
	struct softrdma_area area = { 0 };
	softrdma_mapping_each(NULL, (uintptr_t)addr, (uintptr_t)addr + 1, false, remember, &area);
	*inode = area.inode;
	return area.offset + ((uintptr_t)addr - area.start);
}

/* true if the last msync() was of the page that is mapped there */
static bool
was_synced_from(const void *addr)
{
	uint64_t inode;
	uint64_t offset = offset_in_file(addr, &inode);
	return msync_inode == inode && msync_offset == offset;
}

int
__wrap_msync(void *addr, size_t len, int flags)
{
	assert_int_equal(flags, MS_SYNC);
	msync_offset = offset_in_file(addr, &msync_inode);
	msync_len = len;
	if (msync_error) {
		errno = msync_error;
		return -1;
	}
	return __real_msync(addr, len, flags);
}

int
__wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	va_start(ap, request);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	if (query_missing) {
		errno = ENOTTY;
		return -1;
	}
	return __real_ioctl(fd, request, arg);
}

static void
count_log(enum softrdma_log_level level, const char *file, int line, const char *func, const char *text)
{
	(void)file;
	(void)line;
	(void)func;
	assert_null(strchr(text, '\n'));
	if (level == SOFTRDMA_LOG_WARNING)
		warnings++;
}

/* fixtures */

static int
open_fds(void)
{
	int count = 0;
	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) != -1;
	return count;
}

/* in the working directory, which is the build's: it is on a disk, and /tmp may not be */
static int
new_file(char path[static 32], size_t size)
{
	strcpy(path, "test_persist.XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static bool
is_on_disk(int fd)
{
	struct statfs fs;
	assert_int_equal(fstatfs(fd, &fs), 0);
	return fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC;
}

static void *
map(int fd, size_t size, off_t offset)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* a named file of 8 pages, mapped and registered; its own descriptor is closed, as programs do */
struct region {
	char path[32];
	char *mem;
	struct softrdma_persist *persist;
	bool disk;
	int fds;
};

static int
setup_region(void **state)
{
	static struct region r;
	r.fds = open_fds();
	int fd = new_file(r.path, PAGES(8));
	r.disk = is_on_disk(fd);
	r.mem = map(fd, PAGES(8), 0);
	close(fd);
	r.persist = NULL;
	assert_int_equal(softrdma_persist_new(r.mem, PAGES(8), &r.persist), 0);
	*state = &r;
	return 0;
}

static int
teardown_region(void **state)
{
	struct region *r = *state;
	msync_error = 0;
	softrdma_persist_delete(r->persist);
	munmap(r->mem, PAGES(8));
	unlink(r->path);
	assert_int_equal(open_fds(), r->fds);
	return 0;
}

static int
setup_text(void **state)
{
	query_missing = true;
	return setup_region(state);
}

static int
teardown_text(void **state)
{
	query_missing = false;
	return teardown_region(state);
}

static void
refuse(void *mem, size_t len)
{
	struct softrdma_persist *persist = (void *)&warnings;
	assert_int_equal(softrdma_persist_new(mem, len, &persist), EOPNOTSUPP);
	assert_ptr_equal(persist, &warnings); /* not written to */
}

/* the file of a registered region is broken for ever: flushes fail */
static void
assert_broken(struct region *r, int error)
{
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, PAGES(8)), error);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, 1), EIO);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, 0), EIO);
}

/* classification */

static void
test_anonymous(void **state)
{
	(void)state;
	char *mem = mmap(NULL, PAGES(3), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	refuse(mem, PAGES(3));
	munmap(mem, PAGES(3));
	mem = malloc(100);
	refuse(mem, 100);
	free(mem);
	mem = mmap(NULL, PAGES(3), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	refuse(mem, PAGES(3));
	munmap(mem, PAGES(3));
}

static void
test_sysv(void **state)
{
	(void)state;
	int id = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600);
	if (id < 0)
		skip();
	void *mem = shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
	assert_ptr_not_equal(mem, (void *)-1);
	refuse(mem, PAGE);
	shmdt(mem);
}

static void
test_private_and_read_only(void **state)
{
	(void)state;
	char path[32];
	int fd = new_file(path, PAGES(2));
	void *mem = mmap(NULL, PAGES(2), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	refuse(mem, PAGES(2));
	munmap(mem, PAGES(2));
	mem = mmap(NULL, PAGES(2), PROT_READ, MAP_SHARED, fd, 0);
	refuse(mem, PAGES(2));
	munmap(mem, PAGES(2));
	close(fd);
	unlink(path);
}

static void
test_past_the_end(void **state)
{
	(void)state;
	char path[32];
	int fd = new_file(path, PAGE + 100);
	char *mem = map(fd, PAGES(2), 0);
	refuse(mem, PAGE + 101);
	struct softrdma_persist *persist;
	assert_int_equal(softrdma_persist_new(mem + 50, PAGE + 50, &persist), 0);
	assert_int_equal(softrdma_persist_flush(persist, mem + 50, PAGE + 50), 0);
	softrdma_persist_delete(persist);
	munmap(mem, PAGES(2));
	close(fd);
	unlink(path);
}

static void
test_gap(void **state)
{
	struct region *r = *state;
	struct softrdma_persist *persist;
	munmap(r->mem + PAGES(3), PAGE);
	assert_int_equal(softrdma_persist_new(r->mem, PAGES(8), &persist), EFAULT);
	assert_int_equal(softrdma_persist_new(r->mem, PAGES(3), &persist), 0);
	softrdma_persist_delete(persist);
}

static void
test_memory_file_systems(void **state)
{
	(void)state;
	int before = warnings;
	struct softrdma_persist *persist[2];
	void *mem[2];
	for (int i = 0; i < 2; i++) {
		int fd = memfd_create("test", MFD_CLOEXEC);
		assert_int_equal(ftruncate(fd, (off_t)PAGES(2)), 0);
		mem[i] = map(fd, PAGES(2), 0);
		assert_int_equal(softrdma_persist_new(mem[i], PAGES(2), &persist[i]), 0);
		assert_int_equal(softrdma_persist_may_block(persist[i], PAGES(2)), 0);
		assert_int_equal(softrdma_persist_flush(persist[i], mem[i], PAGES(2)), 0);
		assert_int_equal(ftruncate(fd, (off_t)PAGES(1)), 0);
		assert_int_equal(softrdma_persist_flush(persist[i], mem[i], PAGES(1)), 0);
		assert_int_equal(softrdma_persist_flush(persist[i], mem[i], PAGES(2)), ENXIO);
		close(fd);
	}
	for (int i = 0; i < 2; i++) {
		softrdma_persist_delete(persist[i]);
		munmap(mem[i], PAGES(2));
	}
	assert_true(warnings - before <= 1); /* an earlier test may have logged the only warning */
}

/*
 * The device does not query time stamps: after such a query, the next write to the file must store new ones.
 */
static void
test_size_alone(void **state)
{
	struct region *r = *state;
	asked_for = 0;
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, PAGE), 0);
	assert_int_equal(asked_for, STATX_SIZE | STATX_NLINK);
}

static void
test_warns_once(void **state)
{
	(void)state;
	/* on a disk only this file's memfd test warns about memory; on tmpfs all tests do */
	int fd = memfd_create("again", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, (off_t)PAGE), 0);
	void *mem = map(fd, PAGE, 0);
	int before = warnings;
	struct softrdma_persist *persist;
	assert_int_equal(softrdma_persist_new(mem, PAGE, &persist), 0);
	assert_int_equal(warnings, before);
	softrdma_persist_delete(persist);
	munmap(mem, PAGE);
	close(fd);
}

/*
 * A file without a name cannot be found again after a power cut. It may never have had one, or have lost it
 * before or after the registration.
 */
static void
test_nameless_file(void **state)
{
	(void)state;
	char path[32];
	int fd = new_file(path, PAGE);
	if (!is_on_disk(fd)) {
		close(fd);
		unlink(path);
		skip();
	}
	void *mem = map(fd, PAGE, 0);
	struct softrdma_persist *persist;
	assert_int_equal(softrdma_persist_new(mem, PAGE, &persist), 0);
	assert_int_equal(softrdma_persist_flush(persist, mem, 1), 0);
	unlink(path);
	assert_int_equal(softrdma_persist_flush(persist, mem, 1), ENOENT);
	assert_int_equal(softrdma_persist_flush(persist, mem, 1), EIO);
	softrdma_persist_delete(persist);
	refuse(mem, PAGE);
	munmap(mem, PAGE);
	close(fd);

	fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		skip(); /* not every file system supports it */
	assert_int_equal(ftruncate(fd, (off_t)PAGE), 0);
	mem = map(fd, PAGE, 0);
	refuse(mem, PAGE);
	munmap(mem, PAGE);
	close(fd);
}

/* runs fn in a child; its exit status is the result, and EXIT_SKIP skips the test */
static void
in_child(void (*fn)(void))
{
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		fn();
		end_child(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIP)
		skip();
	assert_int_equal(status, 0);
}

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1); \
		} \
	} while (0)

static void
unprivileged(void)
{
	char path[32];
	int named = new_file(path, PAGE);
	int memfd = memfd_create("mine", MFD_CLOEXEC);
	CHECK(ftruncate(memfd, (off_t)PAGE) == 0);
	void *mem[2] = { map(named, PAGE, 0), map(memfd, PAGE, 0) };
	bool disk = is_on_disk(named);
	close(named);
	bool was_root = geteuid() == 0;
	if (was_root &&
		(setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
		_exit(EXIT_SKIP);
	if (access(".", X_OK))
		_exit(EXIT_SKIP); /* the checkout is in a home directory that others cannot enter */

	/* root's process may no longer open its file on a disk, so it would not learn of failures */
	struct softrdma_persist *persist;
	if (disk && was_root)
		CHECK(softrdma_persist_new(mem[0], PAGE, &persist) == EOPNOTSUPP);
	CHECK(softrdma_persist_new(mem[1], PAGE, &persist) == 0);
	CHECK(softrdma_persist_flush(persist, mem[1], PAGE) == 0);
	softrdma_persist_delete(persist);
	/* the kind of this memory cannot be determined any longer */
	close(memfd);
	CHECK(softrdma_persist_new(mem[1], PAGE, &persist) == EOPNOTSUPP);
	fflush(NULL);
}

static void
test_unprivileged(void **state)
{
	(void)state;
	in_child(unprivileged);
	int ret = system("rm -f test_persist.??????");
	assert_int_equal(ret, 0);
}

/* another file system is mounted over the path of a mapped file, and the kernel's link may not be used */
static void
mounted_over(void)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", "none", MS_REC | MS_PRIVATE, ""))
		_exit(EXIT_SKIP);
	mkdir("over", 0755);
	int fd = open("over/file", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	CHECK(fd >= 0 && ftruncate(fd, (off_t)PAGE) == 0);
	void *mem = map(fd, PAGE, 0);
	if (mount("none", "over", "tmpfs", 0, ""))
		_exit(EXIT_SKIP);
	/* This file is empty. If the device took it for the mapped one, that one would seem truncated. */
	int other = open("over/file", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	CHECK(other >= 0);
	close(other);
	/* drop all of root's privileges: it is now like any user that owns root's files */
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[2] = { 0 };
	CHECK(syscall(SYS_capset, &header, none) == 0);
	/* the process's own descriptor leads to the right file */
	struct softrdma_persist *persist;
	CHECK(softrdma_persist_new(mem, PAGE, &persist) == 0);
	CHECK(softrdma_persist_flush(persist, mem, PAGE) == 0);
	softrdma_persist_delete(persist);
	close(fd);
}

static void
test_mounted_over(void **state)
{
	(void)state;
	in_child(mounted_over);
	int ret = system("rm -rf over");
	assert_int_equal(ret, 0);
}

static void
overlay(void)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", "none", MS_REC | MS_PRIVATE, ""))
		_exit(EXIT_SKIP);
	const char *dirs[] = { "overlay", "overlay/lower", "overlay/upper", "overlay/work",
		"overlay/merged" };
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		mkdir(dirs[i], 0700);
	if (mount("none", "overlay/merged", "overlay", 0,
		    "lowerdir=overlay/lower,upperdir=overlay/upper,workdir=overlay/work"))
		_exit(EXIT_SKIP);

	int fd = open("overlay/merged/file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, (off_t)PAGE) == 0);
	void *mem = map(fd, PAGE, 0);
	close(fd);
	if (geteuid() == 0) /* so that the file can be opened without the kernel's links */
		CHECK(chmod("overlay/merged/file", 0644) == 0);
	struct softrdma_persist *persist;
	CHECK(softrdma_persist_new(mem, PAGE, &persist) == 0);
	CHECK(softrdma_persist_flush(persist, mem, PAGE) == 0);
	CHECK(truncate("overlay/merged/file", 0) == 0);
	CHECK(softrdma_persist_flush(persist, mem, PAGE) == ENXIO);
	softrdma_persist_delete(persist);
}

static void
test_overlay(void **state)
{
	(void)state;
	in_child(overlay);
	int ret = system("rm -rf overlay");
	assert_int_equal(ret, 0);
}

/* registering a file must not drop the record locks that this process has on it */
static void
test_record_locks_survive(void **state)
{
	struct region *r = *state;
	int fd = open(r->path, O_RDWR | O_CLOEXEC);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
	struct softrdma_persist *persist;
	assert_int_equal(softrdma_persist_new(r->mem, PAGE, &persist), 0);
	assert_int_equal(softrdma_persist_flush(persist, r->mem, PAGE), 0);
	softrdma_persist_delete(persist);
	softrdma_persist_delete(r->persist);
	r->persist = NULL;

	pid_t pid = fork();
	if (pid == 0) {
		int own = open(r->path, O_RDWR | O_CLOEXEC);
		_exit(fcntl(own, F_SETLK, &lock) == 0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fd);
}

/* flushing */

static void
test_flush(void **state)
{
	struct region *r = *state;
	assert_int_equal(softrdma_persist_may_block(r->persist, 1), r->disk);
	memset(r->mem, 0xa5, PAGES(8));
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, PAGES(8)), 0);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem + PAGES(8), 0), 0);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem + PAGES(8) - 1, 1), 0);
	assert_true(was_synced_from(r->mem + PAGES(7)));

	/* from the last byte of one page to the first byte of the next page but one: three pages */
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem + PAGES(2) - 1, PAGE + 2), 0);
	assert_true(was_synced_from(r->mem + PAGES(1)));
	assert_true(msync_len > PAGES(2) && msync_len <= PAGES(3));
}

static void
test_unmapped(void **state)
{
	struct region *r = *state;
	munmap(r->mem + PAGES(7), PAGE);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, PAGES(7)), 0);
	assert_broken(r, r->disk ? EFAULT : ENOMEM);
}

static void
test_mapped_over_by_nothing(void **state)
{
	struct region *r = *state;
	void *p = mmap(r->mem + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		-1, 0);
	assert_ptr_equal(p, r->mem + PAGE);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, PAGE), 0);
	assert_broken(r, ESTALE);
}

static void
map_over(struct region *r, const char *path, int flags, off_t offset)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *p = mmap(r->mem + PAGE, PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, offset);
	assert_ptr_equal(p, r->mem + PAGE);
	close(fd);
}

static void
test_mapped_over_by_another_file(void **state)
{
	struct region *r = *state;
	char path[32];
	close(new_file(path, PAGES(8)));
	map_over(r, path, MAP_SHARED, (off_t)PAGE);
	assert_broken(r, ESTALE);
	unlink(path);
}

static void
test_mapped_over_by_another_offset(void **state)
{
	struct region *r = *state;
	map_over(r, r->path, MAP_SHARED, 0);
	assert_broken(r, ESTALE);
}

static void
test_mapped_over_privately(void **state)
{
	struct region *r = *state;
	map_over(r, r->path, MAP_PRIVATE, (off_t)PAGE);
	assert_broken(r, ESTALE);
}

/* the same bytes of the same file may be in any number of mapped areas */
static void
test_split_and_mapped_again(void **state)
{
	struct region *r = *state;
	assert_int_equal(mprotect(r->mem + PAGES(4), PAGE, PROT_READ), 0);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, PAGES(8)), 0);
	map_over(r, r->path, MAP_SHARED, (off_t)PAGE);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, PAGES(8)), 0);
}

static void
test_truncated(void **state)
{
	struct region *r = *state;
	assert_int_equal(truncate(r->path, (off_t)PAGES(7) + 100), 0);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, PAGES(7) + 100), 0);
	assert_broken(r, ENXIO);
	assert_int_equal(truncate(r->path, (off_t)PAGES(8)), 0);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, 1), EIO);
}

/* the mapped file is not the one that has its name now */
static void
test_replaced_file(void **state)
{
	struct region *r = *state;
	unlink(r->path);
	assert_int_equal(close(open(r->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)), 0); /* empty */
	assert_broken(r, ENOENT);
}

static void
test_msync_fails(void **state)
{
	struct region *r = *state;
	struct softrdma_persist *other, *late = NULL;
	assert_int_equal(softrdma_persist_new(r->mem, PAGE, &other), 0);
	msync_error = ENOSPC;
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, PAGES(8)), ENOSPC);
	msync_error = 0;
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, PAGES(8)), EIO);

	if (r->disk) {
		/* it is random which of two regions of a file gets the kernel's error */
		assert_int_equal(softrdma_persist_flush(other, r->mem, 1), EIO);
		assert_int_equal(softrdma_persist_new(r->mem, PAGE, &late), EIO);
		assert_null(late);
	}
	softrdma_persist_delete(other);
	softrdma_persist_delete(r->persist);
	r->persist = NULL;
	/* data that the kernel dropped stays lost after the last region is deregistered */
	int ret = softrdma_persist_new(r->mem, PAGES(8), &r->persist);
	assert_int_equal(ret, r->disk ? EIO : 0);
}

static void
test_several_files_side_by_side(void **state)
{
	struct region *r = *state;
	char path[32];
	close(new_file(path, PAGES(2)));
	struct softrdma_persist *both;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *p = mmap(r->mem + PAGES(6), PAGES(2), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	assert_ptr_equal(p, r->mem + PAGES(6));
	close(fd);

	assert_int_equal(softrdma_persist_new(r->mem + 10, PAGES(8) - 20, &both), 0);
	assert_int_equal(softrdma_persist_flush(both, r->mem + 10, PAGES(8) - 20), 0);
	assert_true(was_synced_from(r->mem + PAGES(6)));
	assert_int_equal(softrdma_persist_flush(both, r->mem + 10, PAGE), 0); /* the first file only */
	assert_true(was_synced_from(r->mem));
	assert_int_equal(softrdma_persist_flush(both, r->mem + PAGES(7), 1), 0);
	assert_true(was_synced_from(r->mem + PAGES(7)));
	assert_int_equal(truncate(path, (off_t)PAGE), 0);
	assert_int_equal(softrdma_persist_flush(both, r->mem + 10, PAGES(7) - 10), 0);
	assert_int_equal(softrdma_persist_flush(both, r->mem + 10, PAGES(7) - 9), ENXIO);
	softrdma_persist_delete(both);
	unlink(path);
}

/* areas that the kernel keeps apart, though their bytes are adjacent in one file */
static void
test_split_before(void **state)
{
	struct region *r = *state;
	struct softrdma_persist *persist;
	assert_int_equal(madvise(r->mem, PAGES(4), MADV_RANDOM), 0);
	assert_int_equal(softrdma_persist_new(r->mem, PAGES(8), &persist), 0);
	assert_int_equal(madvise(r->mem, PAGES(4), MADV_NORMAL), 0);
	assert_int_equal(softrdma_persist_flush(persist, r->mem, PAGES(8)), 0);
	softrdma_persist_delete(persist);
}

static void
test_too_many_mappings(void **state)
{
	struct region *r = *state;
	int fd = open(r->path, O_RDWR | O_CLOEXEC);
	char *mem = mmap(NULL, PAGES(65), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < 65; i++) {
		void *p = mmap(mem + PAGES(i), PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
		assert_ptr_equal(p, mem + PAGES(i));
	}
	close(fd);
	refuse(mem, PAGES(65));
	struct softrdma_persist *persist;
	assert_int_equal(softrdma_persist_new(mem, PAGES(64), &persist), 0);
	assert_int_equal(softrdma_persist_flush(persist, mem, PAGES(64)), 0);
	softrdma_persist_delete(persist);
	munmap(mem, PAGES(65));
}

static void
test_no_proc(void **state)
{
	struct region *r = *state;
	query_missing = true;
	proc_missing = true;
	refuse(r->mem, PAGE);
	proc_missing = false;
	query_missing = false;
}

static void
test_out_of_memory(void **state)
{
	(void)state;
	char path[32];
	int fd = new_file(path, PAGE); /* one that the device does not know yet */
	void *mem = map(fd, PAGE, 0);
	close(fd);
	int fds = open_fds();
	int failures = 0, ret = ENOMEM;
	struct softrdma_persist *persist = NULL;
	for (int k = 1; ret && k < 20; k++, failures++) {
		malloc_in = k;
		ret = softrdma_persist_new(mem, PAGE, &persist);
		assert_true(ret == 0 || ret == ENOMEM);
		if (ret)
			assert_int_equal(open_fds(), fds);
	}
	malloc_in = 0;
	assert_int_equal(ret, 0);
	assert_true(failures >= 3); /* the region, the file, and then none */
	softrdma_persist_delete(persist);
	munmap(mem, PAGE);
	unlink(path);
}

/* a file on DAX, mapped with MAP_SYNC: no msync(), and missing pages are never accessed */

/* false if this is a build without libpmem2; then test_dax_refused() shows what it does with such memory */
static bool
has_dax(void)
{
	return softrdma_dax_init("a file") != EOPNOTSUPP;
}

static int
setup_dax(void **state)
{
	dax = has_dax();
	return setup_region(state);
}

static int
teardown_dax(void **state)
{
	dax = false;
	return teardown_region(state);
}

/* such memory is not taken for that of a disk */
static void
test_dax_refused(void **state)
{
	struct region *r = *state;
	if (has_dax() || !r->disk)
		skip();
	dax = true;
	int before = warnings;
	refuse(r->mem, PAGE);
	refuse(r->mem, PAGE);
	assert_int_equal(warnings, before + 2);

	/* the same file, mapped without MAP_SYNC */
	dax = false;
	struct softrdma_persist *disk;
	assert_int_equal(softrdma_persist_new(r->mem, PAGE, &disk), 0);
	assert_int_equal(softrdma_persist_flush(disk, r->mem, PAGE), 0);
	softrdma_persist_delete(disk);
}

static void
test_dax_flush(void **state)
{
	struct region *r = *state;
	if (!dax || !r->disk)
		skip();
	msync_error = EIO; /* msync() must not be called */
	assert_int_equal(softrdma_persist_may_block(r->persist, PAGES(8)), 0);
	assert_int_equal(softrdma_persist_may_block(r->persist, (size_t)1 << 30), 1);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem + 5, PAGES(7)), 0);

	/* without MAP_SYNC the same file is flushed by msync() */
	dax = false;
	struct softrdma_persist *disk;
	assert_int_equal(softrdma_persist_new(r->mem, PAGE, &disk), 0);
	assert_int_equal(softrdma_persist_flush(disk, r->mem, 1), EIO);
	softrdma_persist_delete(disk);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, PAGE), 0);
}

static void
test_dax_truncated(void **state)
{
	struct region *r = *state;
	if (!dax)
		skip();
	assert_int_equal(truncate(r->path, (off_t)PAGE), 0);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, PAGE), 0);
	assert_broken(r, ENXIO);
}

static void
test_dax_unmapped(void **state)
{
	struct region *r = *state;
	if (!dax)
		skip();
	munmap(r->mem + PAGE, PAGE);
	assert_broken(r, r->disk ? EFAULT : ENOMEM);
}

static void
test_dax_unreadable(void **state)
{
	struct region *r = *state;
	if (!dax || !r->disk)
		skip();
	assert_int_equal(mprotect(r->mem + PAGE, PAGE, PROT_NONE), 0);
	assert_broken(r, EACCES);
}

/* races: no signal, and no success for missing pages */

static atomic_bool stop;

static void *
cut_and_grow(void *path)
{
	while (!stop) {
		if (truncate(path, 0) || truncate(path, (off_t)PAGES(8)))
			abort();
	}
	return NULL;
}

static void
test_truncation_races(void **state)
{
	struct region *r = *state;
	pthread_t thread;
	stop = false;
	assert_int_equal(pthread_create(&thread, NULL, cut_and_grow, r->path), 0);
	for (int i = 0; i < 300; i++) {
		struct softrdma_persist *persist;
		int ret = softrdma_persist_new(r->mem, PAGES(8), &persist);
		if (ret == 0) {
			softrdma_persist_flush(persist, r->mem, PAGES(8));
			softrdma_persist_delete(persist);
		} else {
			assert_int_equal(ret, EOPNOTSUPP);
		}
	}
	stop = true;
	pthread_join(thread, NULL);
}

static void *
flush_often(void *state)
{
	struct region *r = state;
	for (int i = 0; i < 200; i++)
		if (softrdma_persist_flush(r->persist, r->mem + i, PAGES(2)))
			return r;
	return NULL;
}

static void
test_threads(void **state)
{
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, flush_often, *state), 0);
	for (int i = 0; i < 4; i++) {
		void *failed;
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
}

/* parts of the implementation */

static void
test_delete_null(void **state)
{
	(void)state;
	softrdma_persist_delete(NULL);
}

static void
test_parse(void **state)
{
	(void)state;
	struct {
		const char *line;
		bool valid;
		const char *name;
	} table[] = {
		{ "55d0-55d1 rw-s 00002000 08:10 1234                    /a/b c\n", true, "/a/b c" },
		{ "55d0-55d1 rw-s 00002000 08:10 1234 /a\\012b (deleted)\n", true, "/a\nb (deleted)" },
		{ "55d0-55d1 rw-s 00002000 08:10 1234 \n", true, "" },
		{ "55d0-55d1 rw-s 00002000 08:10 1234", true, "" },
		{ "55d1-55d1 rw-s 00002000 08:10 1234\n", false, NULL },
		{ "55d0-55d1 rw- 00002000 08:10 1234\n", false, NULL },
		{ "VmFlags: rd wr sh mr mw me ms sf sd\n", false, NULL },
		{ "Size:                 4 kB\n", false, NULL },
		{ "", false, NULL },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char line[128];
		struct softrdma_area area;
		char *name;
		strcpy(line, table[i].line);
		assert_int_equal(softrdma_mapping_parse(line, &area, &name), table[i].valid);
		if (!table[i].valid)
			continue;
		assert_string_equal(name, table[i].name);
		assert_int_equal(area.start, 0x55d0);
		assert_int_equal(area.end, 0x55d1);
		assert_int_equal(area.offset, 0x2000);
		assert_int_equal(area.inode, 1234);
		assert_true(area.readable && area.writable && area.shared);
	}
}

/* the query and the text give the same result */
static void
test_both_ways_agree(void **state)
{
	struct region *r = *state;
	struct softrdma_maps *maps = softrdma_maps_open();
	assert_non_null(maps);
	struct softrdma_area query, text;
	memset(&query, 0, sizeof(query));
	memset(&text, 0, sizeof(text));
	uintptr_t start = (uintptr_t)r->mem;
	assert_int_equal(softrdma_mapping_each(maps, start, start + PAGE, true, remember, &query), 0);
	assert_int_equal(softrdma_mapping_each(NULL, start, start + PAGE, true, remember, &text), 0);
	softrdma_maps_close(maps);
	assert_true(query.start == text.start && query.end == text.end && query.offset == text.offset);
	assert_true(query.dev == text.dev && query.inode == text.inode);
	assert_true(query.readable == text.readable && query.writable == text.writable &&
		query.shared == text.shared);
	assert_false(softrdma_mapping_is_sync(start));
}

/* a process that has no descriptor left makes memory durable all the same */
static void
test_no_descriptors(void **state)
{
	struct region *r = *state;
	struct rlimit before, none;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	const int ret = softrdma_persist_flush(r->persist, r->mem, PAGES(8));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(ret, 0);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, PAGES(8)), 0);
}

/* the descriptor of this process's maps */
static int
find_maps(void)
{
	char path[64], target[64], wanted[64];
	snprintf(wanted, sizeof(wanted), "/proc/%d/maps", (int)getpid());
	for (int fd = 0; fd < 256; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ssize_t len = readlink(path, target, sizeof(target) - 1);
		target[len > 0 ? len : 0] = '\0';
		if (strcmp(target, wanted) == 0)
			return fd;
	}
	fail();
	return -1;
}

/* what cannot be looked at now fails one flush, and not those that follow */
static void
test_maps_cannot_be_read(void **state)
{
	struct region *r = *state;
	const int maps = find_maps(), kept = dup(maps);
	const int unreadable =
		open("/proc/self/mem", O_RDONLY | O_CLOEXEC); /* nothing is mapped at its beginning */
	const int before = warnings;
	assert_int_equal(dup2(unreadable, maps), maps);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, PAGES(8)), EAGAIN);
	assert_int_equal(warnings, before + 1);
	assert_int_equal(dup2(kept, maps), maps);
	assert_int_equal(softrdma_persist_flush(r->persist, r->mem, PAGES(8)), 0);
	close(kept);
	close(unreadable);
}

#define BOTH_WAYS(test) \
	{ #test ", by query", test, setup_region, teardown_region, NULL }, \
	{ \
#test ", by text", test, setup_text, teardown_text, NULL \
	}

int
main(void)
{
	softrdma_set_env(&(struct softrdma_env){ .log = count_log });
	umask(0);

	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_delete_null),
		cmocka_unit_test(test_anonymous),
		cmocka_unit_test(test_sysv),
		cmocka_unit_test(test_private_and_read_only),
		cmocka_unit_test(test_past_the_end),
		cmocka_unit_test(test_memory_file_systems),
		cmocka_unit_test(test_warns_once),
		cmocka_unit_test_setup_teardown(test_size_alone, setup_region, teardown_region),
		cmocka_unit_test(test_nameless_file),
		cmocka_unit_test(test_unprivileged),
		cmocka_unit_test(test_mounted_over),
		cmocka_unit_test(test_overlay),
		cmocka_unit_test_setup_teardown(test_both_ways_agree, setup_region, teardown_region),
		cmocka_unit_test_setup_teardown(test_record_locks_survive, setup_region, teardown_region),
		cmocka_unit_test_setup_teardown(test_no_proc, setup_region, teardown_region),
		cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test_setup_teardown(test_dax_refused, setup_region, teardown_region),
		cmocka_unit_test_setup_teardown(test_dax_flush, setup_dax, teardown_dax),
		cmocka_unit_test_setup_teardown(test_dax_truncated, setup_dax, teardown_dax),
		cmocka_unit_test_setup_teardown(test_dax_unmapped, setup_dax, teardown_dax),
		cmocka_unit_test_setup_teardown(test_dax_unreadable, setup_dax, teardown_dax),
		BOTH_WAYS(test_no_descriptors),
		cmocka_unit_test_setup_teardown(test_maps_cannot_be_read, setup_text, teardown_text),
		BOTH_WAYS(test_gap),
		BOTH_WAYS(test_split_before),
		BOTH_WAYS(test_too_many_mappings),
		BOTH_WAYS(test_flush),
		BOTH_WAYS(test_unmapped),
		BOTH_WAYS(test_mapped_over_by_nothing),
		BOTH_WAYS(test_mapped_over_by_another_file),
		BOTH_WAYS(test_mapped_over_by_another_offset),
		BOTH_WAYS(test_mapped_over_privately),
		BOTH_WAYS(test_split_and_mapped_again),
		BOTH_WAYS(test_truncated),
		BOTH_WAYS(test_replaced_file),
		BOTH_WAYS(test_msync_fails),
		BOTH_WAYS(test_several_files_side_by_side),
		BOTH_WAYS(test_truncation_races),
		BOTH_WAYS(test_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
