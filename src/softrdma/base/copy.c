/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* copy.c -- access to memory that may be missing: the kernel accesses it and returns an error instead of SIGBUS */

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/copy.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/high_fd.h"
#include "softrdma/base/valgrind.h"

/* Linux 5.14; older headers have no names for them */
#define POPULATE_READ 22
#define POPULATE_WRITE 23

/* up to this number, pages are asked about one by one; one call for all of them takes longer */
#define PAGES_ONE_BY_ONE 2

/*
 * A sandbox may forbid process_vm_*(), which can access other processes too. No sandbox forbids pipes, and the
 * kernel also copies what is written to a pipe and read from it.
 */
static struct {
	pthread_mutex_t lock; /* guards the members and the content of the pipe */
	pid_t owner;          /* 0: no pipe. A forked child has its parent's, which the parent still uses. */
	int ends[2];
} conduit = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

/* the child closes the parent's pipe when it needs a pipe of its own */
static void
after_fork(void)
{
	conduit.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

/* the caller holds the lock */
static void
close_conduit(void)
{
	if (conduit.owner == 0)
		return;
	close(conduit.ends[0]);
	close(conduit.ends[1]);
	conduit.owner = 0;
}

/* the caller holds the lock; false: no pipe can be opened */
static bool
open_conduit(void)
{
	const pid_t own = getpid();
	if (conduit.owner == own)
		return true;
	close_conduit();
	if (softrdma_high_pipe(conduit.ends, O_CLOEXEC | O_NONBLOCK) != 0)
		return false;
	conduit.owner = own;
	return true;
}

/* the caller holds the lock; each round fills the empty pipe as far as possible, and empties it */
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
	SOFTRDMA_NO_CANCEL;
	pthread_mutex_lock(&conduit.lock);
	bool opened = open_conduit();
	bool copied = opened && copy_through_conduit(to, from, len);
	if (!copied)
		close_conduit(); /* discards what is still in it */
	pthread_mutex_unlock(&conduit.lock);
	return copied ? 0 : EFAULT;
}

/* evaluates the result n of process_vm_*(); a short copy means that only a part of the memory is there */
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

static uintptr_t
page_size(void)
{
	return (uintptr_t)sysconf(_SC_PAGESIZE);
}

static int
populate(void *addr, size_t len, int advice)
{
	const uintptr_t skip = (uintptr_t)addr % page_size();
	int ret;
	do {
		ret = madvise((uint8_t *)addr - skip, skip + len, advice);
	} while (ret != 0 && errno == EINTR);
	if (ret == 0)
		return 0;
	/* an older kernel, memory of a device, or a sandbox; any other error means that a page cannot be provided */
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
 * Uses a system call that reads eight bytes before it refuses the operation that it should do with them. So the
 * call changes nothing, no sandbox forbids it, and it gives EFAULT where a load would raise SIGBUS.
 */
bool
softrdma_copy_is_there(const void *addr)
{
	const uint64_t no_operation = UINT32_MAX;
	const uint8_t *set = (const uint8_t *)addr - (uintptr_t)addr % sizeof(uint64_t);
	errno = 0;
	if (!softrdma_under_valgrind()) /* it reports a load of missing memory itself */
		syscall(SYS_rt_sigprocmask, no_operation, set, NULL, sizeof(uint64_t));
	return errno != EFAULT;
}

/*
 * Has the kernel add 0 to the word of that byte by an atomic instruction, which no other store of the word can be lost by.
 * A word is inside a page, so bytes beside the range do not matter. No sandbox forbids the call: locks need it. It wakes
 * threads that wait for the word only if it holds RARE, and those must expect to be woken without a reason.
 */
bool
softrdma_copy_is_writable(void *addr)
{
	enum { RARE = 0x5a5 };
	uint32_t no_lock = 0;
	uint8_t *word = (uint8_t *)addr - (uintptr_t)addr % sizeof(uint32_t);
	/* valgrind reports a store to missing memory itself */
	return softrdma_under_valgrind() ||
		syscall(SYS_futex, &no_lock, FUTEX_WAKE_OP_PRIVATE, 0, NULL, word,
			FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, RARE)) >= 0 ||
		errno != EFAULT;
}

int
softrdma_copy_check_loads(const void *addr, size_t len)
{
	const uintptr_t page = page_size();
	const uint8_t *at = addr, *end = at + len;
	bool there = true;
	for (; there && at < end; at += page - (uintptr_t)at % page)
		there = softrdma_copy_is_there(at);
	return there ? 0 : EFAULT;
}

int
softrdma_copy_check_ends(const void *addr, size_t len)
{
	const uintptr_t page = page_size();
	const uint8_t *first = addr, *last = first + len - 1;
	bool there = softrdma_copy_is_there(first);
	if ((uintptr_t)first / page != (uintptr_t)last / page)
		there = there && softrdma_copy_is_there(last);
	return there ? 0 : EFAULT;
}

int
softrdma_copy_check_stores(void *addr, size_t len, struct softrdma_pages *pages)
{
	const uintptr_t page = page_size();
	uint8_t *at = addr, *end = at + len;
	if (len > PAGES_ONE_BY_ONE * page) {
		int ret = softrdma_copy_populate(addr, len);
		if (ret != EOPNOTSUPP)
			return ret;
	}
	bool writable = true;
	for (; writable && at < end; at += page - (uintptr_t)at % page) {
		const uintptr_t start = (uintptr_t)at - (uintptr_t)at % page;
		uintptr_t *known = pages ? &pages->known[start / page % SOFTRDMA_PAGES_KNOWN] : NULL;
		if (known && *known == start)
			continue;
		writable = softrdma_copy_is_writable(at);
		if (known && writable)
			*known = start;
	}
	return writable ? 0 : EFAULT;
}

void
softrdma_copy_close(void)
{
	pthread_mutex_lock(&conduit.lock);
	close_conduit();
	pthread_mutex_unlock(&conduit.lock);
}
