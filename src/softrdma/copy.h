/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * copy.h -- access to memory that may not be there: the kernel makes it, and gives an error for a SIGBUS
 *
 * A page of a file may be missing because the file was cut short, or because a hole of it needs a block that
 * the disk, the quota or the pool of huge pages does not have.
 */

#ifndef SOFTRDMA_COPY_H
#define SOFTRDMA_COPY_H

#include <stdbool.h>
#include <stddef.h>

/* both copy len bytes, upwards: 0, or EFAULT if not all of them could be copied. Any thread. */
int softrdma_copy_to(void *there, const void *src, size_t len);
int softrdma_copy_from(void *dst, const void *there, size_t len);

/*
 * Makes all pages of [addr, addr + len) there and writable, so that a store that follows at once raises no
 * signal. 0, EFAULT if that cannot be, or EOPNOTSUPP if the kernel cannot be asked. Any thread.
 */
int softrdma_copy_populate(void *addr, size_t len);

/* the same for loads: holes of a file stay holes */
int softrdma_copy_prefetch(void *addr, size_t len);

/* may the byte at addr be loaded? Any thread. */
bool softrdma_copy_is_there(const void *addr);

/* closes what was opened for copies; a later copy opens it again */
void softrdma_copy_close(void);

#endif /* SOFTRDMA_COPY_H */
