/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_memory.c -- which memory may be registered, and which accesses to it are allowed */

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>

#include <sched.h>
#include <sys/shm.h>

#include "failing.h"
#include "fixture.h"

#define PAGE ((size_t)4096)
#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct ibv_pd *pd, *other_pd;
static uint8_t *mem; /* four pages; the last one is not accessible */

/* replaces the kernel's random numbers in tests that need collisions */
static uint32_t next_random[4];
static unsigned randoms, random_calls;
static int random_error;

static int
scripted_random(void *buf, size_t len)
{
	assert_int_equal(len, 4);
	if (random_error)
		return random_error;
	assert_true(random_calls < randoms);
	memcpy(buf, &next_random[random_calls++], 4);
	return 0;
}

static int
setup(void **state)
{
	(void)state;
	quieten();
	pd = softrdma_ibv_alloc_pd(softrdma_context());
	other_pd = softrdma_ibv_alloc_pd(softrdma_context());
	mem = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return mem == MAP_FAILED || mprotect(mem + 3 * PAGE, PAGE, PROT_NONE);
}

static int
teardown(void **state)
{
	(void)state;
	munmap(mem, 4 * PAGE);
	return softrdma_ibv_dealloc_pd(pd) || softrdma_ibv_dealloc_pd(other_pd);
}

static struct softrdma_mr *
new_mr(void *addr, size_t len, int access)
{
	struct softrdma_mr *mr = softrdma_mr_new(pd, addr, len, access);
	assert_non_null(mr);
	return mr;
}

static void
delete_mr(struct softrdma_mr *mr)
{
	softrdma_mr_remove(mr);
	softrdma_mr_delete(mr);
}

static void
refuses(void *addr, size_t len, int access, int error)
{
	errno = 0;
	assert_null(softrdma_mr_new(pd, addr, len, access));
	assert_int_equal(errno, error);
}

static void
test_what_may_be_registered(void **state)
{
	(void)state;
	refuses(mem, PAGE, 1 << 30, EINVAL);
	refuses(mem, PAGE, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP);
	refuses(mem, PAGE, RW | IBV_ACCESS_MW_BIND, EOPNOTSUPP);
	refuses(mem, PAGE, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	refuses(mem, PAGE, IBV_ACCESS_REMOTE_ATOMIC, EINVAL);
	refuses(mem, SIZE_MAX, RW, EINVAL);
	refuses(mem + 2 * PAGE, PAGE + 1, RW, EFAULT);
	refuses(mem + 3 * PAGE, 1, IBV_ACCESS_REMOTE_READ, EFAULT);
	refuses(mem, PAGE, RW | SOFTRDMA_ACCESS_FLUSH_PERSISTENT, EOPNOTSUPP); /* anonymous */
	assert_int_equal(mprotect(mem, PAGE, PROT_READ), 0);
	refuses(mem, PAGE, RW, EFAULT);
	delete_mr(new_mr(mem, PAGE, IBV_ACCESS_REMOTE_READ));
	munmap(mem, PAGE);
	refuses(mem, 2 * PAGE, IBV_ACCESS_REMOTE_READ, EFAULT);
	assert_int_equal(atomic_load(&softrdma_pd_of(pd)->users), 0);
	delete_mr(new_mr(mem + PAGE, 0, RW));
}

static void
test_a_domain_in_use_stays(void **state)
{
	(void)state;
	struct softrdma_mr *mr = new_mr(mem, PAGE, RW);
	assert_int_equal(softrdma_ibv_dealloc_pd(pd), EBUSY);
	delete_mr(mr);
}

static void
test_lookup(void **state)
{
	(void)state;
	struct softrdma_mr *mr = new_mr(mem + 100, 1000, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	uint64_t base = (uintptr_t)mem + 100;
	uint32_t key = mr->mr.rkey;
	int access = IBV_ACCESS_REMOTE_WRITE;
	assert_int_equal(mr->mr.lkey, key);
	assert_ptr_equal(softrdma_mr_find(pd, key, base, 1000, access), mr);
	assert_ptr_equal(softrdma_mr_find(pd, key, base + 999, 1, access), mr);
	assert_ptr_equal(softrdma_mr_find(pd, key, base + 1000, 0, access), mr);
	assert_ptr_equal(softrdma_mr_find(pd, key, base, 1, 0), mr);
	assert_null(softrdma_mr_find(pd, key, base - 1, 1, access));
	assert_null(softrdma_mr_find(pd, key, base - 1, 0, access));
	assert_null(softrdma_mr_find(pd, key, base, 1001, access));
	assert_null(softrdma_mr_find(pd, key, base + 1, 1000, access));
	assert_null(softrdma_mr_find(pd, key, base + 1000, 1, access));
	assert_null(softrdma_mr_find(pd, key, base + 1001, 0, access));
	/* lengths and addresses that wrap around */
	assert_null(softrdma_mr_find(pd, key, base, UINT64_MAX, access));
	assert_null(softrdma_mr_find(pd, key, base + 1, UINT64_MAX, access));
	assert_null(softrdma_mr_find(pd, key, base + 500, UINT64_MAX - base - 499, access));
	assert_null(softrdma_mr_find(pd, key, 0, UINT64_MAX, access));
	assert_null(softrdma_mr_find(pd, key, UINT64_MAX, 1, access));
	/* all bits of the key, the domain, and the rights */
	for (int bit = 0; bit < 32; bit++)
		assert_null(softrdma_mr_find(pd, key ^ 1u << bit, base, 1, access));
	assert_null(softrdma_mr_find(other_pd, key, base, 1, access));
	assert_null(softrdma_mr_find(pd, key, base, 1, IBV_ACCESS_REMOTE_READ));
	assert_null(softrdma_mr_find(pd, key, base, 1, access | IBV_ACCESS_REMOTE_READ));
	softrdma_mr_remove(mr);
	assert_null(softrdma_mr_find(pd, key, base, 1, access));
	softrdma_mr_delete(mr);
}

static void
test_keys(void **state)
{
	(void)state;
	static const struct softrdma_env scripted = { .random = scripted_random };
	/* the last use of real random numbers in this process: they cannot be restored */
	struct softrdma_mr *many[64];
	for (int i = 0; i < 64; i++) {
		many[i] = new_mr(mem, PAGE, RW);
		for (int j = 0; j < i; j++)
			assert_true(many[i]->mr.rkey - many[j]->mr.rkey > 64 &&
				many[j]->mr.rkey - many[i]->mr.rkey > 64);
	}
	for (int i = 0; i < 64; i++)
		delete_mr(many[i]);

	softrdma_set_env(&scripted);
	const uint32_t script[] = { 5, 0, 5, 5 + 4096 };
	memcpy(next_random, script, sizeof(script));
	randoms = 4;
	struct softrdma_mr *first = new_mr(mem, PAGE, RW);
	struct softrdma_mr *second = new_mr(mem, PAGE, RW); /* neither 0 nor in use; the same bucket */
	assert_int_equal(random_calls, 4);
	assert_int_equal(first->mr.rkey, 5);
	assert_int_equal(second->mr.rkey, 5 + 4096);
	assert_ptr_equal(softrdma_mr_find(pd, 5, (uintptr_t)mem, 1, 0), first);
	assert_ptr_equal(softrdma_mr_find(pd, 5 + 4096, (uintptr_t)mem, 1, 0), second);
	delete_mr(first);
	assert_ptr_equal(softrdma_mr_find(pd, 5 + 4096, (uintptr_t)mem, 1, 0), second);
	delete_mr(second);
	random_error = EIO;
	refuses(mem, PAGE, RW, EIO);
	assert_int_equal(atomic_load(&softrdma_pd_of(pd)->users), 0);
}

static void
test_places(void **state)
{
	(void)state;
	struct softrdma_mr *mr = new_mr(mem, 2 * PAGE, RW);
	uint32_t key = mr->mr.lkey;
	uint64_t base = (uintptr_t)mem;
	const struct ibv_sge sge[4] = { { base, 10, key }, { 0, 0, key ^ 1 }, { base + 100, 20, key },
		{ base + 2 * PAGE - 4, 8, key } };
	static const struct {
		uint64_t offset, len;
		int result, count;
		size_t first, first_len, last_len;
	} table[] = {
		{ 0, 0, 0, 0, 0, 0, 0 },
		{ 0, 10, 0, 1, 0, 10, 10 },
		{ 0, 11, 0, 2, 0, 10, 1 },
		{ 9, 21, 0, 2, 9, 1, 20 },
		{ 10, 1, 0, 1, 100, 1, 1 },
		{ 15, 15, 0, 1, 105, 15, 15 },
		{ 29, 2, 0, 2, 119, 1, 1 },
		{ 30, 4, 0, 1, 2 * PAGE - 4, 4, 4 }, /* the rest of the last SGE is past the region's end */
		{ 29, 6, EACCES, 0, 0, 0, 0 },
		{ 30, 5, EACCES, 0, 0, 0, 0 },
		{ 34, 4, EACCES, 0, 0, 0, 0 },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		struct softrdma_place place;
		int ret = softrdma_place_sges(pd, sge, 4, table[i].offset, table[i].len,
			IBV_ACCESS_LOCAL_WRITE, &place);
		assert_int_equal(ret, table[i].result);
		if (ret)
			continue;
		assert_int_equal(place.count, table[i].count);
		if (place.count == 0)
			continue;
		assert_ptr_equal(place.iov[0].iov_base, mem + table[i].first);
		assert_int_equal(place.iov[0].iov_len, table[i].first_len);
		assert_int_equal(place.iov[place.count - 1].iov_len, table[i].last_len);
		assert_ptr_equal(place.mr[place.count - 1], mr);
	}
	struct softrdma_place place;
	assert_int_equal(softrdma_place_sges(other_pd, sge, 1, 0, 1, 0, &place), EACCES);
	assert_int_equal(softrdma_place_sges(pd, sge, 1, 0, 1, IBV_ACCESS_REMOTE_ATOMIC, &place), EACCES);
	delete_mr(mr);
}

static sigjmp_buf before_fault;

static void
on_fault(int number)
{
	(void)number;
	siglongjmp(before_fault, 1);
}

#if defined(__has_feature)
#define THREAD_SANITIZER __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#else
#define THREAD_SANITIZER 0
#endif

/*
 * Programs wait for the last byte. A page that cannot be written interrupts the store there; all bytes before
 * it must be stored by then. The same holds for an aligned last word.
 */
static void
test_last_byte_last(void **state)
{
	(void)state;
	uint8_t *map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	struct softrdma_mr *mr = new_mr(map, 2 * PAGE, RW);
	assert_false(mr->fragile);
	uint8_t from[1024];
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 7 + 1);
	/* volatile, because they change between sigsetjmp() and the return to it */
	for (volatile size_t len = 0; len <= sizeof(from); len++) {
		memset(map, 0, 2 * PAGE);
		assert_int_equal(softrdma_mr_store(mr, map + 3, from, len, NULL), 0);
		assert_memory_equal(map + 3, from, len);
		assert_int_equal(map[2] | map[3 + len], 0);
	}
#if THREAD_SANITIZER
	delete_mr(mr);
	munmap(map, 2 * PAGE);
	print_message("SKIPPED: the thread sanitizer's memcpy() cannot be left by siglongjmp()\n");
	skip();
#endif
	struct sigaction action = { .sa_handler = on_fault }, usual;
	assert_int_equal(sigaction(SIGSEGV, &action, &usual), 0);
	for (volatile size_t len = 1; len <= sizeof(from); len++) {
		for (volatile size_t last = 1; last <= 8; last += 7) {
			if (last > len)
				continue;
			uint8_t *volatile to = map + PAGE - (len - last);
			memset(map, 0, PAGE);
			volatile bool through = false;
			assert_int_equal(mprotect(map + PAGE, PAGE, PROT_READ), 0);
			if (sigsetjmp(before_fault, 1) == 0) {
				softrdma_copy_upwards(to, from, len);
				through = true;
			}
			assert_int_equal(mprotect(map + PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
			assert_false(through);
			assert_memory_equal(to, from, len - last);
		}
	}
	sigaction(SIGSEGV, &usual, NULL);
	delete_mr(mr);
	munmap(map, 2 * PAGE);
}

/* a store into a truncated file is an error, not a signal */
static void
test_truncated_file(void **state)
{
	(void)state;
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, (off_t)(2 * PAGE)), 0);
	uint8_t *map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	struct softrdma_mr *mr = new_mr(map, 2 * PAGE, RW);
	assert_true(mr->fragile);
	assert_int_equal(softrdma_mr_store(mr, map + PAGE - 4, "12345678", 8, NULL), 0);
	assert_memory_equal(map + PAGE - 4, "12345678", 8);
	assert_int_equal(softrdma_copy_check_ends(map + PAGE - 4, 8), 0);
	assert_int_equal(softrdma_mr_populate(mr, map + PAGE, 8), 0);
	char bytes[8];
	assert_int_equal(softrdma_mr_load(mr, bytes, map + PAGE - 4, 8), 0);
	assert_memory_equal(bytes, "12345678", 8);
	assert_int_equal(ftruncate(fd, (off_t)PAGE), 0);
	assert_int_equal(softrdma_mr_load(mr, bytes, map + PAGE, 1), EFAULT);
	assert_int_equal(softrdma_mr_load(mr, bytes, map + PAGE - 4, 8), EFAULT);
	assert_int_equal(softrdma_mr_load(mr, bytes, map + PAGE - 4, 4), 0);
	assert_int_equal(softrdma_mr_store(mr, map + PAGE, "1", 1, NULL), EFAULT);
	assert_int_equal(softrdma_mr_store(mr, map + PAGE - 4, "12345678", 8, NULL), EFAULT);
	assert_int_equal(softrdma_mr_store(mr, map, "1", 1, NULL), 0);
	assert_int_equal(softrdma_copy_check_ends(map + PAGE - 4, 8), EFAULT);
	assert_int_equal(softrdma_copy_check_ends(map, PAGE), 0);
	assert_int_equal(softrdma_mr_populate(mr, map + PAGE, 8), EFAULT);
	assert_int_equal(softrdma_mr_populate(mr, map + PAGE - 8, 8), 0);
	delete_mr(mr);
	munmap(map, 2 * PAGE);
	close(fd);

	mr = new_mr(mem, PAGE, RW);
	assert_false(mr->fragile);
	assert_int_equal(softrdma_mr_store(mr, mem, "abc", 3, NULL), 0);
	assert_memory_equal(mem, "abc", 3);
	assert_int_equal(softrdma_mr_load(mr, bytes, mem, 3), 0);
	assert_memory_equal(bytes, "abc", 3);
	assert_int_equal(softrdma_copy_check_ends(mem, PAGE), 0);
	fail_call(FAIL_MINE, "madvise", 0, 1, EINVAL);
	assert_int_equal(softrdma_mr_populate(mr, mem, 8), 0);
	assert_int_equal(fail_nothing(), 0);
	delete_mr(mr);
}

/* so is an access to memory that the program has unmapped or protected while it is registered */
static void
test_memory_lost(void **state)
{
	(void)state;
	enum { UNMAPPED, PROTECTED, READ_ONLY, WAYS };
	for (int way = 0; way < WAYS; way++) {
		uint8_t *map =
			mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(map, MAP_FAILED);
		struct softrdma_mr *mr = new_mr(map, 2 * PAGE, RW);
		assert_false(mr->fragile);
		if (way == UNMAPPED)
			assert_int_equal(munmap(map + PAGE, PAGE), 0);
		else
			assert_int_equal(mprotect(map + PAGE, PAGE, way == PROTECTED ? PROT_NONE : PROT_READ),
				0);
		const int load = way == READ_ONLY ? 0 : EFAULT;
		char bytes[8] = "1234567";
		assert_int_equal(softrdma_mr_store(mr, map + PAGE - 8, bytes, 8, NULL), 0);
		assert_int_equal(softrdma_mr_store(mr, map + PAGE, bytes, 1, NULL), EFAULT);
		memset(map, 0, PAGE);
		assert_int_equal(softrdma_mr_store(mr, map + PAGE - 4, bytes, 8, NULL), EFAULT);
		assert_int_equal(map[PAGE - 4], 0);
		assert_int_equal(softrdma_mr_load(mr, bytes, map + PAGE - 8, 8), 0);
		assert_int_equal(softrdma_mr_load(mr, bytes, map + PAGE - 4, 8), load);
		assert_int_equal(softrdma_mr_populate(mr, map + PAGE - 8, 8), 0);
		assert_int_equal(softrdma_mr_populate(mr, map + PAGE, 8), EFAULT);
		delete_mr(mr);
		munmap(map, way == UNMAPPED ? PAGE : 2 * PAGE);
	}
}

/* Where the kernel does not show the mappings, memory can be registered: it counts as memory that may vanish. */
static void
test_registration_without_maps(void **state)
{
	(void)state;
	static const int unseen[] = { ENOENT, EACCES, EPERM, EMFILE, ENFILE };
	static const struct {
		int protection, access, error;
		bool is_mapped;
	} cases[] = {
		{ PROT_READ | PROT_WRITE, RW, 0, true },
		{ PROT_READ, IBV_ACCESS_REMOTE_READ, 0, true },
		{ PROT_READ, RW, EFAULT, true },
		{ PROT_NONE, IBV_ACCESS_REMOTE_READ, EFAULT, true },
		{ PROT_READ, IBV_ACCESS_REMOTE_READ, EFAULT, false },
		{ PROT_READ, RW, EFAULT, false },
	};
	for (size_t i = 0; i < sizeof(unseen) / sizeof(unseen[0]); i++) {
		for (size_t k = 0; k < 2 * sizeof(cases) / sizeof(cases[0]); k++) {
			uint8_t *map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			uint8_t *changed = map + k % 2 * PAGE; /* the first or the last page */
			if (cases[k / 2].is_mapped)
				assert_int_equal(mprotect(changed, PAGE, cases[k / 2].protection), 0);
			else
				assert_int_equal(munmap(changed, PAGE), 0);
			fail_call(FAIL_MINE, "fopen", 0, 1, unseen[i]);
			struct softrdma_mr *mr = softrdma_mr_new(pd, map, 2 * PAGE, cases[k / 2].access);
			const int error = errno;
			assert_int_equal(fail_nothing(), 1);
			assert_int_equal(mr == NULL, cases[k / 2].error != 0);
			if (mr) {
				assert_true(mr->fragile);
				assert_int_equal(map[0] | map[2 * PAGE - 1], 0);
				delete_mr(mr);
			} else {
				assert_int_equal(error, cases[k / 2].error);
			}
			munmap(map, 2 * PAGE);
		}
	}
}

/* SOFTRDMA_READ_FLUSHES: for memory that can be made durable, if it is registered for reads */
static void
test_read_flushes(void **state)
{
	(void)state;
	const int readable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, (off_t)PAGE), 0);
	uint8_t *map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	const struct {
		const char *setting;
		void *addr;
		size_t len;
		int access;
		bool flushes, persist;
	} cases[] = {
		{ "0", map, PAGE, readable, false, false }, { "1", map, PAGE, readable, true, true },
		{ "1", map, PAGE, readable | SOFTRDMA_ACCESS_FLUSH_PERSISTENT, true, true },
		{ "1", map, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, false, false },
		{ "1", map, 0, readable, false, false },
		{ "1", mem, PAGE, readable, false, false }, /* not mapped from a file */
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv("SOFTRDMA_READ_FLUSHES", cases[i].setting, 1);
		struct softrdma_mr *mr = new_mr(cases[i].addr, cases[i].len, cases[i].access);
		assert_int_equal(mr->read_flushes, cases[i].flushes);
		assert_int_equal(mr->persist != NULL, cases[i].persist);
		delete_mr(mr);
	}
	/* unknown memory does not count as durable; a failed allocation is an error */
	fail_call(FAIL_MINE, "malloc", 0, 1, ENOMEM);
	assert_null(softrdma_mr_new(pd, map, PAGE, readable));
	assert_int_equal(errno, ENOMEM);
	fail_nothing();
	unsetenv("SOFTRDMA_READ_FLUSHES");
	munmap(map, PAGE);
	close(fd);
}

/* a sandbox forbids the calls that copy directly: the kernel still copies, and a SIGBUS is still an error */
static void
test_sandbox(void **state)
{
	(void)state;
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, (off_t)(2 * PAGE)), 0);
	uint8_t *map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct softrdma_mr *mr = new_mr(map, 2 * PAGE, RW);
	fail_call(FAIL_MINE, "process_vm_writev", 0, 1, EPERM);
	assert_int_equal(softrdma_mr_store(mr, map, "abc", 3, NULL), 0);
	assert_memory_equal(map, "abc", 3);
	char bytes[3];
	fail_call(FAIL_MINE, "process_vm_readv", 0, 1, EPERM);
	assert_int_equal(softrdma_mr_load(mr, bytes, map, 3), 0);
	assert_memory_equal(bytes, "abc", 3);
	assert_int_equal(ftruncate(fd, (off_t)PAGE), 0);
	fail_call(FAIL_MINE, "process_vm_writev", 0, 1, EPERM);
	assert_int_equal(softrdma_mr_store(mr, map + PAGE, "abc", 3, NULL), EFAULT);
	fail_call(FAIL_MINE, "process_vm_readv", 0, 1, EPERM);
	assert_int_equal(softrdma_mr_load(mr, bytes, map + PAGE, 3), EFAULT);
	fail_nothing();
	/* the kernel stores as much as it can; an incomplete store is an error */
	assert_int_equal(softrdma_mr_store(mr, map + PAGE - 1, "abc", 3, NULL), EFAULT);
	delete_mr(mr);
	munmap(map, 2 * PAGE);
	close(fd);
}

/* if the kernel cannot be asked whether a page exists, no instruction may access it */
static void
test_kernel_without_populate(void **state)
{
	(void)state;
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, (off_t)PAGE), 0);
	uint8_t *map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct softrdma_mr *mr = new_mr(map, PAGE, RW);
	static const int errors[] = { EINVAL, ENOSYS, EPERM };
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		fail_call(FAIL_MINE, "madvise", 0, 1, errors[i]);
		assert_int_equal(softrdma_mr_populate(mr, map, 8), EOPNOTSUPP);
		assert_int_equal(fail_nothing(), 1);
	}
	delete_mr(mr);
	munmap(map, PAGE);
	close(fd);
}

/* shared memory that cannot be truncated needs no such care, though the kernel reports a file for it */
static void
test_shared_without_a_file(void **state)
{
	(void)state;
	void *map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct softrdma_mr *mr = new_mr(map, PAGE, RW);
	assert_false(mr->fragile);
	delete_mr(mr);
	munmap(map, PAGE);
	int id = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600);
	if (id < 0)
		skip();
	map = shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
	assert_ptr_not_equal(map, (void *)-1);
	mr = new_mr(map, PAGE, RW);
	assert_false(mr->fragile);
	delete_mr(mr);
	/* unknown memory counts as fragile */
	fail_call(FAIL_MINE, "memfd_create", 0, 1, EPERM);
	mr = new_mr(map, PAGE, RW);
	assert_true(mr->fragile);
	delete_mr(mr);
	fail_call(FAIL_MINE, "fstat", 0, 1, EPERM);
	mr = new_mr(map, PAGE, RW);
	assert_true(mr->fragile);
	delete_mr(mr);
	fail_nothing();
	shmdt(map);
}

/* The kernel reports a segment's number as its inode. The first segment of a name space has the number 0. */
static void
test_segment_without_a_number(void **state)
{
	(void)state;
	if (unshare(CLONE_NEWIPC) != 0)
		skip();
	int id = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600);
	assert_int_equal(id, 0);
	void *map = shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
	assert_ptr_not_equal(map, (void *)-1);
	struct softrdma_mr *mr = new_mr(map, PAGE, RW);
	assert_false(mr->fragile);
	delete_mr(mr);
	shmdt(map);
}

/* huge pages may be missing when a hole is accessed, whatever the name of the memory */
static void
test_huge_pages(void **state)
{
	(void)state;
	const size_t size = (size_t)2 << 20;
	const int prot = PROT_READ | PROT_WRITE;
	int flags = MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE;
	unsigned kinds = 0;
	void *map = mmap(NULL, size, prot, MAP_PRIVATE | flags, -1, 0);
	if (map != MAP_FAILED) {
		struct softrdma_mr *mr = new_mr(map, size, RW);
		assert_true(mr->fragile);
		delete_mr(mr);
		munmap(map, size);
		kinds++;
	}
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_HUGETLB | MFD_ALLOW_SEALING);
	if (fd >= 0 && ftruncate(fd, (off_t)size) == 0) {
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
		map = mmap(NULL, size, prot, MAP_SHARED | MAP_NORESERVE, fd, 0);
		assert_ptr_not_equal(map, MAP_FAILED);
		struct softrdma_mr *mr = new_mr(map, size, RW);
		assert_true(mr->fragile);
		delete_mr(mr);
		munmap(map, size);
		kinds++;
	}
	if (fd >= 0)
		close(fd);
	int id = shmget(IPC_PRIVATE, size, IPC_CREAT | SHM_HUGETLB | SHM_NORESERVE | 0600);
	if (id >= 0) {
		map = shmat(id, NULL, 0);
		shmctl(id, IPC_RMID, NULL);
		assert_ptr_not_equal(map, (void *)-1);
		struct softrdma_mr *mr = new_mr(map, size, RW);
		assert_true(mr->fragile);
		delete_mr(mr);
		shmdt(map);
		kinds++;
	}
	if (kinds < 3) {
		print_message("SKIPPED: only %u of 3 kinds of huge pages can be had here\n", kinds);
		skip();
	}
}

static void
test_registering_fails(void **state)
{
	(void)state;
	/* an empty region may have the right to be flushed, without any memory */
	delete_mr(new_mr(mem, 0, RW | SOFTRDMA_ACCESS_FLUSH_PERSISTENT));
	refuses(mem, PAGE, RW | SOFTRDMA_ACCESS_FLUSH_PERSISTENT, EOPNOTSUPP);
	static const struct {
		const char *call;
		int error, told;
	} ways[] = { { "calloc", ENOMEM, ENOMEM }, { "fopen", ENOMEM, EFAULT }, { "fopen", EIO, EIO } };
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		fail_call(FAIL_MINE, ways[i].call, 0, 1, ways[i].error);
		refuses(mem, PAGE, RW, ways[i].told);
		assert_int_equal(fail_nothing(), 1);
	}
}

static atomic_bool released;

static void *
release_later(void *arg)
{
	usleep(50000);
	atomic_store(&released, true);
	softrdma_mr_put(arg);
	softrdma_mr_put(arg);
	return NULL;
}

static void
test_deregistration_waits_for_flushes(void **state)
{
	(void)state;
	struct softrdma_mr *mr = new_mr(mem, PAGE, RW);
	softrdma_mr_get(mr);
	softrdma_mr_get(mr);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, release_later, mr), 0);
	softrdma_mr_remove(mr);
	softrdma_mr_wait_for_flushes(mr);
	assert_true(atomic_load(&released));
	pthread_join(thread, NULL);
	softrdma_mr_delete(mr);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_may_be_registered),
		TEST(test_a_domain_in_use_stays),
		TEST(test_lookup),
		TEST(test_places),
		TEST(test_last_byte_last),
		TEST(test_truncated_file),
		TEST(test_memory_lost),
		TEST(test_registration_without_maps),
		TEST(test_read_flushes),
		TEST(test_sandbox),
		TEST(test_kernel_without_populate),
		TEST(test_shared_without_a_file),
		TEST(test_segment_without_a_number),
		TEST(test_huge_pages),
		TEST(test_registering_fails),
		TEST(test_deregistration_waits_for_flushes),
		TEST(test_keys),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
