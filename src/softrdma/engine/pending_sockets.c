/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* pending_sockets.c -- listeners and pending (half-open) connections, and their turns of the progress thread */

#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/pending_sockets.h"

/* the time after which no further one begins before the next look at connections: as long as a turn of one of those */
#define TURN_NS 250000u

static struct pending_sockets {
	struct softrdma_watched watched; /* all of them, as one */
	int epoll_fd;

	uint64_t look;  /* at all connections, and once at pending sockets */
	bool one_waits; /* a pending socket waits for another look, and later ones wait with it */
	bool one_asks;  /* one has begun to wait, so the other engines have to look, too */
	bool paused;    /* until the other engines have looked */
} pending_sockets = { .epoll_fd = -1 };

static void
after_fork(void)
{
	pending_sockets = (struct pending_sockets){ .epoll_fd = -1 };
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

static bool
may_come(bool may)
{
	const uint32_t events = may ? EPOLLIN : 0;
	return softrdma_engine_watch_again(&pending_sockets.watched, pending_sockets.epoll_fd, events) == 0;
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
await_others(void)
{
	softrdma_engine_ask_others();
	if (!pending_sockets.paused && !softrdma_engine_others_have_looked())
		pending_sockets.paused = may_come(false);
}

/* serves those that are ready, for one turn. While no connection has anything to do, the next turn follows at once. */
static void
handle(struct softrdma_watched *watched, uint32_t events_of_all)
{
	(void)watched;
	(void)events_of_all;
	const uint64_t begin_ns = softrdma_now_ns();
	struct epoll_event event;
	if (softrdma_engine_others_have_looked())
		pending_sockets.look++;
	pending_sockets.one_waits = pending_sockets.one_asks = false;
	/* one event at a time: a signature of TLS can take milliseconds, and an event that is taken must be handled */
	do {
		if (!take_event(&event))
			break;
		struct softrdma_watched *pending = event.data.ptr;
		pending->handle(pending, event.events);
	} while (!pending_sockets.one_waits && softrdma_now_ns() - begin_ns < TURN_NS);
	if (pending_sockets.one_asks)
		await_others();
}

int
softrdma_pending_sockets_open(void)
{
	pending_sockets = (struct pending_sockets){ .watched.handle = handle };
	pending_sockets.epoll_fd = softrdma_fork_owned(epoll_create1(EPOLL_CLOEXEC));
	if (pending_sockets.epoll_fd < 0)
		return errno;
	/* level-triggered: it is ready as long as one of them is */
	int ret = softrdma_engine_watch(&pending_sockets.watched, pending_sockets.epoll_fd, EPOLLIN);
	if (ret)
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

uint64_t
softrdma_pending_sockets_pause(uint64_t now_ns)
{
	if (!pending_sockets.paused || !softrdma_engine_others_have_looked())
		return 0; /* each engine that has looked wakes this thread */
	pending_sockets.paused = !may_come(true);
	return pending_sockets.paused ? now_ns : 0;
}
