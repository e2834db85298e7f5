/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* memory.h -- protection domains, memory regions and the check that every access passes */

#ifndef SOFTRDMA_MEMORY_H
#define SOFTRDMA_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "softrdma/base/copy.h"
#include "softrdma/bounds.h"
#include "softrdma/core/pd.h"
#include "softrdma/persist/persist.h"
#include "softrdma/softrdma.h"

struct softrdma_mr {
	struct ibv_mr mr;
	int access;
	int fragile; /* true if a store may raise SIGBUS without a fault of the program: see softrdma_mr_store() */
	struct softrdma_persist *persist; /* NULL without persistent flushes and read_flushes */
	bool read_flushes;                /* true if all of it is made durable before a READ's response */
	unsigned flushes;                 /* number that run on a worker; guarded by flushes_lock */
	uint64_t registry_serial;         /* registry.c only; 0: it was never shown */
	uint32_t registry_place;
	_Atomic(struct softrdma_mr *) next; /* in its bucket */
};

/* the SGEs (segments of registered memory) of a payload, in the order of the message */
struct softrdma_place {
	int count;
	struct iovec iov[SOFTRDMA_SGE_MAX];
	struct softrdma_mr *mr[SOFTRDMA_SGE_MAX]; /* parallel to iov; NULL: not registered (inline data) */
};

/* sets a place of one segment, or of none if len is 0; mr may be NULL as above */
static inline void
softrdma_place_one(struct softrdma_place *place, struct softrdma_mr *mr, uint64_t addr, uint64_t len)
{
	place->count = len > 0;
	place->iov[0].iov_base = (void *)(uintptr_t)addr;
	place->iov[0].iov_len = len;
	place->mr[0] = mr;
}

/*
 * Finds the region with this key and checks protection domain (softrdma_domain_of_keys()), range and all bits of
 * access. NULL: refused. Any thread that holds the lock of its connection, without which regions may be freed
 * meanwhile; the region stays usable until the caller releases that lock (see softrdma_mr_remove).
 */
struct softrdma_mr *softrdma_mr_find(const struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t len,
	int access);

/*
 * Makes the same checks for a call of the application, and gives no region. 0; EFAULT: no region has the key, or
 * the range is not inside the region; EPERM: the region is in another protection domain, or lacks a right.
 */
int softrdma_mr_check(const struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t len, int access);

/*
 * Resolves len bytes from offset of a scatter/gather list. 0, or EACCES if an SGE is refused. SGEs without length
 * are not checked, as on hardware.
 */
int softrdma_place_sges(const struct ibv_pd *pd, const struct ibv_sge *sge, int num_sge, uint64_t offset,
	uint64_t len, int access, struct softrdma_place *place);

/*
 * Copies into registered memory, the last byte last. A mapped file may have been truncated, and the file system may
 * have no room for a hole of it. Where that is possible, the kernel makes the copy and reports EFAULT instead of
 * raising SIGBUS. The program may have unmapped or protected any memory: pages are looked at first, except those that
 * pages knows (or NULL). 0 or an errno value.
 */
int softrdma_mr_store(const struct softrdma_mr *mr, void *dst, const void *src, size_t len,
	struct softrdma_pages *pages);

/* copies to memory that cannot fault: the last byte last, and a last aligned word as a whole, because programs poll it */
void softrdma_copy_upwards(void *dst, const void *src, size_t len);

/* copies from registered memory, for what is sent from a copy. 0 or an errno value, as of softrdma_mr_store(). */
int softrdma_mr_load(const struct softrdma_mr *mr, void *dst, const void *src, size_t len);

/*
 * Makes sure that the pages of len bytes at addr exist, before this process stores there itself. On an errno value,
 * also if the kernel cannot tell, the memory must not be touched.
 */
int softrdma_mr_populate(const struct softrdma_mr *mr, void *addr, size_t len);

/* writes to the log that registered memory was not there when a request needed it */
void softrdma_mr_tell_missing(void);

/* get() keeps the region for a flush on a worker until put(); deregistration waits in between */
void softrdma_mr_get(struct softrdma_mr *mr);
void softrdma_mr_put(struct softrdma_mr *mr);

/* calls visit() for each region of the table, with the table's lock held. Any thread. */
void softrdma_mr_for_each(void (*visit)(struct softrdma_mr *mr));

/* implements ibv_reg_mr(3): NULL with errno */
struct softrdma_mr *softrdma_mr_new(struct ibv_pd *pd, void *addr, size_t length, int access);

/*
 * Takes the region out of the table: from here on no lookup finds it. A thread that found it before holds the lock of a
 * connection. So once the caller has taken and released all those locks, no thread accesses the memory.
 */
void softrdma_mr_remove(struct softrdma_mr *mr);

/* waits for flushes of the region that still run on a worker. No lock. */
void softrdma_mr_wait_for_flushes(struct softrdma_mr *mr);

/* frees a region of which no flush runs */
void softrdma_mr_delete(struct softrdma_mr *mr);

#endif /* SOFTRDMA_MEMORY_H */
