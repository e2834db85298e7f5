/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * warm.h -- reads the file of lent memory into the page cache, in the background
 *
 * If the kernel reads ahead of accesses to a mapping, it makes pages of up to 2 MiB (large folios, on ext4 since Linux 6.16),
 * and msync(2) of a single byte then writes all of such a page. Without reading ahead each first access waits for the
 * disk. So the kernel is told not to, and the whole file is read before it is needed, if there is memory for it.
 */

#ifndef KEEPER_WARM_H
#define KEEPER_WARM_H

#include <stdbool.h>
#include <stddef.h>

struct warm;

/*
 * Takes room for a file of this size out of half of the memory that the machine has available; false: that is too little.
 * The room is not given back. Main thread.
 */
bool warm_reserve(size_t size);

/* starts a thread that reads the file; NULL: it cannot be started. fd stays the caller's, until warm_stop. */
struct warm *warm_start(int fd, size_t size);

/* ends the thread; NULL does no harm */
void warm_stop(struct warm *warm);

#endif /* KEEPER_WARM_H */
