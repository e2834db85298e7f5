/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * persist_description.c -- an open file description of the device's own, through which it syncs a file
 *
 * The kernel reports a failed write-back once to each open file description, on the next fsync(2) or msync(2)
 * (Documentation/filesystems/vfs.rst, "Handling errors during writeback"). If the device used the
 * application's description, an fsync() of the application would consume the report, and the next flush
 * would succeed although data is lost. With a description of its own the device gets the report even if the
 * application, another process or a caller of syncfs(2) got it before.
 *
 * msync() uses the description that a mapping was made from. So the device keeps a mapping and no descriptor.
 * The mapping allows no access; it only occupies address space. Its description must be open for writing:
 * msync() ignores all others.
 *
 * A process that closes any descriptor of a file loses all its record locks (fcntl) on that file. The locks
 * belong to the table of descriptors. Therefore a thread with a table of its own opens, maps and closes the
 * file. It lives for about ten microseconds, and the calling thread waits for it.
 */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "softrdma/base/high_fd.h"
#include "softrdma/base/thread.h"
#include "softrdma/persist/persist_description.h"
#include "softrdma/persist/persist_msync.h"

/* Linux 5.9; some versions of the headers have no names for these */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define CLOSE_RANGE_UNSHARE_FILES (1u << 1)

/* standard input, output and error stay open, because a sanitizer may report to them */
#define FIRST_FD 3u

#define PATH_SIZE (sizeof("/proc/self/task//fd/") + 2 * 3 * sizeof(int))

struct opening {
	char path[PATH_SIZE];
	size_t len;
	int fd;     /* -1: not opened, or closed again */
	void *base; /* MAP_FAILED: not mapped */
	int error;  /* 0: open and mmap have succeeded, or were not tried */
};

/* O_NONBLOCK: does not wait until the holder of a lease (fcntl(2), F_SETLEASE) gives it up */
static void
open_and_map(struct opening *opening)
{
	opening->fd = softrdma_high_fd(open(opening->path, O_RDWR | O_NONBLOCK | O_CLOEXEC));
	if (opening->fd >= 0)
		opening->base = mmap(NULL, opening->len, PROT_NONE, MAP_SHARED, opening->fd, 0);
	if (opening->base == MAP_FAILED)
		opening->error = errno;
}

static void
close_it(struct opening *opening)
{
	if (opening->fd >= 0)
		close(opening->fd);
	opening->fd = -1;
}

/* gives the calling thread a table of descriptors of its own; a sandbox may allow only one of the two calls */
static bool
leave_descriptors(void)
{
	return syscall(SYS_close_range, FIRST_FD, ~0u, CLOSE_RANGE_UNSHARE_FILES) == 0 ||
		unshare(CLONE_FILES) == 0;
}

static void *
open_apart(void *arg)
{
	struct opening *opening = arg;
	if (leave_descriptors()) {
		open_and_map(opening);
		close_it(opening);
	}
	return NULL;
}

/* 0 or an errno value */
static int
run_apart(struct opening *opening)
{
	pthread_t thread;
	int ret = softrdma_thread_create(&thread, "softrdma-open", open_apart, opening);
	if (ret == 0)
		pthread_join(thread, NULL);
	return ret;
}

int
softrdma_description_open(int path_fd, size_t len, struct softrdma_description *description)
{
	assert(len > 0);
	struct opening opening = { .len = len, .fd = -1, .base = MAP_FAILED };
	/* the path leads to the calling thread's table, from any thread */
	snprintf(opening.path, sizeof(opening.path), "/proc/self/task/%ld/fd/%d", syscall(SYS_gettid),
		path_fd);
	int ret = run_apart(&opening);
	if (ret)
		return ret;
	/*
	 * A sandbox may refuse both calls. Then the descriptor stays open until the process ends, which keeps
	 * the locks as well.
	 */
	if (opening.base == MAP_FAILED && opening.error == 0) {
		open_and_map(&opening);
		if (opening.base == MAP_FAILED)
			close_it(&opening);
	}
	if (opening.base == MAP_FAILED)
		return opening.error;
	/* a child would share the description and could consume its reports */
	if (madvise(opening.base, len, MADV_DONTFORK) != 0) {
		ret = errno;
		munmap(opening.base, len);
		return ret;
	}
	*description = (struct softrdma_description){ .base = opening.base, .len = len };
	return 0;
}

int
softrdma_description_grow(struct softrdma_description *description, size_t len)
{
	assert(len > description->len);
	void *base = mremap(description->base, description->len, len, MREMAP_MAYMOVE);
	if (base == MAP_FAILED)
		return errno;
	*description = (struct softrdma_description){ .base = base, .len = len };
	return 0;
}

int
softrdma_description_sync(const struct softrdma_description *description, uint64_t offset, size_t len)
{
	assert(offset <= description->len && len <= description->len - offset);
	return softrdma_msync(description->base + offset, len);
}

void
softrdma_description_close(struct softrdma_description *description)
{
	if (description->base)
		munmap(description->base, description->len);
	*description = (struct softrdma_description){ 0 };
}
