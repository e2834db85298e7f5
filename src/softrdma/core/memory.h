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

#include "softrdma/bounds.h"
#include "softrdma/core/pd.h"
#include "softrdma/persist/persist.h"
#include "softrdma/softrdma.h"

struct softrdma_mr {
	struct ibv_mr mr;
	int access;
	int fragile;                      /* a store may raise SIGBUS: see softrdma_mr_store() */
	struct softrdma_persist *persist; /* NULL without the right to persistent flushes, and read_flushes */
	bool read_flushes;                /* all of it is made durable before a READ of it is answered */
	unsigned flushes;                 /* running on a worker; guarded by the table's lock */
	uint64_t board_serial;            /* board.c only; 0: it was never shown */
	uint32_t board_place;
	struct softrdma_mr *next; /* in its bucket */
};

/* pieces of registered memory, in the order of the message */
struct softrdma_place {
	int count;
	struct iovec iov[SOFTRDMA_SGE_MAX];
	struct softrdma_mr *mr[SOFTRDMA_SGE_MAX]; /* parallel to iov; NULL: not registered (inline data) */
};

/* a single piece, or none if it has no length; mr may be NULL as above */
static inline void
softrdma_place_one(struct softrdma_place *place, struct softrdma_mr *mr, uint64_t addr, uint64_t len)
{
	place->count = len > 0;
	place->iov[0].iov_base = (void *)(uintptr_t)addr;
	place->iov[0].iov_len = len;
	place->mr[0] = mr;
}

/*
 * Finds the region with this key and checks protection domain (that of keys: domain.h), range and all bits of
 * access. NULL: refused. Any thread; the region stays usable until the caller drops the lock of its
 * connection (see softrdma_mr_remove).
 */
struct softrdma_mr *softrdma_mr_find(const struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t len,
	int access);

/*
 * Checks the same for the application's own call, without handing out the region. 0; EFAULT: the key is no
 * region's, or the range is not inside the region; EPERM: another protection domain's, or a right is missing.
 */
int softrdma_mr_check(const struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t len, int access);

/*
 * Resolves len bytes from offset of a scatter/gather list. 0, or EACCES if a piece is refused. Pieces of no
 * length are not looked at, as on hardware.
 */
int softrdma_place_sges(const struct ibv_pd *pd, const struct ibv_sge *sge, int num_sge, uint64_t offset,
	uint64_t len, int access, struct softrdma_place *place);

/*
 * Copies into registered memory, the last byte last. A mapped file may have been truncated by anybody, and a
 * hole of it may find no room; where that is possible the kernel does the copy and the answer is EFAULT
 * instead of a SIGBUS. 0 or an errno value.
 */
int softrdma_mr_store(const struct softrdma_mr *mr, void *dst, const void *src, size_t len);

/* copies to memory that is there, the last byte last, and a last word in one piece: programs look for it */
void softrdma_copy_upwards(void *dst, const void *src, size_t len);

/* the same from there: what is sent by a copy */
int softrdma_mr_load(const struct softrdma_mr *mr, void *dst, const void *src, size_t len);

/*
 * Before an instruction of our own stores to len bytes at addr: makes the pages there. 0 or an errno value,
 * also where that cannot be known; the memory must not be touched then.
 */
int softrdma_mr_populate(const struct softrdma_mr *mr, void *addr, size_t len);

/*
 * Checks that both ends of len > 0 bytes at addr are there, before the kernel gets them to send. 0, or EFAULT, which a
 * NAK can still report. A page that is missing in between makes the system call fail.
 */
int softrdma_mr_look(const struct softrdma_mr *mr, const void *addr, size_t len);

/* takes a region for a flush on a worker, and gives it back; deregistration waits in between */
void softrdma_mr_hold(struct softrdma_mr *mr);
void softrdma_mr_release(struct softrdma_mr *mr);

/* calls visit() for each region of the table, with the table's lock held. Any thread. */
void softrdma_mr_for_each(void (*visit)(struct softrdma_mr *mr));

/* ibv_reg_mr without the public name: NULL with errno */
struct softrdma_mr *softrdma_mr_new(struct ibv_pd *pd, void *addr, size_t length, int access);

/*
 * Takes the region out of the table: from here on no lookup finds it. A thread that found it before holds the lock of a
 * connection. So once the caller has taken and released all those locks, no thread accesses the memory.
 */
void softrdma_mr_remove(struct softrdma_mr *mr);

/* waits for flushes of the region that still run on a worker. No lock. */
void softrdma_mr_wait_for_flushes(struct softrdma_mr *mr);

/* frees what softrdma_mr_new made, once no flush of it runs */
void softrdma_mr_delete(struct softrdma_mr *mr);

#endif /* SOFTRDMA_MEMORY_H */
