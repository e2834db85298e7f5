/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * copy.h -- access to memory that may be missing: the kernel accesses it and returns an error instead of SIGBUS
 *
 * A page of a file may be missing because the file was truncated, or because a hole in it needs a block that
 * the disk, the quota or the pool of huge pages does not have. Any page may be missing because the program has unmapped,
 * moved or protected it. Then the question whether it is there, asked before the copy, is enough: only the program itself
 * can take it away after that.
 */

#ifndef SOFTRDMA_COPY_H
#define SOFTRDMA_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* both copy len bytes, upwards: 0, or EFAULT if not all of them could be copied. Any thread. */
int softrdma_copy_to(void *there, const void *src, size_t len);
int softrdma_copy_from(void *dst, const void *there, size_t len);

/*
 * Makes all pages of [addr, addr + len) present and writable, so that a store right after it raises no signal.
 * 0, EFAULT if a page cannot be provided, or EOPNOTSUPP if the kernel cannot do this. Any thread.
 */
int softrdma_copy_populate(void *addr, size_t len);

/* the same for loads: holes of a file stay holes */
int softrdma_copy_prefetch(void *addr, size_t len);

/* true if the byte at addr can be loaded. Any thread. */
bool softrdma_copy_is_there(const void *addr);

/* true if it can be stored to. Changes nothing, also if other threads and processes store there meanwhile. Any thread. */
bool softrdma_copy_is_writable(void *addr);

/* addresses of pages that were writable a moment ago, so that many small copies to one page ask once; each at its place */
#define SOFTRDMA_PAGES_KNOWN 8
struct softrdma_pages {
	uintptr_t known[SOFTRDMA_PAGES_KNOWN];
};

static inline void
softrdma_pages_forget(struct softrdma_pages *pages)
{
	memset(pages, 0, sizeof(*pages));
}

/* check that all of len > 0 bytes at addr can be loaded, or stored to: 0 or EFAULT; pages may be NULL. Any thread. */
int softrdma_copy_check_loads(const void *addr, size_t len);
/* only the first and the last byte of them */
int softrdma_copy_check_ends(const void *addr, size_t len);
int softrdma_copy_check_stores(void *addr, size_t len, struct softrdma_pages *pages);

/* closes the pipe that copies may have opened; a later copy opens it again */
void softrdma_copy_close(void);

#endif /* SOFTRDMA_COPY_H */
