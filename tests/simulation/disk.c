/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* disk.c -- mapped files of two machines, and what a power cut leaves of them */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "disk.h"
#include "fiber.h"
#include "sim.h"
#include "softrdma/persist/mapping.h"
#include "softrdma/persist/persist_description.h"

#define LINE 64
#define LINES (DISK_SIZE / LINE)
#define PAGE 4096

struct disk {
	uint8_t *memory;
	ino_t inode;
	uint8_t clean[DISK_SIZE];   /* what the kernel takes to be on the medium */
	uint8_t durable[DISK_SIZE]; /* what is on the medium */
	bool dead;
	bool failed;
};

static struct {
	struct disk_plan plan;
	struct disk disks[DISK_MACHINES];
	unsigned syncs; /* that run */
	uint64_t synced_ns;
} all;

/* makes a file in memory that looks like one on a disk: see the wraps below */
void
disk_init(void)
{
	for (unsigned i = 0; i < DISK_MACHINES; i++) {
		struct disk *disk = &all.disks[i];
		int fd = memfd_create("disk", MFD_CLOEXEC);
		struct stat st;

		SIM_CHECK(fd >= 0 && ftruncate(fd, (off_t)DISK_SIZE) == 0 && fstat(fd, &st) == 0,
			"no file for a disk");
		disk->memory = mmap(NULL, DISK_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		SIM_CHECK(disk->memory != MAP_FAILED, "no memory for a disk");
		/*
		 * the descriptor stays open, because the device searches the descriptors for the file of the
		 * memory
		 */
		disk->inode = st.st_ino;
	}
}

void
disk_begin(void)
{
	memset(&all.plan, 0, sizeof(all.plan));
	all.syncs = 0;
	all.synced_ns = 0;
	for (unsigned i = 0; i < DISK_MACHINES; i++) {
		struct disk *disk = &all.disks[i];

		memset(disk->memory, 0, DISK_SIZE);
		memset(disk->clean, 0, DISK_SIZE);
		memset(disk->durable, 0, DISK_SIZE);
		disk->dead = disk->failed = false;
	}
}

void
disk_set_plan(const struct disk_plan *plan)
{
	all.plan = *plan;
}

uint8_t *
disk_memory(unsigned machine)
{
	return all.disks[machine].memory;
}

const uint8_t *
disk_durable(unsigned machine)
{
	return all.disks[machine].durable;
}

uint64_t
disk_synced_ns(void)
{
	return all.syncs ? sim.now_ns : all.synced_ns;
}

bool
disk_has_failed(unsigned machine)
{
	return all.disks[machine].failed;
}

void
disk_cut_power(unsigned machine)
{
	struct disk *disk = &all.disks[machine];
	unsigned survive = sim_below(1001);

	SIM_TRACE("machine %u has no power any more", machine);
	for (size_t line = 0; line < LINES; line++) {
		if (sim_chance(survive))
			memcpy(disk->durable + line * LINE, disk->memory + line * LINE, LINE);
	}
	disk->dead = true;
}

/* --- the part of the kernel --- */

int __real_close(int fd);
int __real_msync(void *addr, size_t len, int flags);
int __wrap_msync(void *addr, size_t len, int flags);

struct writeback {
	bool taken[LINES];
	uint8_t bytes[DISK_SIZE];
};

static void
take_dirty(struct disk *disk, size_t first, size_t end, struct writeback *wb)
{
	memset(wb->taken, 0, sizeof(wb->taken));
	for (size_t line = first; line < end; line++) {
		uint8_t *clean = disk->clean + line * LINE;
		const uint8_t *now = disk->memory + line * LINE;

		wb->taken[line] = memcmp(clean, now, LINE) != 0;
		if (wb->taken[line]) {
			memcpy(wb->bytes + line * LINE, now, LINE);
			memcpy(clean, now, LINE);
		}
	}
}

static void
write_lines(struct disk *disk, const struct writeback *wb, unsigned per_mille)
{
	for (size_t line = 0; line < LINES; line++) {
		if (wb->taken[line] && sim_chance(per_mille))
			memcpy(disk->durable + line * LINE, wb->bytes + line * LINE, LINE);
	}
}

static int
sync_disk(struct disk *disk, size_t start, size_t len)
{
	struct writeback wb;
	size_t end = (start + len + PAGE - 1) / PAGE * PAGE;

	if (sim_chance(all.plan.interrupt)) {
		errno = EINTR;
		return -1;
	}
	take_dirty(disk, start / LINE, end / LINE, &wb);
	SIM_TRACE("msync of %zu bytes at %zu begins", len, start);
	all.syncs++;
	if (all.plan.delay_ns)
		fiber_sleep_ns(sim_delay_ns(all.plan.delay_ns));
	all.syncs--;
	all.synced_ns = sim.now_ns;
	bool fails = disk->dead || sim_chance(all.plan.error);
	SIM_TRACE("msync %s", fails ? "fails" : "is through");
	if (!disk->dead)
		write_lines(disk, &wb, fails ? sim_below(1001) : 1000);
	disk->failed = disk->failed || fails;
	errno = EIO;
	return fails ? -1 : 0;
}

/* a mapping of a disk's file; not only the application's, because the device has one of its own */
struct mapping {
	const void *addr;
	uint64_t inode;
	size_t offset;
};

static int
find_mapping(const struct softrdma_area *area, const char *name, void *arg)
{
	struct mapping *mapping = arg;
	(void)name;
	mapping->inode = area->inode;
	mapping->offset = (size_t)(area->offset + ((uintptr_t)mapping->addr - area->start));
	return 0;
}

int
__wrap_msync(void *addr, size_t len, int flags)
{
	struct mapping mapping = { .addr = addr };
	softrdma_mapping_each(NULL, (uintptr_t)addr, (uintptr_t)addr + 1, false, find_mapping, &mapping);
	for (unsigned i = 0; i < DISK_MACHINES; i++) {
		struct disk *disk = &all.disks[i];

		if (mapping.inode != disk->inode)
			continue;
		SIM_CHECK(flags == MS_SYNC && mapping.offset % PAGE == 0 && mapping.offset < DISK_SIZE &&
				len <= DISK_SIZE - mapping.offset,
			"msync of what is no range of pages, or does not wait");
		return sync_disk(disk, mapping.offset, len);
	}
	sim_fail("msync of memory of no file");
}

int __real_softrdma_description_open(int path_fd, size_t len, struct softrdma_description *description);
int __wrap_softrdma_description_open(int path_fd, size_t len, struct softrdma_description *description);

/* without a thread that has descriptors of its own, because all threads are one here */
int
__wrap_softrdma_description_open(int path_fd, size_t len, struct softrdma_description *description)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	SIM_CHECK(fd >= 0, "the file of a disk cannot be opened again");
	void *base = mmap(NULL, len, PROT_NONE, MAP_SHARED, fd, 0);
	SIM_CHECK(base != MAP_FAILED, "no memory for a disk");
	__real_close(fd);
	*description = (struct softrdma_description){ .base = base, .len = len };
	return 0;
}

int __real_fstatfs(int fd, struct statfs *fs);
int __wrap_fstatfs(int fd, struct statfs *fs);
int __real_statx(int fd, const char *path, int flags, unsigned mask, struct statx *stx);
int __wrap_statx(int fd, const char *path, int flags, unsigned mask, struct statx *stx);

int
__wrap_fstatfs(int fd, struct statfs *fs)
{
	int ret = __real_fstatfs(fd, fs);

	fs->f_type = EXT4_SUPER_MAGIC;
	return ret;
}

/* the file has a name and is not DAX, according to its file system; it may be too short */
int
__wrap_statx(int fd, const char *path, int flags, unsigned mask, struct statx *stx)
{
	int ret = __real_statx(fd, path, flags, mask | STATX_INO, stx);

	/*
	 * a query for the number of names alone comes before the device drops the file: 0 makes it forget it
	 * for the next seed
	 */
	if (mask != STATX_NLINK)
		stx->stx_nlink = 1;
	stx->stx_attributes_mask |= STATX_ATTR_DAX;
	for (unsigned i = 0; mask & STATX_SIZE && i < DISK_MACHINES; i++) {
		if (stx->stx_ino == all.disks[i].inode && sim_chance(all.plan.shrink)) {
			SIM_TRACE("the file of machine %u is too short", i);
			stx->stx_size = 1;
			all.disks[i].failed = true;
		}
	}
	return ret;
}
