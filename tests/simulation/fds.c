/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* fds.c -- simulated descriptors: the table, eventfd, and waiting */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fds.h"
#include "fiber.h"
#include "sim.h"

/* a wait is interrupted after this time, so a wait for an event that never comes also continues */
#define POLL_NS_MAX (2 * SIM_S)

struct fd fds[FDS_MAX];

struct fd *
fds_get(int number)
{
	SIM_CHECK(number >= FD_FIRST && number < FD_FIRST + FDS_MAX, "a descriptor of something else");
	struct fd *fd = &fds[number - FD_FIRST];
	SIM_CHECK(fd->kind != KIND_NONE, "a descriptor is used that has been closed");
	return fd;
}

int
fds_number(const struct fd *fd)
{
	return FD_FIRST + (int)(fd - fds);
}

struct fd *
fds_open(enum kind kind)
{
	struct fd *fd = fds;

	while (fd->kind != KIND_NONE)
		SIM_CHECK(++fd < fds + FDS_MAX, "too many descriptors");
	memset(fd, 0, sizeof(*fd));
	fd->kind = kind;
	return fd;
}

unsigned
fds_count(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < FDS_MAX; i++)
		count += fds[i].kind != KIND_NONE;
	return count;
}

/* --- eventfd --- */

int __wrap_eventfd(unsigned count, int flags);
ssize_t __real_read(int number, void *buf, size_t len);
ssize_t __wrap_read(int number, void *buf, size_t len);
ssize_t __real_write(int number, const void *buf, size_t len);
ssize_t __wrap_write(int number, const void *buf, size_t len);

int
__wrap_eventfd(unsigned count, int flags)
{
	struct fd *fd = fds_open(KIND_EVENT);

	fd->count = count;
	fd->flags = flags;
	return fds_number(fd);
}

ssize_t
__wrap_write(int number, const void *buf, size_t len)
{
	uint64_t value;

	if (number < FD_FIRST)
		return __real_write(number, buf, len);
	struct fd *fd = fds_get(number);
	if (fds_is_interrupted())
		return -1;
	memcpy(&value, buf, sizeof(value));
	fd->count += value;
	fds_wake(fd);
	return sizeof(value);
}

ssize_t
__wrap_read(int number, void *buf, size_t len)
{
	if (number < FD_FIRST)
		return __real_read(number, buf, len);
	struct fd *fd = fds_get(number);
	if (fds_is_interrupted())
		return -1;
	if (fd->count == 0) {
		SIM_CHECK(fd->flags & EFD_NONBLOCK, "an event is taken from a descriptor that has none");
		errno = EAGAIN;
		return -1;
	}
	const uint64_t value = fd->flags & EFD_SEMAPHORE ? 1 : fd->count;
	fd->count -= value;
	memcpy(buf, &value, sizeof(value));
	return sizeof(value);
}

/* --- waiting --- */

int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int number, int op, int other, struct epoll_event *ev);
int __wrap_epoll_wait(int number, struct epoll_event *events, int max, int timeout_ms);
int __wrap_poll(struct pollfd *pfds, nfds_t count, int timeout_ms);
int __wrap_ppoll(struct pollfd *pfds, nfds_t count, const struct timespec *limit, const sigset_t *signals);

int
__wrap_epoll_create1(int flags)
{
	(void)flags;
	return fds_number(fds_open(KIND_EPOLL));
}

int
__wrap_epoll_ctl(int number, int op, int other, struct epoll_event *ev)
{
	struct fd *fd = fds_get(other);

	(void)fds_get(number);
	fd->epoll = number;
	fd->watched = op != EPOLL_CTL_DEL;
	if (!fd->watched)
		return 0;
	fd->mask = ev->events;
	fd->data = ev->data.ptr;
	/* an event that is there already is reported again */
	if (fds_events(fd) & (fd->mask | EPOLLERR | EPOLLHUP))
		fds_wake(fd);
	return 0;
}

/* the events that an epoll reports of this descriptor now */
static uint32_t
news_of(const struct fd *fd, int epoll)
{
	if (fd->kind == KIND_NONE || !fd->watched || fd->epoll != epoll ||
		(!fd->news && (fd->mask & EPOLLET)))
		return 0;
	return fds_events(fd) & (fd->mask | EPOLLERR | EPOLLHUP);
}

bool
fds_has_report(const struct fd *epoll)
{
	const int number = fds_number(epoll);

	for (unsigned i = 0; i < FDS_MAX; i++)
		if (news_of(&fds[i], number))
			return true;
	return false;
}

static int
report(int epoll, struct epoll_event *events, int max)
{
	int count = 0;
	uint32_t first = sim_below(FDS_MAX);

	for (uint32_t i = 0; i < FDS_MAX && count < max; i++) {
		struct fd *fd = &fds[(first + i) % FDS_MAX];
		uint32_t now = news_of(fd, epoll);
		if (fd->epoll == epoll)
			fd->news = false;
		if (now == 0)
			continue;
		events[count++] = (struct epoll_event){ .events = now, .data.ptr = fd->data };
	}
	return count;
}

int
__wrap_epoll_wait(int number, struct epoll_event *events, int max, int timeout_ms)
{
	const uint64_t end_ns = timeout_ms < 0 ? SIM_NEVER : sim.now_ns + (uint64_t)timeout_ms * SIM_MS;
	int count;

	(void)fds_get(number);
	if (fds_is_interrupted())
		return -1;
	if (timeout_ms == 0)
		fiber_yield();
	/* one at a time, or all: both are allowed */
	if (sim_chance(300))
		max = 1;
	while ((count = report(number, events, max)) == 0 && sim.now_ns < end_ns)
		fiber_wait(fds, end_ns);
	return count;
}

static int
look(struct pollfd *pfds, nfds_t count)
{
	int ready = 0;

	for (nfds_t i = 0; i < count; i++) {
		pfds[i].revents = 0;
		if (pfds[i].fd < FD_FIRST)
			continue;
		/* the values are those of epoll */
		uint32_t wanted = (uint32_t)(uint16_t)pfds[i].events | EPOLLERR | EPOLLHUP;
		/* another thread may close a descriptor that is being polled; the waiter then sees that */
		const struct fd *fd = &fds[pfds[i].fd - FD_FIRST];
		uint32_t now = fd->kind == KIND_NONE ? EPOLLHUP | EPOLLIN : fds_events(fd);
		pfds[i].revents = (short)(now & wanted);
		ready += pfds[i].revents != 0;
	}
	return ready;
}

int
__wrap_poll(struct pollfd *pfds, nfds_t count, int timeout_ms)
{
	const uint64_t end_ns = sim.now_ns + sim_delay_ns(POLL_NS_MAX);
	int ready;

	(void)timeout_ms;
	while ((ready = look(pfds, count)) == 0) {
		if (!fiber_wait(fds, end_ns)) {
			errno = EINTR;
			return -1;
		}
	}
	return ready;
}

/* signals come only here: the device holds them at other times */
int
__wrap_ppoll(struct pollfd *pfds, nfds_t count, const struct timespec *limit, const sigset_t *signals)
{
	(void)signals;
	return limit ? look(pfds, count) : __wrap_poll(pfds, count, -1);
}
