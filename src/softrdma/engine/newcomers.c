/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* newcomers.c -- listeners and pending (half-open) connections, and their share of the progress thread's time */

#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/newcomers.h"

/* newcomers that have their turn between two looks at the connections, and the time after which no further one begins */
#define TURNS 8
#define TURN_NS 500000u

/* newcomers get one SHARE-th of the time, and may be this far ahead of it */
#define SHARE 3
#define AHEAD_NS 1000000u
/* this applies for this long after connections had work; else newcomers are not held up */
#define GIVE_WAY_NS 1000000000u
/* the longest pause: connections that had no work meanwhile have not used the time */
#define PAUSE_MAX_NS 100000000u

static struct newcomers {
	struct softrdma_watched watched; /* all of them, as one */
	int epoll_of_all;
	int epoll_fd;

	uint64_t look;  /* at all connections, and once at newcomers */
	bool one_waits; /* a newcomer waits for another look, and later ones wait with it */

	uint64_t give_way_until_ns;
	uint64_t paid_until_ns;   /* when the time that they have used is down to their share */
	uint64_t paused_until_ns; /* 0: no pause */
} newcomers = { .epoll_fd = -1 };

static bool connections_busy; /* true if connections had something to do since the last charge; any thread */

void
softrdma_newcomers_after_fork(void)
{
	newcomers = (struct newcomers){ .epoll_fd = -1 };
	__atomic_store_n(&connections_busy, false, __ATOMIC_RELAXED);
}

static bool
may_come(bool may)
{
	struct epoll_event ev = { .events = may ? EPOLLIN : 0, .data.ptr = &newcomers.watched };
	return epoll_ctl(newcomers.epoll_of_all, EPOLL_CTL_MOD, newcomers.epoll_fd, &ev) == 0;
}

static void
charge(uint64_t begin_ns, uint64_t end_ns)
{
	if (newcomers.paid_until_ns < begin_ns)
		newcomers.paid_until_ns = begin_ns;
	newcomers.paid_until_ns += SHARE * (end_ns - begin_ns);
	if (newcomers.paid_until_ns > end_ns + PAUSE_MAX_NS)
		newcomers.paid_until_ns = end_ns + PAUSE_MAX_NS;
	if (__atomic_exchange_n(&connections_busy, false, __ATOMIC_RELAXED))
		newcomers.give_way_until_ns = end_ns + GIVE_WAY_NS;
	bool ahead = newcomers.paid_until_ns > end_ns + AHEAD_NS;
	if (ahead && end_ns < newcomers.give_way_until_ns && may_come(false))
		newcomers.paused_until_ns = newcomers.paid_until_ns;
}

static bool
take_event(struct epoll_event *event)
{
	int count;
	do
		count = epoll_wait(newcomers.epoll_fd, event, 1, 0);
	while (count < 0 && errno == EINTR);
	return count == 1;
}

static void
handle(struct softrdma_watched *watched, uint32_t events_of_all)
{
	(void)watched;
	(void)events_of_all;
	const uint64_t begin_ns = softrdma_now_ns();
	uint64_t now_ns = begin_ns;
	struct epoll_event event;
	newcomers.look++;
	newcomers.one_waits = false;
	/* one event at a time: a signature of TLS can take milliseconds, and an event that is taken must be handled */
	for (int turn = 0;
		turn < TURNS && now_ns - begin_ns < TURN_NS && !newcomers.one_waits && take_event(&event);
		turn++) {
		struct softrdma_watched *newcomer = event.data.ptr;
		newcomer->handle(newcomer, event.events);
		now_ns = softrdma_now_ns();
	}
	charge(begin_ns, now_ns);
}

int
softrdma_newcomers_open(int epoll_of_all)
{
	newcomers = (struct newcomers){ .watched.handle = handle, .epoll_of_all = epoll_of_all };
	newcomers.epoll_fd = softrdma_fork_owned(epoll_create1(EPOLL_CLOEXEC));
	if (newcomers.epoll_fd < 0)
		return errno;
	/* level-triggered: it is ready as long as one of them is */
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &newcomers.watched };
	if (epoll_ctl(epoll_of_all, EPOLL_CTL_ADD, newcomers.epoll_fd, &ev) == 0)
		return 0;
	int ret = errno;
	softrdma_newcomers_close();
	return ret;
}

void
softrdma_newcomers_close(void)
{
	softrdma_fork_close(newcomers.epoll_fd);
	newcomers.epoll_fd = -1;
}

static int
control(int op, int fd, struct softrdma_watched *watched)
{
	struct epoll_event ev = { .events = SOFTRDMA_WATCHED_EVENTS, .data.ptr = watched };
	return epoll_ctl(newcomers.epoll_fd, op, fd, &ev) == 0 ? 0 : errno;
}

int
softrdma_newcomers_watch(int fd, struct softrdma_watched *watched)
{
	return control(EPOLL_CTL_ADD, fd, watched);
}

int
softrdma_newcomers_look_again(int fd, struct softrdma_watched *watched)
{
	return control(EPOLL_CTL_MOD, fd, watched);
}

void
softrdma_newcomers_forget(int fd, struct softrdma_watched *watched)
{
	control(EPOLL_CTL_DEL, fd, NULL);
	softrdma_engine_retire(watched);
}

void
softrdma_newcomers_unwatch(int fd, struct softrdma_watched *watched)
{
	softrdma_newcomers_forget(fd, watched);
	softrdma_fork_close(fd);
}

/* in a look newcomers may come before connections: so only the look after the next has surely seen the connections */
uint64_t
softrdma_newcomers_look_after_next(void)
{
	return newcomers.look + 2;
}

bool
softrdma_newcomers_is_time(uint64_t look, int fd, struct softrdma_watched *watched)
{
	if (newcomers.look >= look)
		return true;
	newcomers.one_waits = true;
	/* if it cannot be handled again, it does not wait */
	return softrdma_newcomers_look_again(fd, watched) != 0;
}

void
softrdma_newcomers_give_way(void)
{
	/* many threads come here for each input, and the flag is rarely unset: a load is cheaper than a store */
	if (!__atomic_load_n(&connections_busy, __ATOMIC_RELAXED))
		__atomic_store_n(&connections_busy, true, __ATOMIC_RELAXED);
}

uint64_t
softrdma_newcomers_pause(uint64_t now_ns)
{
	if (newcomers.paused_until_ns && now_ns >= newcomers.paused_until_ns && may_come(true))
		newcomers.paused_until_ns = 0;
	return newcomers.paused_until_ns;
}
