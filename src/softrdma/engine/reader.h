/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * reader.h -- which thread reads the socket of a connection
 *
 *	the progress thread   as a rule: it waits for the socket in its epoll
 *	a poller              a thread that polls a completion queue serves the queue's connections. After a number of
 *	                      polls without success it owns their sockets (busy polling): it reads them alone until
 *	                      it stops polling
 *	a borrower            a thread that waits for a completion, or a worker that has made a FLUSH, borrows the socket
 *	                      and reads it for a while; the progress thread only sends
 */

#ifndef SOFTRDMA_READER_H
#define SOFTRDMA_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/core/cq.h"
#include "softrdma/engine/connection.h"

/* takes the socket back from a reader that has stopped, at the beat of pollers. No lock held. */
void softrdma_reader_check(struct softrdma_connection *conn, uint64_t now_ns);

/* serves the connections of the queue, if no other thread does. No lock held. */
void softrdma_reader_poll(struct softrdma_cq *cq);
/*
 * The poller of the queue sleeps until one of the connections has input, for SOFTRDMA_NAP_NS at most, because threads that
 * compute want its processor. No lock held.
 */
void softrdma_reader_nap(struct softrdma_cq *cq);
/* the poller of the queue is about to wait for an event: the progress thread takes over. No lock held. */
void softrdma_reader_stop_polling(struct softrdma_cq *cq);
/* the same for all queues: a thread is about to wait on a channel. No lock held. */
void softrdma_reader_about_to_wait(void);

/*
 * A thread that waits for a completion of the link borrows the socket until it returns it. The result is the socket,
 * or -1 if another thread has it. serve_borrowed() gets the events of poll(2); false: nothing came, or the stream is over.
 * No lock held.
 */
int softrdma_reader_borrow(struct softrdma_link *link);
/* the borrower is about to sleep until the socket has input */
void softrdma_reader_sleeps(struct softrdma_link *link);
/*
 * Instead of returning the socket: the waiter will borrow it again soon, and nothing is told to epoll meanwhile. If it
 * does not come back, the progress thread takes the socket after a beat or two.
 */
void softrdma_reader_keep(struct softrdma_link *link);
bool softrdma_reader_serve_borrowed(struct softrdma_link *link, short revents);
void softrdma_reader_return(struct softrdma_link *link);

/* --- for the other files of the engine; the link's lock is held --- */

/* the caller borrows the socket; false: another thread has it */
bool softrdma_reader_borrow_locked(struct softrdma_connection *conn);
void softrdma_reader_return_locked(struct softrdma_connection *conn);
/* the socket is about to be closed: no poller has it */
void softrdma_reader_leave(struct softrdma_connection *conn);

#endif /* SOFTRDMA_READER_H */
