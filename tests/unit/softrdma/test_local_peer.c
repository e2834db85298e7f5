/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_local_peer.c -- another process of the same host (local peer): its registry and its memory */

#include "connected.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "softrdma/samehost/local_peer.h"
#include "softrdma/samehost/registry.h"

#define PIECE ((size_t)4096)
/* more than one block of a mapping, and not a whole number of blocks */
#define FILE_SIZE (((size_t)5 << 20) + PIECE)

/* the kinds of memory of the other process */
enum memory { SEALED, RESIZABLE, NAMED, DELETED, ON_DISK, PRIVATE, ANONYMOUS, MEMORIES };

/* written by the other process, read by the test */
struct told {
	struct softrdma_shm_offer offer;
	struct softrdma_registry_region regions[MEMORIES];
	atomic_bool ready;
	atomic_int order; /* what the other process must do next */
};

enum order { ORDER_DIE = 1, ORDER_EXEC, ORDER_TRUNCATE, ORDER_UNMAP };

struct other {
	pid_t pid;
	struct told *told;
};

/* for this run only, because several may run at a time */
static char named[64], deleted[64];
static const char on_disk[] = "test-local-peer-file";

static int
open_memory(enum memory memory)
{
	const int flags = O_RDWR | O_CREAT | O_CLOEXEC;
	switch (memory) {
	case SEALED:
	case RESIZABLE:
		return memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	case NAMED:
		return open(named, flags, 0600);
	case DELETED:
		return open(deleted, flags, 0600);
	default:
		return open(on_disk, flags, 0600);
	}
}

/* the descriptors stay open, as that of a deleted file must */
static uint8_t *
new_memory(enum memory memory, int *fd)
{
	const int prot = PROT_READ | PROT_WRITE;
	if (memory == ANONYMOUS)
		return mmap(NULL, FILE_SIZE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*fd = open_memory(memory);
	if (*fd < 0 || ftruncate(*fd, FILE_SIZE) != 0)
		return MAP_FAILED;
	if (memory == SEALED && fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		return MAP_FAILED;
	if (memory == DELETED)
		unlink(deleted);
	return mmap(NULL, FILE_SIZE, prot, memory == PRIVATE ? MAP_PRIVATE : MAP_SHARED, *fd, 0);
}

static void
obey(int order, const struct told *told, const int *fds)
{
	switch (order) {
	case ORDER_DIE:
		softrdma_registry_die();
		break;
	case ORDER_EXEC:
		execl("/bin/sleep", "sleep", "100", (char *)NULL);
		_exit(2);
	case ORDER_TRUNCATE:
		if (ftruncate(fds[RESIZABLE], 0) != 0)
			_exit(3);
		break;
	default:
		munmap((void *)(uintptr_t)(told->regions[ANONYMOUS].addr - 8), FILE_SIZE - PIECE);
		break;
	}
}

/* different from the test's numbers, and different in each process */
static int
random_of_the_other(void *buf, size_t len)
{
	pid_t pid = getpid();
	memset(buf, 0x55, len);
	memcpy(buf, &pid, sizeof(pid));
	return 0;
}

static _Noreturn void
be_the_other(struct told *told)
{
	static const struct softrdma_env env = { .random = random_of_the_other };
	int fds[MEMORIES] = { 0 };
	softrdma_set_env(&env);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* otherwise a failing test would leave it running */
	softrdma_registry_open();
	struct softrdma_registry_slot *slot = softrdma_registry_take_slot(the_pd);
	softrdma_registry_live();
	told->offer = softrdma_registry_offer(slot, 9);
	for (int i = 0; i < MEMORIES; i++) {
		uint8_t *mem = new_memory((enum memory)i, &fds[i]);
		if (mem == MAP_FAILED)
			_exit(1);
		/* neither address nor length is a multiple of a page */
		told->regions[i] = (struct softrdma_registry_region){
			.serial = (uint64_t)i + 1,
			.addr = (uintptr_t)mem + PIECE + 8,
			.length = FILE_SIZE - PIECE - 8,
		};
	}
	atomic_store(&told->ready, true);
	for (;;) {
		poll(NULL, 0, 1);
		int order = atomic_load(&told->order);
		if (order) {
			obey(order, told, fds);
			atomic_store(&told->order, 0);
		}
	}
}

static void
other_init(struct other *other)
{
	void *told =
		mmap(NULL, sizeof(*other->told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(told, MAP_FAILED);
	other->told = told;
	setenv("SOFTRDMA_SAME_HOST", "1", 1);
	other->pid = fork();
	assert_true(other->pid >= 0);
	if (other->pid == 0)
		be_the_other(told);
	wait_until(atomic_load(&other->told->ready));
}

static void
other_kill(struct other *other)
{
	kill(other->pid, SIGKILL);
	assert_int_equal(waitpid(other->pid, NULL, 0), other->pid);
	other->pid = 0;
}

static void
other_fini(struct other *other)
{
	if (other->pid)
		other_kill(other);
	munmap(other->told, sizeof(*other->told));
	unlink(named);
	unlink(on_disk);
}

static void
give_order(struct other *other, enum order order)
{
	atomic_store(&other->told->order, order);
}

static void
give_and_wait(struct other *other, enum order order)
{
	give_order(other, order);
	wait_until(atomic_load(&other->told->order) == 0);
}

/* --- registries --- */

static void
test_meets(void **state)
{
	(void)state;
	struct other other;
	other_init(&other);
	struct softrdma_local_peer *one = softrdma_local_peer_meet(&other.told->offer);
	assert_non_null(one);
	struct softrdma_local_peer *two = softrdma_local_peer_meet(&other.told->offer);
	assert_ptr_equal(one, two);
	assert_memory_equal(softrdma_local_peer_registry(one)->id, other.told->offer.id,
		SOFTRDMA_REGISTRY_ID_SIZE);
	assert_true(softrdma_local_peer_alive(one));
	softrdma_local_peer_leave(one);
	assert_true(softrdma_local_peer_alive(two));

	struct other third;
	other_init(&third);
	struct softrdma_local_peer *three = softrdma_local_peer_meet(&third.told->offer);
	assert_non_null(three);
	assert_ptr_not_equal(three, two);
	softrdma_local_peer_leave(two); /* not the newest one */
	assert_true(softrdma_local_peer_alive(three));
	softrdma_local_peer_leave(three);
	other_fini(&third);
	other_fini(&other);
}

/* its end is noticed, however it comes, and is permanent */
static void
test_dies(void **state)
{
	(void)state;
	for (int how = 0; how < 3; how++) {
		struct other other;
		other_init(&other);
		struct softrdma_local_peer *local_peer = softrdma_local_peer_meet(&other.told->offer);
		assert_true(softrdma_local_peer_alive(local_peer));
		if (how == 0)
			other_kill(&other);
		else
			give_order(&other, how == 1 ? ORDER_EXEC : ORDER_DIE);
		wait_until(!softrdma_local_peer_alive(local_peer));
		assert_false(softrdma_local_peer_alive(local_peer));
		softrdma_local_peer_leave(local_peer);
		other_fini(&other);
	}
}

/* the lock that shows that a process is alive was never taken */
static void
test_was_never_alive(void **state)
{
	(void)state;
	setenv("SOFTRDMA_SAME_HOST", "1", 1);
	softrdma_registry_open();
	struct softrdma_registry_slot *slot = softrdma_registry_take_slot(the_pd);
	const struct softrdma_shm_offer offer = softrdma_registry_offer(slot, 1);
	struct softrdma_local_peer *local_peer = softrdma_local_peer_meet(&offer);
	assert_non_null(local_peer);
	assert_false(softrdma_local_peer_alive(local_peer));
	softrdma_local_peer_leave(local_peer);
	softrdma_registry_close();
}

static void
expect_refused(struct softrdma_shm_offer offer)
{
	assert_null(softrdma_local_peer_meet(&offer));
}

static void
test_refuses(void **state)
{
	(void)state;
	struct other other;
	other_init(&other);
	struct softrdma_shm_offer offer = other.told->offer;
	offer.id[3]++;
	expect_refused(offer);

	/*
	 * no such process, no such descriptor, no regular file, a file of another length, and one that can be
	 * resized
	 */
	offer = other.told->offer;
	offer.pid = INT32_MAX;
	expect_refused(offer);
	offer = other.told->offer;
	offer.fd = 900;
	expect_refused(offer);
	offer.fd = 0;
	expect_refused(offer);
	offer.pid = (uint32_t)getpid();
	int fd = memfd_create("not a registry", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	offer.fd = (uint32_t)fd;
	expect_refused(offer);
	assert_int_equal(ftruncate(fd, sizeof(struct softrdma_registry)), 0);
	expect_refused(offer);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	expect_refused(offer); /* the file is not sealed against writes of other processes */
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL), 0);
	expect_refused(offer); /* the file is sealed, but holds no registry */
	close(fd);
	fd = open(named, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, sizeof(struct softrdma_registry)), 0);
	offer.fd = (uint32_t)fd;
	expect_refused(offer);
	close(fd);

	static const char *const calls[] = { "open", "fcntl", "fstat", "mmap", "calloc" };
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		fail_call(FAIL_MINE, calls[i], 0, 1, EACCES);
		expect_refused(other.told->offer);
		assert_int_equal(fail_nothing(), 1);
	}
	other_fini(&other);
}

/* --- mapped regions --- */

struct view {
	struct other other;
	struct softrdma_local_peer *local_peer;
	struct softrdma_peer_map map;
};

static void
view_init(struct view *v)
{
	memset(v, 0, sizeof(*v));
	other_init(&v->other);
	v->local_peer = softrdma_local_peer_meet(&v->other.told->offer);
	assert_non_null(v->local_peer);
}

static void
view_fini(struct view *v)
{
	softrdma_local_peer_leave(v->local_peer);
	other_fini(&v->other);
}

static bool
opens(struct view *v, enum memory memory, bool trust_files)
{
	const struct softrdma_registry_region *region = &v->other.told->regions[memory];
	softrdma_peer_map_open(&v->map, v->local_peer, region, trust_files);
	assert_int_equal(v->map.serial, region->serial);
	return v->map.base != NULL;
}

/* bytes written through the mapping are what the other process has in its memory */
static void
expect_same_memory(struct view *v, enum memory memory)
{
	const struct softrdma_registry_region *region = &v->other.told->regions[memory];
	const size_t offsets[] = { 0, region->length - PIECE, ((size_t)2 << 20) - PIECE - 100 };
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		struct iovec here = { the_mem, PIECE };
		assert_true(softrdma_peer_map_holds(&v->map, offsets[i], PIECE));
		memset(v->map.base + offsets[i], 'a' + (int)memory, PIECE);
		assert_true(softrdma_local_peer_copy(v->local_peer, &here, 1, region->addr + offsets[i],
			PIECE, true));
		for (size_t at = 0; at < PIECE; at++)
			assert_int_equal(the_mem[at], 'a' + memory);
	}
}

static void
test_peer_maps(void **state)
{
	(void)state;
	static const struct {
		bool sealed_only, trusted;
	} wanted[MEMORIES] = {
		[SEALED] = { true, true },
		[RESIZABLE] = { false, true },
		[NAMED] = { false, true },
		[DELETED] = { false, true },
	};
	struct view v;
	view_init(&v);
	for (int i = 0; i < MEMORIES; i++) {
		assert_int_equal(opens(&v, (enum memory)i, false), wanted[i].sealed_only);
		if (v.map.base)
			expect_same_memory(&v, (enum memory)i);
		softrdma_peer_map_close(&v.map);
		assert_int_equal(opens(&v, (enum memory)i, true), wanted[i].trusted);
		if (v.map.base)
			expect_same_memory(&v, (enum memory)i);
		softrdma_peer_map_close(&v.map);
		assert_null(v.map.base);
	}
	view_fini(&v);
}

/* a name that means another file by now is not mapped; the file itself can still be */
static void
test_name_of_another(void **state)
{
	(void)state;
	struct view v;
	view_init(&v);
	unlink(named);
	int fd = open(named, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, FILE_SIZE), 0);
	assert_true(opens(&v, NAMED, true));
	expect_same_memory(&v, NAMED);
	softrdma_peer_map_close(&v.map);
	char byte;
	assert_int_equal(pread(fd, &byte, 1, PIECE + 8), 1);
	assert_int_equal(byte, 0);
	close(fd);
	view_fini(&v);
}

static void
test_no_peer_map(void **state)
{
	(void)state;
	struct view v;
	view_init(&v);
	static const struct {
		const char *call;
		unsigned skip;
		enum memory memory;
	} fails[] = {
		{ "fopen", 0, SEALED },
		{ "opendir", 0, SEALED },
		{ "open", 0, SEALED },
		{ "fstat", 0, SEALED },
		{ "calloc", 0, SEALED },
		{ "fcntl", 0, SEALED },
		{ "mmap", 0, SEALED },
		{ "fstatfs", 0, NAMED },
		{ "fstatfs", 0, SEALED },
	};
	for (size_t i = 0; i < sizeof(fails) / sizeof(fails[0]); i++) {
		int fds = count_fds();
		fail_call(FAIL_MINE, fails[i].call, fails[i].skip, FAIL_FOR_EVER, ENOMEM);
		assert_false(opens(&v, fails[i].memory, fails[i].memory == NAMED));
		assert_true(fail_nothing() > 0);
		assert_int_equal(count_fds(), fds);
		softrdma_peer_map_close(&v.map);
	}
	/* a region that is not mapped, or only in part, or cannot be */
	static const uint64_t lengths[] = { (uint64_t)1 << 40, SIZE_MAX, UINT64_MAX / 2 };
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		v.other.told->regions[SEALED].length = lengths[i];
		assert_false(opens(&v, SEALED, true));
		softrdma_peer_map_close(&v.map);
	}
	v.other.told->regions[SEALED].addr = UINT64_MAX - 100;
	v.other.told->regions[SEALED].length = 101;
	assert_false(opens(&v, SEALED, true));
	softrdma_peer_map_close(&v.map);
	other_kill(&v.other);
	assert_false(opens(&v, NAMED, true));
	view_fini(&v);
}

/* missing blocks of a file are reported, without a SIGBUS */
static void
test_blocks_are_missing(void **state)
{
	(void)state;
	struct view v;
	view_init(&v);
	assert_true(opens(&v, RESIZABLE, true));
	assert_true(softrdma_peer_map_holds(&v.map, 0, 1));
	/* blocks outside the region are missing too */
	const size_t length = v.other.told->regions[RESIZABLE].length;
	assert_false(softrdma_peer_map_holds(&v.map, length, 1));
	assert_false(softrdma_peer_map_holds(&v.map, length + 1, 1));
	assert_false(softrdma_peer_map_holds(&v.map, length - 1, 2));
	assert_false(softrdma_peer_map_holds(&v.map, 1, SIZE_MAX));
	give_and_wait(&v.other, ORDER_TRUNCATE);
	assert_false(softrdma_peer_map_holds(&v.map, (size_t)4 << 20, 1));
	assert_false(softrdma_peer_map_holds(&v.map, ((size_t)2 << 20) - 9, 2));
	softrdma_peer_map_close(&v.map);
	view_fini(&v);
}

/* --- other memory --- */

static void
test_copies(void **state)
{
	(void)state;
	struct view v;
	view_init(&v);
	uint64_t remote = v.other.told->regions[ANONYMOUS].addr;
	struct iovec pieces[] = { { the_mem, 100 }, { the_mem + 1000, 28 } };
	struct iovec back = { the_mem + 2000, 128 };
	for (size_t i = 0; i < 2000; i++)
		the_mem[i] = (uint8_t)(i * 7 + 1);
	assert_true(softrdma_local_peer_copy(v.local_peer, pieces, 2, remote, 128, false));
	assert_true(softrdma_local_peer_copy(v.local_peer, &back, 1, remote, 128, true));
	assert_memory_equal(the_mem + 2000, the_mem, 100);
	assert_memory_equal(the_mem + 2100, the_mem + 1000, 28);

	/* the kernel forbids it */
	fail_call(FAIL_MINE, "process_vm_writev", 0, 1, EPERM);
	assert_false(softrdma_local_peer_copy(v.local_peer, pieces, 2, remote, 128, false));
	fail_call(FAIL_MINE, "process_vm_readv", 0, 1, EPERM);
	assert_false(softrdma_local_peer_copy(v.local_peer, &back, 1, remote, 128, true));
	fail_nothing();

	/* a part of the memory is gone, then all of it */
	give_and_wait(&v.other, ORDER_UNMAP);
	back.iov_len = 2 * PIECE;
	assert_false(softrdma_local_peer_copy(v.local_peer, &back, 1, remote - 8 - PIECE, 2 * PIECE, true));
	assert_false(softrdma_local_peer_copy(v.local_peer, pieces, 2, remote, 128, false));
	other_kill(&v.other);
	assert_false(softrdma_local_peer_copy(v.local_peer, pieces, 2, remote, 128, false));
	view_fini(&v);
}

int
main(void)
{
	snprintf(named, sizeof(named), "/dev/shm/softrdma-test-%d", (int)getpid());
	snprintf(deleted, sizeof(deleted), "/dev/shm/softrdma-test-%d-deleted", (int)getpid());
	const struct CMUnitTest tests[] = {
		device_test(test_meets),
		device_test(test_dies),
		device_test(test_was_never_alive),
		device_test(test_refuses),
		device_test(test_peer_maps),
		device_test(test_name_of_another),
		device_test(test_no_peer_map),
		device_test(test_blocks_are_missing),
		device_test(test_copies),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
