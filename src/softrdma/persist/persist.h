/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* persist.h -- what kind of memory a region is, and how a range of it is made durable */

#ifndef SOFTRDMA_PERSIST_H
#define SOFTRDMA_PERSIST_H

#include <stddef.h>

struct softrdma_persist;

/*
 * Classifies the mapping(s) of [addr, addr + len) and holds what is needed to make ranges of it durable: the
 * identity of the file for a shared mapping of a file on a disk, libpmem2's persist function for a synchronous
 * DAX mapping. tmpfs and memfd are accepted (they survive the process, but no power failure), with one WARNING
 * per process. 0 with *persist_ptr, EOPNOTSUPP if the memory cannot be made durable (anonymous, private,
 * read-only, a device that is not DAX), or another errno value. Any thread.
 */
int softrdma_persist_new(void *addr, size_t len, struct softrdma_persist **persist_ptr);

/* true if a flush of len bytes may block on a medium: the progress thread must not do it then. Any thread. */
int softrdma_persist_may_block(const struct softrdma_persist *persist, size_t len);

/*
 * Makes [addr, addr + len), inside the range given at creation, durable. 0, or an errno value if it is not
 * known to be durable: msync failed, the mapping or its file changed, the file was truncated. After a failure
 * all further calls fail (EIO: another attempt cannot flush what the kernel has dropped). Never raises SIGBUS.
 * Any thread, also several at once.
 */
int softrdma_persist_flush(struct softrdma_persist *persist, const void *addr, size_t len);

/* releases it; NULL is allowed */
void softrdma_persist_delete(struct softrdma_persist *persist);

#endif /* SOFTRDMA_PERSIST_H */
