/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* pending_sockets.c -- listeners and pending (half-open) connections, and their share of the progress thread's time */

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/pending_sockets.h"

/* pending sockets that have their turn between two looks, and the time after which no further one begins */
#define TURNS 8
#define TURN_NS 500000u

/* pending sockets get one SHARE-th of the time, and may be this far ahead of it */
#define SHARE 3
#define AHEAD_NS 1000000u
/* this applies for this long after connections had work; else pending sockets are not held up */
#define GIVE_WAY_NS 1000000000u
/* the longest pause: connections that had no work meanwhile have not used the time */
#define PAUSE_MAX_NS 100000000u

static struct pending_sockets {
	struct softrdma_watched watched; /* all of them, as one */
	int epoll_of_all;
	int epoll_fd;

	uint64_t look;  /* at all connections, and once at pending sockets */
	bool one_waits; /* a pending socket waits for another look, and later ones wait with it */
	bool one_asks;  /* one has begun to wait, so the other engines have to look, too */

	uint64_t give_way_until_ns;
	uint64_t paid_until_ns;   /* when the time that they have used is down to their share */
	uint64_t paused_until_ns; /* 0: no pause */
} pending_sockets = { .epoll_fd = -1 };

/* true if connections had something to do since the last charge; any thread */
static atomic_bool connections_busy;

static void
after_fork(void)
{
	pending_sockets = (struct pending_sockets){ .epoll_fd = -1 };
	atomic_store_explicit(&connections_busy, false, memory_order_relaxed);
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

static bool
may_come(bool may)
{
	struct epoll_event ev = { .events = may ? EPOLLIN : 0, .data.ptr = &pending_sockets.watched };
	return epoll_ctl(pending_sockets.epoll_of_all, EPOLL_CTL_MOD, pending_sockets.epoll_fd, &ev) == 0;
}

static void
charge(uint64_t begin_ns, uint64_t end_ns)
{
	if (pending_sockets.paid_until_ns < begin_ns)
		pending_sockets.paid_until_ns = begin_ns;
	pending_sockets.paid_until_ns += SHARE * (end_ns - begin_ns);
	if (pending_sockets.paid_until_ns > end_ns + PAUSE_MAX_NS)
		pending_sockets.paid_until_ns = end_ns + PAUSE_MAX_NS;
	if (atomic_exchange_explicit(&connections_busy, false, memory_order_relaxed))
		pending_sockets.give_way_until_ns = end_ns + GIVE_WAY_NS;
	bool ahead = pending_sockets.paid_until_ns > end_ns + AHEAD_NS;
	if (ahead && end_ns < pending_sockets.give_way_until_ns && may_come(false))
		pending_sockets.paused_until_ns = pending_sockets.paid_until_ns;
}

static bool
take_event(struct epoll_event *event)
{
	int count;
	do
		count = epoll_wait(pending_sockets.epoll_fd, event, 1, 0);
	while (count < 0 && errno == EINTR);
	return count == 1;
}

/* a look of this engine means nothing before the others have looked, so pending sockets pause until then */
static void
await_others(uint64_t now_ns)
{
	softrdma_engine_ask_others();
	if (pending_sockets.paused_until_ns == 0 && !softrdma_engine_others_have_looked() && may_come(false))
		pending_sockets.paused_until_ns = now_ns;
}

static void
handle(struct softrdma_watched *watched, uint32_t events_of_all)
{
	(void)watched;
	(void)events_of_all;
	const uint64_t begin_ns = softrdma_now_ns();
	uint64_t now_ns = begin_ns;
	struct epoll_event event;
	if (softrdma_engine_others_have_looked())
		pending_sockets.look++;
	pending_sockets.one_waits = pending_sockets.one_asks = false;
	/* one event at a time: a signature of TLS can take milliseconds, and an event that is taken must be handled */
	for (int turn = 0; turn < TURNS && now_ns - begin_ns < TURN_NS && !pending_sockets.one_waits &&
		take_event(&event);
		turn++) {
		struct softrdma_watched *pending = event.data.ptr;
		pending->handle(pending, event.events);
		now_ns = softrdma_now_ns();
	}
	charge(begin_ns, now_ns);
	if (pending_sockets.one_asks)
		await_others(now_ns);
}

int
softrdma_pending_sockets_open(int epoll_of_all)
{
	pending_sockets = (struct pending_sockets){ .watched.handle = handle, .epoll_of_all = epoll_of_all };
	pending_sockets.epoll_fd = softrdma_fork_owned(epoll_create1(EPOLL_CLOEXEC));
	if (pending_sockets.epoll_fd < 0)
		return errno;
	/* level-triggered: it is ready as long as one of them is */
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &pending_sockets.watched };
	if (epoll_ctl(epoll_of_all, EPOLL_CTL_ADD, pending_sockets.epoll_fd, &ev) == 0)
		return 0;
	int ret = errno;
	softrdma_pending_sockets_close();
	return ret;
}

void
softrdma_pending_sockets_close(void)
{
	softrdma_fork_close(pending_sockets.epoll_fd);
	pending_sockets.epoll_fd = -1;
}

static int
control(int op, int fd, struct softrdma_watched *watched)
{
	struct epoll_event ev = { .events = SOFTRDMA_WATCHED_EVENTS, .data.ptr = watched };
	return epoll_ctl(pending_sockets.epoll_fd, op, fd, &ev) == 0 ? 0 : errno;
}

int
softrdma_pending_sockets_watch(int fd, struct softrdma_watched *watched)
{
	return control(EPOLL_CTL_ADD, fd, watched);
}

int
softrdma_pending_sockets_look_again(int fd, struct softrdma_watched *watched)
{
	return control(EPOLL_CTL_MOD, fd, watched);
}

void
softrdma_pending_sockets_forget(int fd, struct softrdma_watched *watched)
{
	control(EPOLL_CTL_DEL, fd, NULL);
	softrdma_engine_retire(watched);
}

void
softrdma_pending_sockets_unwatch(int fd, struct softrdma_watched *watched)
{
	softrdma_pending_sockets_forget(fd, watched);
	softrdma_fork_close(fd);
}

/* in a look, pending sockets may come before connections: only the look after the next has surely seen those */
uint64_t
softrdma_pending_sockets_look_after_next(void)
{
	pending_sockets.one_asks = true;
	return pending_sockets.look + 2;
}

bool
softrdma_pending_sockets_is_time(uint64_t look, int fd, struct softrdma_watched *watched)
{
	if (pending_sockets.look >= look)
		return true;
	pending_sockets.one_waits = true;
	/* if it cannot be handled again, it does not wait */
	return softrdma_pending_sockets_look_again(fd, watched) != 0;
}

void
softrdma_pending_sockets_give_way(const struct softrdma_engine *engine)
{
	if (engine != softrdma_engine_first())
		return;
	/* many threads come here for each input, and the flag is rarely unset: a load is cheaper than a store */
	if (!atomic_load_explicit(&connections_busy, memory_order_relaxed))
		atomic_store_explicit(&connections_busy, true, memory_order_relaxed);
}

uint64_t
softrdma_pending_sockets_pause(uint64_t now_ns)
{
	if (pending_sockets.paused_until_ns && !softrdma_engine_others_have_looked())
		return 0; /* each engine that has looked wakes this thread */
	if (pending_sockets.paused_until_ns && now_ns >= pending_sockets.paused_until_ns && may_come(true))
		pending_sockets.paused_until_ns = 0;
	return pending_sockets.paused_until_ns;
}
