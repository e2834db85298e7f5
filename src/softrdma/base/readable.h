/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * readable.h -- a descriptor for applications that is readable while its owner wants that: that of a completion channel
 *
 * It is an epoll descriptor, so its owner can add sockets, whose input makes it readable as well. What the owner wants
 * is whether an eventfd that is always readable is in its list of what is ready. Many descriptors share one eventfd, so
 * each is one descriptor of the process.
 */

#ifndef SOFTRDMA_READABLE_H
#define SOFTRDMA_READABLE_H

#include <stdbool.h>

struct softrdma_readable_source;

struct softrdma_readable {
	int fd; /* the application's: closed on exec, inherited by a child. Its O_NONBLOCK is for the owner to look at. */
	struct softrdma_readable_source *source;
};

/* not readable at first; 0 or an errno value. Any lock. */
int softrdma_readable_open(struct softrdma_readable *readable);
void softrdma_readable_close(struct softrdma_readable *readable);

/*
 * raise(): it is readable from now on, which is an edge if it was not raised before; false if the application has closed the
 * descriptor. clear(): it is no longer; it was raised, and holds at most this number of sockets. The caller holds the owner's
 * lock.
 */
bool softrdma_readable_raise(const struct softrdma_readable *readable);
void softrdma_readable_clear(const struct softrdma_readable *readable, unsigned sockets);

#endif /* SOFTRDMA_READABLE_H */
