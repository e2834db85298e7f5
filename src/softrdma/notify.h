/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * notify.h -- descriptors that applications poll: event channels and completion channels
 *
 * The descriptor counts the events of a queue that its owner keeps in user space under a lock of its own: one
 * raise for each event put into the queue, one take for each event removed from it, both under that lock. So
 * the count is never less than the length of the queue, a take never blocks, and the application's own
 * O_NONBLOCK and epoll (level or edge) behave as with the kernel's channels.
 */

#ifndef SOFTRDMA_NOTIFY_H
#define SOFTRDMA_NOTIFY_H

/* a new descriptor, closed on exec; -1 with errno */
int softrdma_notify_open(void);

/* one more event is in the queue; the owner's lock is held */
void softrdma_notify_raise(int fd);

/* one event less is in the queue; the owner's lock is held */
void softrdma_notify_take(int fd);

/*
 * 0 if waiting for the descriptor is what the application wants, EAGAIN if it has made it non-blocking, EBADF
 */
int softrdma_notify_may_wait(int fd);

/*
 * The queue was seen empty: waits until the descriptor is readable (0), or gives EAGAIN if the application
 * has made it non-blocking, or EINTR. No lock is held.
 */
int softrdma_notify_wait(int fd);

#endif /* SOFTRDMA_NOTIFY_H */
