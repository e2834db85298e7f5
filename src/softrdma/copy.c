/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* copy.c -- access to memory that may not be there: the kernel makes it, and gives an error for a SIGBUS */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "copy.h"
#include "fork.h"

/* Linux 5.14; older headers have no names for them */
#define POPULATE_READ 22
#define POPULATE_WRITE 23

/*
 * Sandboxes may forbid process_vm_*(), which reaches other processes too. None forbids pipes: what is written
 * to one and read from it is copied by the kernel all the same.
 */
static struct {
	pthread_mutex_t lock; /* guards all of it, and what is in the pipe */
	pid_t owner;          /* 0: no pipe. A forked child has a parent's, which is in use there. */
	int ends[2];
} conduit = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

/* the parent's pipe is closed when the child needs one */
void
softrdma_copy_after_fork(void)
{
	conduit.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* the lock is held */
static void
close_conduit(void)
{
	if (conduit.owner == 0)
		return;
	close(conduit.ends[0]);
	close(conduit.ends[1]);
	conduit.owner = 0;
}

/* the lock is held; false: there can be none */
static bool
open_conduit(void)
{
	const pid_t own = getpid();
	if (conduit.owner == own)
		return true;
	close_conduit();
	if (pipe2(conduit.ends, O_CLOEXEC | O_NONBLOCK) != 0)
		return false;
	conduit.owner = own;
	return true;
}

/* the lock is held; each round fills the empty pipe as far as it goes, and empties it */
static bool
copy_through_conduit(uint8_t *to, const uint8_t *from, size_t len)
{
	while (len > 0) {
		ssize_t n = write(conduit.ends[1], from, len);
		if (n <= 0 || read(conduit.ends[0], to, (size_t)n) != n)
			return false;
		to += n;
		from += n;
		len -= (size_t)n;
	}
	return true;
}

static int
copy_by_pipe(void *to, const void *from, size_t len)
{
	pthread_mutex_lock(&conduit.lock);
	bool opened = open_conduit();
	bool copied = opened && copy_through_conduit(to, from, len);
	if (!copied)
		close_conduit(); /* with what is still in it */
	pthread_mutex_unlock(&conduit.lock);
	return copied ? 0 : EFAULT;
}

/*
 * what a call gave that copies between processes; memory that is there only in part is told by a short copy
 */
static int
copy_result(ssize_t n, void *to, const void *from, size_t len)
{
	if (n == (ssize_t)len)
		return 0;
	if (n >= 0 || errno == EFAULT)
		return EFAULT;
	return copy_by_pipe(to, from, len);
}

int
softrdma_copy_to(void *there, const void *src, size_t len)
{
	const struct iovec local = { (void *)(uintptr_t)src, len };
	const struct iovec remote = { there, len };
	return copy_result(process_vm_writev(getpid(), &local, 1, &remote, 1, 0), there, src, len);
}

int
softrdma_copy_from(void *dst, const void *there, size_t len)
{
	const struct iovec local = { dst, len };
	const struct iovec remote = { (void *)(uintptr_t)there, len };
	return copy_result(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), dst, there, len);
}

static int
populate(void *addr, size_t len, int advice)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t skip = (uintptr_t)addr % page;
	int ret;
	do {
		ret = madvise((uint8_t *)addr - skip, skip + len, advice);
	} while (ret != 0 && errno == EINTR);
	if (ret == 0)
		return 0;
	/* an older kernel, memory of a device, or a sandbox; all else says that a page cannot be had */
	return errno == EINVAL || errno == ENOSYS || errno == EPERM ? EOPNOTSUPP : EFAULT;
}

int
softrdma_copy_populate(void *addr, size_t len)
{
	return populate(addr, len, POPULATE_WRITE);
}

int
softrdma_copy_prefetch(void *addr, size_t len)
{
	return populate(addr, len, POPULATE_READ);
}

/*
 * Asks by a call that copies eight bytes in before it refuses what is to be done with them: nothing happens,
 * no sandbox forbids it, and EFAULT is what would be a SIGBUS.
 */
bool
softrdma_copy_is_there(const void *addr)
{
	const uint64_t no_operation = UINT32_MAX;
	const uint8_t *set = (const uint8_t *)addr - (uintptr_t)addr % sizeof(uint64_t);
	errno = 0;
	syscall(SYS_rt_sigprocmask, no_operation, set, NULL, sizeof(uint64_t));
	return errno != EFAULT;
}

void
softrdma_copy_close(void)
{
	pthread_mutex_lock(&conduit.lock);
	close_conduit();
	pthread_mutex_unlock(&conduit.lock);
}
