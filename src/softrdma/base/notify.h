/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * notify.h -- descriptors that applications poll: event channels and completion channels
 *
 * The descriptor (an eventfd) counts the events of a queue that its owner keeps in user space under a lock of
 * its own. The owner raises it for each event put into the queue and takes from it for each event removed, both
 * under that lock. So the count is never less than the length of the queue and a take never blocks. The
 * application's O_NONBLOCK and epoll (level or edge) behave as with the kernel's channels.
 */

#ifndef SOFTRDMA_NOTIFY_H
#define SOFTRDMA_NOTIFY_H

/* opens a new descriptor, closed on exec; -1 with errno */
int softrdma_notify_open(void);

/* counts an event put into the queue; the caller holds the owner's lock */
void softrdma_notify_raise(int fd);

/* counts an event removed from the queue; the caller holds the owner's lock */
void softrdma_notify_take(int fd);

/*
 * 0 if the caller may block on the descriptor, EAGAIN if the application has made it non-blocking, or EBADF
 */
int softrdma_notify_may_wait(int fd);

/*
 * Called after the queue was seen empty. 0 when the descriptor is readable, EAGAIN if the application has made
 * it non-blocking, or EINTR. The caller holds no lock.
 */
int softrdma_notify_wait(int fd);

#endif /* SOFTRDMA_NOTIFY_H */
