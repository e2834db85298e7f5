/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* registry.c -- what this process publishes to others on the same host: its regions, and which peers may access them */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/variables.h"
#include "softrdma/core/memory.h"
#include "softrdma/samehost/registry.h"

static struct {
	pthread_mutex_t lock;               /* guards all members; no other lock is taken under it */
	struct softrdma_registry *registry; /* NULL: none */
	int fd;
	bool trusts_files; /* set before the registry is made */
	uint64_t serial;   /* of the last region published */
	bool region_used[SOFTRDMA_REGISTRY_REGIONS];
	bool slot_used[SOFTRDMA_REGISTRY_SLOTS];
} own = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.fd = -1,
};

/* other processes still use the parent's registry: the child unmaps it, and writes nothing there */
static void
after_fork(void)
{
	const uint64_t serial = own.serial; /* continues, so that no region of the child has a parent's */
	if (own.registry)
		munmap(own.registry, sizeof(*own.registry));
	memset(&own, 0, sizeof(own));
	own.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	own.fd = -1;
	own.serial = serial;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_REGISTRY, .in_child = after_fork);

static void
init_robust(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
}

/* makes a file in memory that other processes can map and that cannot be resized; -1 with errno */
static int
new_file(void)
{
	int fd = softrdma_fork_owned(memfd_create("softrdma", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return -1;
	if (ftruncate(fd, sizeof(struct softrdma_registry)) != 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
		int error = errno;
		softrdma_fork_close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

static int
open_registry(void)
{
	int fd = new_file();
	if (fd < 0)
		return errno;
	int ret = 0;
	void *map = mmap(NULL, sizeof(struct softrdma_registry), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		ret = errno;
		goto err_close;
	}
	/* this mapping stays writable; the kernel refuses any further writable one */
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
		ret = errno;
		goto err_unmap;
	}
	struct softrdma_registry *registry = map;
	ret = softrdma_random(registry->id, sizeof(registry->id));
	if (ret)
		goto err_unmap;
	init_robust(&registry->alive);
	registry->magic = SOFTRDMA_REGISTRY_MAGIC;
	pthread_mutex_lock(&own.lock);
	own.fd = fd;
	own.registry = registry;
	pthread_mutex_unlock(&own.lock);
	return 0;

err_unmap:
	munmap(map, sizeof(struct softrdma_registry));
err_close:
	softrdma_fork_close(fd);
	return ret;
}

static void
make_registry(bool trusts_files)
{
	own.trusts_files = trusts_files;
	int ret = open_registry();
	/*
	 * message(connected): `SOFTRDMA_SAME_HOST` is set and not possible -> The system's text says why.
	 * It works, only slower.
	 */
	if (ret)
		SOFTRDMA_LOG(WARNING, "processes of the same host are reached by TCP as others are: %s",
			strerror(ret));
}

void
softrdma_registry_open(void)
{
	enum { OFF, ON, ON_WITH_FILES };
	uint64_t setting = softrdma_setting("SOFTRDMA_SAME_HOST", OFF, ON_WITH_FILES, OFF);
	if (setting != OFF)
		make_registry(setting == ON_WITH_FILES);
	if (softrdma_registry_is_there())
		softrdma_mr_for_each(softrdma_registry_show);
}

bool
softrdma_registry_trusts_files(void)
{
	return own.trusts_files;
}

void
softrdma_registry_live(void)
{
	if (own.registry == NULL)
		return;
	pthread_mutex_lock(&own.registry->alive);
}

void
softrdma_registry_die(void)
{
	if (own.registry == NULL)
		return;
	pthread_mutex_unlock(&own.registry->alive);
}

void
softrdma_registry_close(void)
{
	pthread_mutex_lock(&own.lock);
	if (own.registry) {
		/* the mutexes are not destroyed: other processes may read them as long as they map the registry */
		munmap(own.registry, sizeof(*own.registry));
		softrdma_fork_close(own.fd);
		own.registry = NULL;
		own.fd = -1;
		memset(own.region_used, 0, sizeof(own.region_used));
		memset(own.slot_used, 0, sizeof(own.slot_used));
	}
	pthread_mutex_unlock(&own.lock);
}

/* --- regions --- */

/* the caller holds the lock; *at is a free entry for the key; false: all entries for it are in use */
static bool
find_place(uint32_t key, uint32_t *at)
{
	for (unsigned step = 0; step < SOFTRDMA_REGISTRY_STEPS; step++) {
		*at = softrdma_registry_place(key, step);
		if (!own.region_used[*at])
			return true;
	}
	return false;
}

/* the region's entry in the current registry; NULL: it has none. The caller holds the lock. */
static struct softrdma_registry_region *
shown(const struct softrdma_mr *mr)
{
	if (own.registry == NULL || mr->registry_serial == 0)
		return NULL;
	struct softrdma_registry_region *region = &own.registry->regions[mr->registry_place];
	return region->serial == mr->registry_serial ? region : NULL;
}

void
softrdma_registry_show(struct softrdma_mr *mr)
{
	/* a region that is made durable before it is read can only be reached by a request */
	if (mr->mr.length == 0 || mr->read_flushes || softrdma_is_inherited(mr->mr.context))
		return;
	uint32_t at;
	pthread_mutex_lock(&own.lock);
	if (own.registry && !shown(mr) && find_place(mr->mr.rkey, &at)) {
		struct softrdma_registry_region *region = &own.registry->regions[at];
		own.region_used[at] = true;
		region->serial = ++own.serial;
		region->access = mr->access;
		region->addr = (uintptr_t)mr->mr.addr;
		region->length = mr->mr.length;
		region->pd = (uintptr_t)softrdma_domain_of_keys(mr->mr.pd);
		mr->registry_place = at;
		mr->registry_serial = own.serial;
		atomic_store(&region->key, mr->mr.rkey);
	}
	pthread_mutex_unlock(&own.lock);
}

void
softrdma_registry_hide(const struct softrdma_mr *mr)
{
	pthread_mutex_lock(&own.lock);
	struct softrdma_registry_region *region = shown(mr);
	if (region)
		atomic_store(&region->key, 0);
	pthread_mutex_unlock(&own.lock);
}

void
softrdma_registry_forget(const struct softrdma_mr *mr)
{
	pthread_mutex_lock(&own.lock);
	if (shown(mr))
		own.region_used[mr->registry_place] = false;
	pthread_mutex_unlock(&own.lock);
}

/* --- slots --- */

struct softrdma_registry_slot *
softrdma_registry_take_slot(const void *pd)
{
	struct softrdma_registry_slot *slot = NULL;
	uint32_t at = 0;
	pthread_mutex_lock(&own.lock);
	while (at < SOFTRDMA_REGISTRY_SLOTS && own.slot_used[at])
		at++;
	if (own.registry && at < SOFTRDMA_REGISTRY_SLOTS) {
		own.slot_used[at] = true;
		slot = &own.registry->slots[at];
		slot->pd = (uintptr_t)pd;
		init_robust(&slot->inside);
	}
	pthread_mutex_unlock(&own.lock);
	return slot;
}

void
softrdma_registry_give_slot(struct softrdma_registry_slot *slot)
{
	pthread_mutex_lock(&own.lock);
	own.slot_used[slot - own.registry->slots] = false;
	pthread_mutex_unlock(&own.lock);
}

bool
softrdma_registry_is_there(void)
{
	pthread_mutex_lock(&own.lock);
	bool is_there = own.registry != NULL;
	pthread_mutex_unlock(&own.lock);
	return is_there;
}

/*
 * The lock word of a robust mutex is an ABI of the kernel (futex(2)). It holds the id of the thread, or 0 if the
 * mutex is free. When the thread ends, the kernel clears the id and sets a bit. glibc puts the word first.
 */
bool
softrdma_registry_is_held(const pthread_mutex_t *mutex)
{
	int word = __atomic_load_n(&mutex->__data.__lock, __ATOMIC_SEQ_CST);
	return (word & FUTEX_TID_MASK) != 0 && !(word & FUTEX_OWNER_DIED);
}

struct softrdma_shm_offer
softrdma_registry_offer(const struct softrdma_registry_slot *slot, uint32_t number)
{
	struct softrdma_shm_offer offer = {
		.pid = (uint32_t)getpid(),
		.fd = (uint32_t)own.fd,
		.slot = (uint32_t)(slot - own.registry->slots),
		.number = number,
	};
	memcpy(offer.id, own.registry->id, sizeof(offer.id));
	return offer;
}
