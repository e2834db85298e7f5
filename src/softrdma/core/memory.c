/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* memory.c -- protection domains, memory regions and the check that every access passes */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softrdma/base/copy.h"
#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/high_fd.h"
#include "softrdma/base/missing.h"
#include "softrdma/base/variables.h"
#include "softrdma/core/memory.h"
#include "softrdma/persist/mapping.h"

/* keys are random, so the low bits choose the bucket well */
#define BUCKETS 4096

/* bytes copied between two fences: a cache line */
#define COPY_STEP 64

/* of a copy of more bytes, all but the end may be stored in any order, which is faster */
#define COPY_AT_ONCE 1024

#define ACCESS_KNOWN \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING | SOFTRDMA_ACCESS_FLUSH_GLOBAL | \
		SOFTRDMA_ACCESS_FLUSH_PERSISTENT)

/*
 * Changes of the table are made under its lock, and so are lookups for the application. Lookups for connections take no
 * lock, which all engines would share: a region that leaves the table keeps its place in its bucket, and is freed only
 * after each connection's lock was taken (softrdma_mr_remove()). A lookup ends before its caller releases that lock.
 */
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static _Atomic(struct softrdma_mr *) table[BUCKETS];
static pthread_mutex_t flushes_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t flushes_cond = PTHREAD_COND_INITIALIZER;

static bool
fork_begins(void)
{
	pthread_rwlock_wrlock(&table_lock);
	return true;
}

static void
fork_ends(void)
{
	pthread_rwlock_unlock(&table_lock);
}

/*
 * The parent's regions stay in the table, which is consistent, because it was locked during the fork. No connection of
 * the child reaches them, because their protection domains are the parent's.
 */
static void
after_fork(void)
{
	table_lock = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
	flushes_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	flushes_cond = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_TABLE, .in_child = after_fork, .begins = fork_begins,
	.ends = fork_ends);

static _Atomic(struct softrdma_mr *) *
bucket_of(uint32_t key)
{
	return &table[key % BUCKETS];
}

/* the next region of a bucket, or the first one; all of it was written before it came into the bucket */
static struct softrdma_mr *
follow(_Atomic(struct softrdma_mr *) *at)
{
	return atomic_load_explicit(at, memory_order_acquire);
}

static struct softrdma_mr *
lookup(uint32_t key)
{
	struct softrdma_mr *mr = follow(bucket_of(key));
	while (mr && mr->mr.rkey != key)
		mr = follow(&mr->next);
	return mr;
}

static int
in_range(const struct softrdma_mr *mr, uint64_t addr, uint64_t len)
{
	uint64_t base = (uint64_t)(uintptr_t)mr->mr.addr;
	if (addr < base)
		return 0;
	uint64_t off = addr - base;
	return off <= mr->mr.length && len <= mr->mr.length - off;
}

struct softrdma_mr *
softrdma_mr_find(const struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t len, int access)
{
	struct softrdma_mr *mr = lookup(key);

	/* mr cannot be freed here: deregistration takes the lock of the caller's connection first */
	if (mr == NULL || softrdma_domain_of_keys(mr->mr.pd) != pd || (mr->access & access) != access ||
		!in_range(mr, addr, len))
		return NULL;
	return mr;
}

int
softrdma_mr_check(const struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t len, int access)
{
	int ret = 0;
	pthread_rwlock_rdlock(&table_lock);
	const struct softrdma_mr *mr = lookup(key);
	if (mr && (softrdma_domain_of_keys(mr->mr.pd) != pd || (mr->access & access) != access))
		ret = EPERM;
	else if (mr == NULL || !in_range(mr, addr, len))
		ret = EFAULT;
	pthread_rwlock_unlock(&table_lock);
	return ret;
}

int
softrdma_place_sges(const struct ibv_pd *pd, const struct ibv_sge *sge, int num_sge, uint64_t offset,
	uint64_t len, int access, struct softrdma_place *place)
{
	place->count = 0;
	for (int i = 0; i < num_sge && len > 0; i++) {
		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		uint64_t segment = sge[i].length - offset;
		if (segment > len)
			segment = len;
		uint64_t addr = sge[i].addr + offset;
		struct softrdma_mr *mr = softrdma_mr_find(pd, sge[i].lkey, addr, segment, access);
		if (mr == NULL)
			return EACCES;
		assert(place->count < SOFTRDMA_SGE_MAX);
		place->iov[place->count].iov_base = (void *)(uintptr_t)addr;
		place->iov[place->count].iov_len = segment;
		place->mr[place->count] = mr;
		place->count++;
		offset = 0;
		len -= segment;
	}
	assert(len == 0); /* callers ask for at most what the list holds */
	return 0;
}

/* memcpy() may store its bytes in any order, which is allowed for all but the end of a long copy */
void
softrdma_copy_upwards(void *dst, const void *src, size_t len)
{
	uint8_t *to = dst;
	const uint8_t *from = src;
	if (len > COPY_AT_ONCE) {
		size_t n = len - COPY_STEP;
		memcpy(to, from, n);
		__atomic_thread_fence(__ATOMIC_RELEASE);
		to += n;
		from += n;
		len = COPY_STEP;
	}
	while (len > sizeof(uint64_t)) {
		size_t n = len - sizeof(uint64_t) < COPY_STEP ? len - sizeof(uint64_t) : COPY_STEP;
		memcpy(to, from, n);
		__atomic_thread_fence(__ATOMIC_RELEASE);
		to += n;
		from += n;
		len -= n;
	}
	if (len == sizeof(uint64_t) && (uintptr_t)to % sizeof(uint64_t) == 0) {
		uint64_t word;
		memcpy(&word, from, sizeof(word));
		__atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
		return;
	}
	for (size_t i = 0; i < len; i++)
		__atomic_store_n(to + i, from[i], __ATOMIC_RELEASE);
}

int
softrdma_mr_store(const struct softrdma_mr *mr, void *dst, const void *src, size_t len,
	struct softrdma_pages *pages)
{
	if (mr->fragile)
		return softrdma_copy_to(dst, src, len);
	int ret = softrdma_copy_check_stores(dst, len, pages);
	if (ret == 0)
		softrdma_copy_upwards(dst, src, len);
	return ret;
}

int
softrdma_mr_load(const struct softrdma_mr *mr, void *dst, const void *src, size_t len)
{
	if (mr->fragile)
		return softrdma_copy_from(dst, src, len);
	int ret = softrdma_copy_check_loads(src, len);
	if (ret == 0)
		memcpy(dst, src, len);
	return ret;
}

int
softrdma_mr_populate(const struct softrdma_mr *mr, void *addr, size_t len)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	int ret =
		mr->fragile ? softrdma_copy_populate(addr, len) : softrdma_copy_check_stores(addr, len, NULL);
	/*
	 * message(memory): compare-and-swap, fetch-and-add or atomic write to a mapped file, on an old
	 * kernel or a device -> As it says.
	 */
	if (ret == EOPNOTSUPP)
		SOFTRDMA_LOG_FEW(&limit, ERROR,
			"an atomic operation on memory of a file is refused: the kernel cannot be asked if its page "
			"is there (MADV_POPULATE_WRITE, Linux 5.14 or later, memory of no device); use a write, or "
			"memory that is of no file");
	else if (ret)
		softrdma_mr_tell_missing();
	return ret;
}

void
softrdma_mr_tell_missing(void)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	/*
	 * message(memory): an operation of this process or of a peer, on the software device -> Deregister
	 * memory before you free or unmap it, and a file's before you truncate it; `fallocate` files.
	 */
	SOFTRDMA_LOG_FEW(&limit, ERROR,
		"a request fails, and its connection with it: registered memory is not there (unmapped, moved, "
		"protected or truncated since, or its file has no room for a page); deregister memory before it goes");
}

void
softrdma_mr_get(struct softrdma_mr *mr)
{
	pthread_mutex_lock(&flushes_lock);
	mr->flushes++;
	pthread_mutex_unlock(&flushes_lock);
}

void
softrdma_mr_put(struct softrdma_mr *mr)
{
	pthread_mutex_lock(&flushes_lock);
	assert(mr->flushes > 0);
	if (--mr->flushes == 0)
		pthread_cond_broadcast(&flushes_cond);
	pthread_mutex_unlock(&flushes_lock);
}

struct mapping_check {
	int write;
	int fragile;
};

/*
 * True if the memory is on the kernel's internal tmpfs, which has no size limit. Huge pages have the same names, but
 * are on another device: for a hole of them none may be left.
 */
static bool
is_on_kernel_tmpfs(const struct softrdma_area *area)
{
	struct stat st;
	int fd = softrdma_high_fd(memfd_create("softrdma", MFD_CLOEXEC));
	if (fd < 0)
		return false;
	bool same = fstat(fd, &st) == 0 && st.st_dev == area->dev;
	close(fd);
	return same;
}

/* true if a store may raise SIGBUS. A shared mapping without a file has an inode too, but cannot be truncated. */
static bool
is_fragile(const struct softrdma_area *area, const char *name)
{
	if (area->inode == 0 && area->dev == 0)
		return false;
	bool nameless = strncmp(name, "/dev/zero", 9) == 0 || strncmp(name, "/SYSV", 5) == 0;
	return !nameless || !is_on_kernel_tmpfs(area);
}

/* refuses memory that is not mapped or not writable, as hardware does, which pins the pages at registration */
static int
check_area(const struct softrdma_area *area, const char *name, void *arg)
{
	struct mapping_check *check = arg;
	if (!area->readable || (check->write && !area->writable))
		return EFAULT;
	if (!check->fragile && is_fragile(area, name))
		check->fragile = 1;
	return 0;
}

/*
 * The kernel does not show the areas: there is no /proc, or no descriptor is left. Memory that may be of any kind counts as
 * fragile. Its ends are looked at; what is missing in between fails the requests that come to it.
 */
static int
check_unseen(struct softrdma_mr *mr, int reason)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	uint8_t *first = mr->mr.addr, *last = first + mr->mr.length - 1;
	/*
	 * message(memory): rpma_mr_reg(3) on the software device, where the kernel does not show the
	 * mappings; the memory is registered all the same -> As it says.
	 */
	SOFTRDMA_LOG_FEW(&limit, WARNING,
		"/proc/self/maps cannot be opened (%s): registered memory counts as memory that may vanish, and small "
		"copies to it take longer; mount /proc, or raise the limit of descriptors (ulimit -n)",
		strerror(reason));
	mr->fragile = 1;
	if (mr->access & IBV_ACCESS_LOCAL_WRITE)
		return softrdma_copy_is_writable(first) && softrdma_copy_is_writable(last) ? 0 : EFAULT;
	return softrdma_copy_check_ends(first, mr->mr.length);
}

static int
check_mapping(struct softrdma_mr *mr)
{
	struct mapping_check check = { .write = mr->access & IBV_ACCESS_LOCAL_WRITE };
	uintptr_t start = (uintptr_t)mr->mr.addr;
	int ret = softrdma_mapping_each(NULL, start, start + mr->mr.length, true, check_area, &check);
	mr->fragile = check.fragile;
	switch (ret) {
	case ENOENT:
	case EACCES:
	case EPERM:
	case EMFILE:
	case ENFILE:
		return check_unseen(mr, ret);
	default:
		return ret == ENOMEM ? EFAULT : ret;
	}
}

/*
 * Programs that are written for hardware flush by reading. If the environment asks for it, a READ of memory that can be
 * made durable does that first. Of other memory it is just a READ.
 */
static int
check_read_flushes(struct softrdma_mr *mr)
{
	if (!(mr->access & IBV_ACCESS_REMOTE_READ) || !softrdma_setting("SOFTRDMA_READ_FLUSHES", 0, 1, 0))
		return 0;
	int ret = 0;
	if (mr->persist == NULL)
		ret = softrdma_persist_new(mr->mr.addr, mr->mr.length, &mr->persist);
	mr->read_flushes = mr->persist != NULL;
	return ret == EOPNOTSUPP ? 0 : ret;
}

void
softrdma_mr_for_each(void (*visit)(struct softrdma_mr *mr))
{
	pthread_rwlock_rdlock(&table_lock);
	for (unsigned i = 0; i < BUCKETS; i++) {
		for (struct softrdma_mr *mr = follow(&table[i]); mr; mr = follow(&mr->next))
			visit(mr);
	}
	pthread_rwlock_unlock(&table_lock);
}

/* gives the region a random key that no other one has. Not 0, which programs use for "none". 0 or an errno value. */
static int
insert_under_new_key(struct softrdma_mr *mr)
{
	int ret;
	pthread_rwlock_wrlock(&table_lock);
	do {
		ret = softrdma_random(&mr->mr.rkey, sizeof(mr->mr.rkey));
	} while (ret == 0 && (mr->mr.rkey == 0 || lookup(mr->mr.rkey)));
	if (ret == 0) {
		mr->mr.lkey = mr->mr.rkey;
		_Atomic(struct softrdma_mr *) *bucket = bucket_of(mr->mr.rkey);
		atomic_store_explicit(&mr->next, follow(bucket), memory_order_relaxed);
		atomic_store_explicit(bucket, mr, memory_order_release);
	}
	pthread_rwlock_unlock(&table_lock);
	return ret;
}

/* remote writes and atomics need local write, as the verbs manual says (ibv_reg_mr(3)) */
static int
check_access(int access)
{
	/* EOPNOTSUPP for rights that programs can do without */
	if (access & IBV_ACCESS_ON_DEMAND)
		return softrdma_missing("ibv_reg_mr", " with IBV_ACCESS_ON_DEMAND",
			"leave it out: nothing is pinned in any case");
	if (access & IBV_ACCESS_MW_BIND)
		return softrdma_missing("ibv_reg_mr", " with IBV_ACCESS_MW_BIND",
			"leave it out: there are no memory windows");
	if (access & ~ACCESS_KNOWN) {
		softrdma_missing("ibv_reg_mr", " with one of these access flags", SOFTRDMA_SEE_MANUAL);
		return EINVAL;
	}
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
		!(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	return 0;
}

struct softrdma_mr *
softrdma_mr_new(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	int ret = check_access(access);
	if (ret)
		goto err_errno;
	if (length > UINT64_MAX - (uintptr_t)addr) {
		ret = EINVAL;
		goto err_errno;
	}

	struct softrdma_mr *mr = calloc(1, sizeof(*mr));
	if (mr == NULL) {
		ret = ENOMEM;
		goto err_errno;
	}
	mr->mr.context = pd->context;
	mr->mr.pd = pd;
	mr->mr.addr = addr;
	mr->mr.length = length;
	mr->access = access;

	if (length > 0) {
		ret = check_mapping(mr);
		if (ret)
			goto err_free;
	}
	if ((access & SOFTRDMA_ACCESS_FLUSH_PERSISTENT) && length > 0) {
		ret = softrdma_persist_new(addr, length, &mr->persist);
		if (ret)
			goto err_free;
	}
	if (length > 0) {
		ret = check_read_flushes(mr);
		if (ret)
			goto err_delete_persist;
	}
	ret = insert_under_new_key(mr);
	if (ret)
		goto err_delete_persist;
	atomic_fetch_add(&softrdma_pd_of(pd)->users, 1);
	return mr;

err_delete_persist:
	softrdma_persist_delete(mr->persist);
err_free:
	free(mr);
err_errno:
	errno = ret;
	return NULL;
}

void
softrdma_mr_remove(struct softrdma_mr *mr)
{
	pthread_rwlock_wrlock(&table_lock);
	_Atomic(struct softrdma_mr *) *at = bucket_of(mr->mr.rkey);
	while (follow(at) != mr) {
		assert(follow(at));
		at = &follow(at)->next;
	}
	atomic_store_explicit(at, follow(&mr->next), memory_order_release);
	pthread_rwlock_unlock(&table_lock);
}

void
softrdma_mr_wait_for_flushes(struct softrdma_mr *mr)
{
	pthread_mutex_lock(&flushes_lock);
	while (mr->flushes > 0)
		pthread_cond_wait(&flushes_cond, &flushes_lock);
	pthread_mutex_unlock(&flushes_lock);
}

void
softrdma_mr_delete(struct softrdma_mr *mr)
{
	assert(mr->flushes == 0);
	atomic_fetch_sub(&softrdma_pd_of(mr->mr.pd)->users, 1);
	softrdma_persist_delete(mr->persist);
	free(mr);
}
