/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* persist.h -- what kind of memory a region is, and how a range of it is made durable */

#ifndef SOFTRDMA_PERSIST_H
#define SOFTRDMA_PERSIST_H

#include <stddef.h>

struct softrdma_persist;

/*
 * Classifies the mapping(s) behind [addr, addr + len) and holds what is needed to make ranges of it durable:
 * for a shared mapping of a file on a disk the identity of the file, for a synchronous DAX mapping libpmem2's
 * persist function. tmpfs and memfd count (they survive the process, not the power), with one WARNING per
 * process. 0 with *persist_ptr, EOPNOTSUPP where the memory cannot be made durable (anonymous, private,
 * read-only, a device that is no DAX), or another errno value. Any thread.
 */
int softrdma_persist_new(void *addr, size_t len, struct softrdma_persist **persist_ptr);

/* may the flush of len bytes block on a medium? Then it is not for the progress thread. Any thread. */
int softrdma_persist_may_block(const struct softrdma_persist *persist, size_t len);

/*
 * Makes [addr, addr + len), inside the range given at creation, durable. 0, or an errno value when it is not
 * known to be: msync failed, the mapping or the file behind it changed, the file was truncated. Once it has
 * failed it fails for ever (EIO: what the kernel dropped cannot be flushed by trying again). Never raises
 * SIGBUS. Any thread, also several at once.
 */
int softrdma_persist_flush(struct softrdma_persist *persist, const void *addr, size_t len);

/* releases it; NULL is allowed */
void softrdma_persist_delete(struct softrdma_persist *persist);

#endif /* SOFTRDMA_PERSIST_H */
