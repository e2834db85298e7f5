/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* reader.c -- which thread reads the socket of a connection */

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/env.h"
#include "softrdma/base/pause.h"
#include "softrdma/bounds.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/links.h"
#include "softrdma/engine/reader.h"
#include "softrdma/engine/send.h"
#include "softrdma/wire/stream.h"

/* number of polls in a row without success after which a poller owns a socket (busy polling) */
#define OWN_AFTER 64
/* how long no poller may own a socket that the last one has let wait; twice as long each time that it happens again */
#define OWN_PAUSE_MIN_NS (10 * SOFTRDMA_NS_PER_MS)
#define OWN_PAUSE_MAX_NS (1000 * SOFTRDMA_NS_PER_MS)
/* if that has not happened for this time, the next pause is a short one */
#define OWN_FORGIVEN_NS (10000 * SOFTRDMA_NS_PER_MS)
/* a waiter comes back late for a socket after this many times the duration of a spin */
#define LATE 4

/* sockets that pollers own; a hint for threads that are about to wait */
static atomic_int owned;

/*
 * The socket has one reader at a time: it goes from the progress thread to another thread, and back. A waiter may leave it,
 * and come back for it.
 */
static void
set_reader(struct softrdma_connection *conn, enum softrdma_reader reader)
{
	const enum softrdma_reader before = conn->reader;
	const bool leaves = before == SOFTRDMA_READER_BORROWER && reader == SOFTRDMA_READER_ABSENT;
	const bool comes_back = before == SOFTRDMA_READER_ABSENT && reader == SOFTRDMA_READER_BORROWER;
	assert(before != reader);
	assert(before == SOFTRDMA_READER_ENGINE || reader == SOFTRDMA_READER_ENGINE || leaves || comes_back);
	conn->reader = reader;
	const int change = (reader == SOFTRDMA_READER_POLLER) - (before == SOFTRDMA_READER_POLLER);
	if (change)
		atomic_fetch_add_explicit(&owned, change, memory_order_relaxed);
}

/* the progress thread looks at each beat of pollers whether the reader has stopped, or no longer does so */
static void
set_checked(struct softrdma_connection *conn, bool checked)
{
	softrdma_engine_needs_beat(&conn->watched, SOFTRDMA_BEAT_POLLERS, checked);
}

/* --- readers that let input wait --- */

/* true if bytes wait for a thread to receive them */
static bool
has_input(const struct softrdma_connection *conn)
{
	static const struct timespec no_time;
	struct pollfd pfd = { .fd = conn->fd, .events = POLLIN };
	return softrdma_stream_has_input(conn->stream) || ppoll(&pfd, 1, &no_time, NULL) > 0;
}

/*
 * The poller has stopped and let bytes wait, or a waiter has not come back, or late. It may wait for something else now, such
 * as the descriptor of its channel or a byte in its memory, or compute. A program that does so must not own the socket again
 * and again.
 */
static void
punish(struct softrdma_connection *conn, uint64_t now_ns)
{
	const bool again = now_ns < conn->own_again_ns + OWN_FORGIVEN_NS;
	conn->own_pause_ns =
		softrdma_pause_next(again ? conn->own_pause_ns : 0, OWN_PAUSE_MIN_NS, OWN_PAUSE_MAX_NS);
	conn->own_again_ns = now_ns + conn->own_pause_ns;
}

/* a waiter looks at a socket that it keeps: if it has done something else meanwhile, the peer's requests have waited for that */
static void
comes_back(struct softrdma_connection *conn)
{
	const uint64_t now_ns = softrdma_now_ns();
	if (now_ns - conn->kept_ns > LATE * softrdma_engine_spin_ns() && has_input(conn))
		punish(conn, now_ns);
	conn->kept_ns = now_ns;
}

/* --- borrowers and pollers of one connection --- */

/* another thread reads the socket from now on; false: epoll failed, and the progress thread goes on reading it */
static bool
give_socket(struct softrdma_connection *conn, enum softrdma_reader reader)
{
	set_reader(conn, reader);
	if (softrdma_connection_watch_again(conn) == 0)
		return true;
	set_reader(conn, SOFTRDMA_READER_ENGINE);
	return false;
}

/* the progress thread reads the socket again; the kernel reports once more what has come in between */
static void
take_socket_back(struct softrdma_connection *conn)
{
	set_reader(conn, SOFTRDMA_READER_ENGINE);
	set_checked(conn, false);
	conn->wants_space = softrdma_send_is_full(conn);
	if (conn->fd >= 0)
		softrdma_connection_watch_again(conn);
}

bool
softrdma_reader_borrow_locked(struct softrdma_connection *conn)
{
	if (conn->fd < 0 || conn->reader != SOFTRDMA_READER_ENGINE)
		return false;
	conn->wants_space = softrdma_send_is_full(conn);
	return give_socket(conn, SOFTRDMA_READER_BORROWER);
}

void
softrdma_reader_return_locked(struct softrdma_connection *conn)
{
	assert(conn->reader == SOFTRDMA_READER_BORROWER);
	take_socket_back(conn);
}

void
softrdma_reader_leave(struct softrdma_connection *conn)
{
	set_checked(conn, false);
	if (conn->reader == SOFTRDMA_READER_POLLER || conn->reader == SOFTRDMA_READER_ABSENT)
		set_reader(conn, SOFTRDMA_READER_ENGINE);
}

/* from now on the poller reads this socket alone; at each beat the progress thread checks whether it has stopped */
static void
own(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	if (!give_socket(conn, SOFTRDMA_READER_POLLER))
		return;
	atomic_store_explicit(&link->requester.cq->has_owned, true, memory_order_relaxed);
	atomic_store_explicit(&link->responder.cq->has_owned, true, memory_order_relaxed);
	set_checked(conn, true);
}

/* the progress thread reads the socket of a thread that does not read it at the moment */
static void
return_from_absent(struct softrdma_connection *conn)
{
	conn->idle_polls = 0;
	take_socket_back(conn);
	/* no edge reports what TLS or records hold already: the poller has left it for its next poll */
	if (softrdma_stream_has_input(conn->stream))
		softrdma_engine_queue(&conn->watched);
}

static void
return_from_poller(struct softrdma_connection *conn)
{
	if (conn->reader == SOFTRDMA_READER_POLLER)
		return_from_absent(conn);
}

void
softrdma_reader_stop_polling(struct softrdma_cq *cq)
{
	SOFTRDMA_NO_CANCEL;
	if (!atomic_load_explicit(&cq->has_owned, memory_order_relaxed))
		return;
	atomic_store_explicit(&cq->has_owned, false, memory_order_relaxed);
	pthread_mutex_lock(&cq->links_lock);
	for (unsigned i = 0; i < cq->link_count; i++) {
		pthread_mutex_lock(&cq->links[i]->lock);
		return_from_poller(softrdma_connection_of(cq->links[i]));
		pthread_mutex_unlock(&cq->links[i]->lock);
	}
	pthread_mutex_unlock(&cq->links_lock);
}

/* true if a poller that goes on polling should own the socket */
static bool
may_own(const struct softrdma_connection *conn)
{
	return conn->reader == SOFTRDMA_READER_ENGINE && conn->fd >= 0 && conn->idle_polls >= OWN_AFTER &&
		conn->idle_polls % OWN_AFTER == 0 && softrdma_now_ns() >= conn->own_again_ns;
}

static void
poll_connection(struct softrdma_connection *conn)
{
	struct softrdma_link *link = &conn->link;
	if (pthread_mutex_trylock(&link->lock) != 0)
		return; /* another thread serves it */
	if (conn->fd >= 0) {
		if (conn->reader == SOFTRDMA_READER_ABSENT)
			comes_back(conn);
		conn->polls++;
		conn->idle_polls = softrdma_connection_serve(conn) ? 0 : conn->idle_polls + 1;
		if (may_own(conn))
			own(conn);
	}
	pthread_mutex_unlock(&link->lock);
}

void
softrdma_reader_poll(struct softrdma_cq *cq)
{
	SOFTRDMA_NO_CANCEL;
	if (pthread_mutex_trylock(&cq->links_lock) != 0)
		return;
	if (cq->link_count <= SOFTRDMA_POLLED_LINKS_MAX) {
		for (unsigned i = 0; i < cq->link_count; i++)
			poll_connection(softrdma_connection_of(cq->links[i]));
	}
	pthread_mutex_unlock(&cq->links_lock);
}

void
softrdma_reader_nap(struct softrdma_cq *cq)
{
	SOFTRDMA_NO_CANCEL;
	static const struct timespec limit = { .tv_nsec = SOFTRDMA_NAP_NS };
	struct pollfd pfds[SOFTRDMA_POLLED_LINKS_MAX];
	nfds_t count = 0;
	/* held meanwhile, so that no connection is freed; a socket that is closed and opened anew only ends the sleep */
	if (pthread_mutex_trylock(&cq->links_lock) != 0)
		return;
	if (cq->link_count <= SOFTRDMA_POLLED_LINKS_MAX) {
		for (; count < cq->link_count; count++) {
			pthread_mutex_lock(&cq->links[count]->lock);
			const int fd = softrdma_connection_of(cq->links[count])->fd;
			pthread_mutex_unlock(&cq->links[count]->lock);
			pfds[count] = (struct pollfd){ .fd = fd, .events = POLLIN };
		}
		ppoll(pfds, count, &limit, NULL);
	}
	pthread_mutex_unlock(&cq->links_lock);
}

/* the waiter has come back for its socket: that makes a difference to epoll only if room is waited for */
static bool
borrow_again(struct softrdma_connection *conn)
{
	if (conn->reader != SOFTRDMA_READER_ABSENT)
		return false;
	comes_back(conn);
	set_reader(conn, SOFTRDMA_READER_BORROWER);
	return true;
}

int
softrdma_reader_borrow(struct softrdma_link *link)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	int fd = -1;
	pthread_mutex_lock(&link->lock);
	/* poll(2) does not see bytes that TLS holds */
	bool may = !conn->flush_running && !softrdma_stream_has_input(conn->stream);
	if (may && (borrow_again(conn) || softrdma_reader_borrow_locked(conn)))
		fd = conn->fd;
	else if (conn->reader == SOFTRDMA_READER_ABSENT)
		return_from_absent(conn);
	pthread_mutex_unlock(&link->lock);
	return fd;
}

void
softrdma_reader_sleeps(struct softrdma_link *link)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	pthread_mutex_lock(&link->lock);
	if (conn->reader == SOFTRDMA_READER_BORROWER)
		set_checked(conn, false);
	pthread_mutex_unlock(&link->lock);
}

bool
softrdma_reader_serve_borrowed(struct softrdma_link *link, short revents)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	pthread_mutex_lock(&link->lock);
	if (revents & (POLLRDHUP | POLLHUP | POLLERR))
		conn->hung_up = true;
	bool progress = conn->fd >= 0 && softrdma_connection_serve(conn);
	pthread_mutex_unlock(&link->lock);
	return progress;
}

void
softrdma_reader_return(struct softrdma_link *link)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	pthread_mutex_lock(&link->lock);
	softrdma_reader_return_locked(conn);
	pthread_mutex_unlock(&link->lock);
}

void
softrdma_reader_keep(struct softrdma_link *link)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	pthread_mutex_lock(&link->lock);
	/* what waits already must not wait for a beat; so must no poller that has done so before */
	const bool waits = softrdma_send_is_full(conn) || softrdma_stream_has_input(conn->stream);
	const uint64_t now_ns = softrdma_now_ns();
	if (conn->fd < 0 || waits || now_ns < conn->own_again_ns) {
		softrdma_reader_return_locked(conn);
	} else {
		conn->kept_ns = now_ns;
		set_reader(conn, SOFTRDMA_READER_ABSENT);
		set_checked(conn, true);
		conn->polls++;
	}
	pthread_mutex_unlock(&link->lock);
}

static void
return_one(struct softrdma_connection *conn, const void *arg)
{
	(void)arg;
	return_from_poller(conn);
}

void
softrdma_reader_about_to_wait(void)
{
	if (atomic_load_explicit(&owned, memory_order_relaxed) > 0)
		softrdma_links_for_each(return_one, NULL);
}

static void
look_after_poller(struct softrdma_connection *conn, uint64_t now_ns)
{
	if (conn->reader != SOFTRDMA_READER_POLLER && conn->reader != SOFTRDMA_READER_ABSENT)
		return;
	if (conn->polls != conn->polls_seen) {
		conn->polls_seen = conn->polls;
		return;
	}
	if (has_input(conn))
		punish(conn, now_ns);
	return_from_absent(conn);
}

/* a poller that still polls holds the lock nearly all the time, so a connection whose lock is taken is left out */
void
softrdma_reader_check(struct softrdma_connection *conn, uint64_t now_ns)
{
	if (pthread_mutex_trylock(&conn->link.lock) != 0)
		return;
	look_after_poller(conn, now_ns);
	pthread_mutex_unlock(&conn->link.lock);
}
