/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * to_medium.c -- to be preloaded: what msync(), fsync() and fdatasync() have made durable is also copied to a
 * second file, the medium
 *
 * The medium of FILE is FILE.medium, if that exists. Its content is what a power cut would leave of FILE if
 * the kernel had written nothing back by itself: nothing but what a flush has covered, in whole pages. The
 * test creates the medium, as a copy of a file that was synced, and makes the power cut: it replaces FILE by
 * its medium.
 *
 * The mapping that is synced may forbid access, so the pages are read from the file. With MEDIUM_CONTROL in
 * the environment nothing is copied: then a flush makes nothing durable, and reports success.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SUFFIX ".medium"
#define PART ((size_t)4096)

struct mapping {
	uintptr_t start;
	uintptr_t end;
	uint64_t offset;
	char path[PATH_MAX];
};

static _Noreturn void
fail(const char *what)
{
	fprintf(stderr, "medium: %s: %s\n", what, strerror(errno));
	abort();
}

/* finds the shared mapping of a file that contains the address */
static bool
find_mapping(uintptr_t addr, struct mapping *m)
{
	char line[PATH_MAX + 128];
	char shared;
	bool found = false;
	FILE *maps = fopen("/proc/self/maps", "re");

	if (maps == NULL)
		fail("/proc/self/maps");
	while (!found && fgets(line, sizeof(line), maps))
		found = sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*c%*c%*c%c %" SCNx64 " %*s %*s %4095[^\n]",
				&m->start, &m->end, &shared, &m->offset, m->path) == 5 &&
			shared == 's' && addr >= m->start && addr < m->end && m->path[0] == '/';
	fclose(maps);
	return found;
}

static void
copy(int from, int to, uint64_t offset, uint64_t len)
{
	uint8_t part[PART];

	while (len) {
		size_t n = len < PART ? (size_t)len : PART;
		ssize_t got = pread(from, part, n, (off_t)offset);
		if (got < 0)
			fail("the file cannot be read");
		if (got == 0)
			return; /* the last page is longer than the file */
		if (pwrite(to, part, (size_t)got, (off_t)offset) != got)
			fail("the medium cannot be written");
		offset += (uint64_t)got;
		len -= (uint64_t)got;
	}
}

/* -1 if the file has no medium */
static int
open_medium(const char *path)
{
	char medium[PATH_MAX + sizeof(SUFFIX)];

	snprintf(medium, sizeof(medium), "%s" SUFFIX, path);
	return open(medium, O_WRONLY | O_CLOEXEC);
}

/* copies all of an open file */
static void
copy_file_to_medium(int fd)
{
	char link[64];
	char path[PATH_MAX];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, path, sizeof(path) - 1);
	if (len <= 0)
		return;
	path[len] = '\0';
	int to = open_medium(path);
	if (to < 0)
		return;
	int from = open(path, O_RDONLY | O_CLOEXEC);
	if (from < 0)
		fail(path);
	copy(from, to, 0, UINT64_MAX);
	close(from);
	close(to);
}

static void
copy_to_medium(uintptr_t addr, size_t len)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t end = (addr + len + page - 1) & ~(page - 1);
	struct mapping m;

	/* a range may consist of several mappings */
	while (addr < end && find_mapping(addr, &m)) {
		const uintptr_t stop = end < m.end ? end : m.end;
		int to = open_medium(m.path);
		if (to >= 0) {
			int from = open(m.path, O_RDONLY | O_CLOEXEC);
			if (from < 0)
				fail(m.path);
			copy(from, to, m.offset + (addr - m.start), stop - addr);
			close(from);
			close(to);
		}
		addr = stop;
	}
}

static bool
is_control(void)
{
	return getenv("MEDIUM_CONTROL") != NULL;
}

int
msync(void *addr, size_t len, int flags)
{
	int ret = (int)syscall(SYS_msync, addr, len, flags);

	if (ret == 0 && (flags & MS_SYNC) && !is_control())
		copy_to_medium((uintptr_t)addr, len);
	return ret;
}

int
fsync(int fd)
{
	int ret = (int)syscall(SYS_fsync, fd);

	if (ret == 0 && !is_control())
		copy_file_to_medium(fd);
	return ret;
}

int
fdatasync(int fd)
{
	int ret = (int)syscall(SYS_fdatasync, fd);

	if (ret == 0 && !is_control())
		copy_file_to_medium(fd);
	return ret;
}
