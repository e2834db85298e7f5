/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* stream_memory.c -- registered memory of the stream's target, and which bytes of it may change */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softrdma/verbs/device.h"
#include "stream_memory.h"

#define PAGE ((size_t)4096)
/* addresses that nothing else uses, not even the sanitizers' own mappings */
#define FILE_ADDR ((uint64_t)0x200000000000)
#define FILE_SIZE (2 * PAGE)
#define PLAIN_ADDR (FILE_ADDR + 0x100000)
#define PLAIN_SIZE (4 * PAGE)
/* more than two segments, so that responses and requests are split */
#define READ_ADDR (FILE_ADDR + 0x200000)
#define READ_SIZE (150 * PAGE)

#define FIRST_KEY 0x11111101u

#define ALL_RIGHTS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		IBV_ACCESS_REMOTE_ATOMIC | SOFTRDMA_ACCESS_FLUSH_GLOBAL)

struct region regions[REGION_COUNT] = {
	[REGION_ALL] = { FILE_ADDR + 256, PAGE, ALL_RIGHTS | SOFTRDMA_ACCESS_FLUSH_PERSISTENT, 0, NULL },
	[REGION_READ] = { READ_ADDR, READ_SIZE, IBV_ACCESS_REMOTE_READ, 0, NULL },
	[REGION_LOCAL] = { PLAIN_ADDR + 64, PAGE, IBV_ACCESS_LOCAL_WRITE, 0, NULL },
	[REGION_FOREIGN] = { PLAIN_ADDR + 2 * PAGE, 1024, ALL_RIGHTS, 0, NULL },
	[REGION_WRITE] = { PLAIN_ADDR + 2 * PAGE + 1032, 512,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, NULL },
	[REGION_FLEETING] = { PLAIN_ADDR + 3 * PAGE, 1024, ALL_RIGHTS, 0, NULL },
};
struct ibv_pd *stream_pd;
static struct ibv_pd *foreign_pd;

/* all memory that can be written: its current content and its permitted changes */
static struct area {
	uint64_t addr;
	size_t size;
	uint8_t fresh[PLAIN_SIZE]; /* the initial content; before: the content to compare with */
	uint8_t before[PLAIN_SIZE];
	uint8_t may_change[PLAIN_SIZE];
} areas[] = { { .addr = FILE_ADDR, .size = FILE_SIZE }, { .addr = PLAIN_ADDR, .size = PLAIN_SIZE } };

#define AREAS (sizeof(areas) / sizeof(areas[0]))

static uint32_t next_key;

/* the keys of regions are the only random numbers that the device needs here */
static int
known_random(void *buf, size_t len)
{
	uint8_t *at = buf;

	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)(next_key >> (8 * (i % 4)));
	return 0;
}

static void *
bytes_of(const struct area *area)
{
	return (void *)(uintptr_t)area->addr;
}

static void
map(uint64_t addr, size_t size, int fd, int prot)
{
	void *at = (void *)(uintptr_t)addr;
	int flags = MAP_SHARED | MAP_FIXED_NOREPLACE | (fd < 0 ? MAP_ANONYMOUS : 0);

	void *got = mmap(at, size, prot, flags, fd, 0);

	if (got != at)
		fuzz_skip("this process has no room for memory at an address that never changes");
}

static void
reg(enum region_id id)
{
	struct region *r = &regions[id];
	struct ibv_pd *pd = id == REGION_FOREIGN ? foreign_pd : stream_pd;

	next_key = r->key = FIRST_KEY + (uint32_t)id * MEMORY_KEYS_APART;
	r->mr = softrdma_mr_new(pd, (void *)(uintptr_t)r->addr, r->size, r->access);
	FUZZ_CHECK(r->mr && r->mr->mr.rkey == r->key);
}

void
memory_init(void)
{
	static const struct softrdma_env env = { .random = known_random };
	int fd = memfd_create("stream", MFD_CLOEXEC);

	softrdma_set_env(&env);
	FUZZ_CHECK(fd >= 0 && ftruncate(fd, (off_t)FILE_SIZE) == 0);
	/* it stays open: users other than root find a file without a name only by a descriptor of it */
	map(FILE_ADDR, FILE_SIZE, fd, PROT_READ | PROT_WRITE);
	map(PLAIN_ADDR, PLAIN_SIZE, -1, PROT_READ | PROT_WRITE);
	map(READ_ADDR, READ_SIZE, -1, PROT_READ);
	for (size_t i = 0; i < AREAS; i++) {
		for (size_t at = 0; at < areas[i].size; at++)
			areas[i].fresh[at] = (uint8_t)(at * 7 + at / 256);
	}
	stream_pd = softrdma_ibv_alloc_pd(softrdma_context());
	foreign_pd = softrdma_ibv_alloc_pd(softrdma_context());
	FUZZ_CHECK(stream_pd && foreign_pd);
	for (enum region_id id = 0; id < REGION_COUNT; id++)
		reg(id);
}

void
memory_reset(void)
{
	if (regions[REGION_FLEETING].mr == NULL)
		reg(REGION_FLEETING);
	for (size_t i = 0; i < AREAS; i++) {
		memcpy(areas[i].before, areas[i].fresh, areas[i].size);
		memcpy(bytes_of(&areas[i]), areas[i].fresh, areas[i].size);
		memset(areas[i].may_change, 0, areas[i].size);
	}
}

static void
check_area(const struct area *area)
{
	const uint8_t *now = bytes_of(area);

	for (size_t at = 0; at < area->size; at++)
		FUZZ_CHECK(now[at] == area->before[at] || area->may_change[at]);
}

void
memory_check(void)
{
	for (size_t i = 0; i < AREAS; i++) {
		if (memcmp(bytes_of(&areas[i]), areas[i].before, areas[i].size) != 0)
			check_area(&areas[i]);
	}
}

static void
mark(uint64_t addr, uint64_t len, uint8_t may)
{
	for (size_t i = 0; i < AREAS; i++) {
		uint64_t off = addr - areas[i].addr;

		if (addr >= areas[i].addr && off <= areas[i].size && len <= areas[i].size - off)
			memset(areas[i].may_change + off, may, len);
	}
}

static bool
is_inside(const struct region *r, uint64_t addr, uint64_t len)
{
	return addr >= r->addr && addr - r->addr <= r->size && len <= r->size - (addr - r->addr);
}

void
memory_allow(uint64_t addr, uint64_t len)
{
	for (size_t i = 0; i < REGION_COUNT; i++) {
		const struct region *r = &regions[i];

		if (r->mr == NULL || i == REGION_FOREIGN || !(r->access & IBV_ACCESS_LOCAL_WRITE) ||
			!is_inside(r, addr, 0))
			continue;
		uint64_t room = r->addr + r->size - addr;
		mark(addr, len < room ? len : room, 1);
	}
}

void
memory_allow_remote(uint32_t key, uint64_t addr, uint64_t len, int access)
{
	for (size_t i = 0; i < REGION_COUNT; i++) {
		const struct region *r = &regions[i];

		if (r->mr && r->key == key && i != REGION_FOREIGN && (r->access & access) == access &&
			is_inside(r, addr, len))
			mark(addr, len, 1);
	}
}

bool
memory_is_readable(const void *at, size_t len)
{
	for (size_t i = 0; i < REGION_COUNT; i++) {
		if (regions[i].mr && i != REGION_FOREIGN && (regions[i].access & IBV_ACCESS_REMOTE_READ) &&
			is_inside(&regions[i], (uintptr_t)at, len))
			return true;
	}
	return false;
}

struct softrdma_mr *
memory_revoke(void)
{
	struct region *r = &regions[REGION_FLEETING];
	struct softrdma_mr *mr = r->mr;

	if (mr == NULL)
		return NULL;
	softrdma_mr_remove(mr);
	r->mr = NULL;
	for (size_t i = 0; i < AREAS; i++) {
		if (r->addr >= areas[i].addr && r->addr - areas[i].addr < areas[i].size)
			memcpy(areas[i].before + (r->addr - areas[i].addr), (void *)(uintptr_t)r->addr,
				r->size);
	}
	mark(r->addr, r->size, 0);
	return mr;
}
