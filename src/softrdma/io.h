/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * io.h -- sockets, the progress thread and the workers
 *
 * One progress thread serves all sockets of the process, so that remote access needs no help of the
 * application. It lives from the first user to the last. For a while behind work it polls, above all the
 * connection that alone had something lately; then it sleeps. Whoever polls a completion queue serves that
 * queue's connections too, and after a while of polling alone (the thread stops waiting for those sockets)
 * until the polling stops. Whoever waits for a completion borrows the sockets for that time. A FLUSH that
 * may block on a medium is made by a worker, so that other connections go on; it keeps the socket for a
 * while, for the next one.
 *
 * Locks, in the order in which they are taken: completion queue's links_lock, connection manager, link,
 * receive queue, engine or workers, completion queue or id, channel.
 */

#ifndef SOFTRDMA_IO_H
#define SOFTRDMA_IO_H

#include <stdbool.h>
#include <stdint.h>

#include "cq.h"
#include "link.h"
#include "tls.h"
#include "watched.h"

/* one more user of the progress thread; 0 or an errno value. Not on the progress thread, no lock held. */
int softrdma_io_start(void);
/* one user less; the last one ends the threads. Not on the progress thread, no lock held. */
void softrdma_io_stop(void);

/*
 * The sockets of whoever is not connected yet: a few of them have their turn between two looks at the
 * connections, however many there are. Edge-triggered, both directions; 0 or an errno value. Any thread.
 */
int softrdma_io_watch(int fd, struct softrdma_watched *watched);
/* what is there already is reported once more, after others have had their turn; 0 or an errno value */
int softrdma_io_look_again(int fd, struct softrdma_watched *watched);
/*
 * handle() is not called any more after what runs now; release() follows on another thread. Closes the
 * socket.
 */
void softrdma_io_unwatch(int fd, struct softrdma_watched *watched);
/* the same for a socket that is to live on */
void softrdma_io_forget(int fd, struct softrdma_watched *watched);

/*
 * Called about every 20 ms on the progress thread while timed things exist: the part of whoever connects. It
 * adds and takes away its own with softrdma_io_timed(). Adding it again changes nothing.
 */
void softrdma_io_add_ticker(void (*tick)(uint64_t now_ns));
void softrdma_io_timed(int change);
/* sets such a thing's deadline to now + ms (0: none), in ns; it is counted as long as it has one */
void softrdma_io_set_deadline(uint64_t *deadline, unsigned ms);

/* a new queue pair's link is known to the device (or no more): lists it, takes it out. No lock held. */
void softrdma_io_add_link(struct softrdma_link *link);
void softrdma_io_remove_link(struct softrdma_link *link);
/* is there a queue pair with this number? */
bool softrdma_io_qp_num_used(uint32_t qp_num);

/*
 * The connected socket belongs to the link from here on, also when it fails, and so does its TLS (NULL:
 * none). Without TLS the stream is in records with check sums, if both sides have agreed on that. 0 or an
 * errno value. Link's lock held.
 */
int softrdma_io_attach(struct softrdma_link *link, int fd, struct softrdma_tls *tls, bool records);
/* closes the link's socket, if it has one. Link's lock held. */
void softrdma_io_detach(struct softrdma_link *link);

/* sends what there is to send. Link's lock held. */
void softrdma_io_send(struct softrdma_link *link);
/* the peer must do the next step by now + ms (0: no more). Link's lock held. */
void softrdma_io_deadline(struct softrdma_link *link, unsigned ms);

/* softrdma_faulty_look() is called for the links at this time. Any lock but the engine's. */
void softrdma_io_alarm(uint64_t when_ns);

/* a receive was posted that the link has been waiting for. No lock held. */
void softrdma_io_receive_posted(struct softrdma_link *link);
/* serves the connections of the queue, if nobody else does. No lock held. */
void softrdma_io_poll(struct softrdma_cq *cq);
/*
 * whoever polled the queue is about to wait for an event instead: the progress thread takes over. No lock
 * held.
 */
void softrdma_io_stop_polling(struct softrdma_cq *cq);
/* the same for all queues: a thread is about to wait on a channel. No lock held. */
void softrdma_io_about_to_wait(void);
/*
 * A thread that waits for a completion of the link has the socket to read from until it gives it back; the
 * result is the socket, or -1 if it cannot be had. serve_lent() says what poll(2) has found; false: nothing
 * came, or no more can. No lock held.
 */
int softrdma_io_lend(struct softrdma_link *link);
bool softrdma_io_serve_lent(struct softrdma_link *link, short revents);
void softrdma_io_take_back(struct softrdma_link *link);
/*
 * the region has left the table: when this returns no thread of the device touches it but running flushes do.
 * No lock.
 */
void softrdma_io_revoke(const struct softrdma_mr *mr);

#endif /* SOFTRDMA_IO_H */
