/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* fds.c -- simulated descriptors: the table, eventfd, and waiting */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
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

/* --- time of processors --- */

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

/* threads compute now and then; all are fibers of one thread here */
int
__wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	static uint64_t used_ns;

	if (clock != CLOCK_THREAD_CPUTIME_ID)
		return __real_clock_gettime(clock, ts);
	used_ns += sim_chance(100) ? 100 * SIM_MS : 1000;
	ts->tv_sec = (time_t)(used_ns / SIM_S);
	ts->tv_nsec = (long)(used_ns % SIM_S);
	return 0;
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

/* what an epoll watches; an epoll may itself be watched, and a descriptor by several */
static struct watch {
	int epoll, fd; /* numbers; 0: none */
	uint32_t mask;
	void *data;
	uint64_t place; /* in the epoll's list of what may be ready, the lowest first; 0: it is not there */
} watches[4 * FDS_MAX];

static uint64_t last_place;

static struct watch *
find_watch(int epoll, int fd)
{
	for (unsigned i = 0; i < 4 * FDS_MAX; i++) {
		if (watches[i].epoll == epoll && watches[i].fd == fd)
			return &watches[i];
	}
	return NULL;
}

/* the number by which it is watched */
static int
original(int epoll)
{
	const struct fd *fd = fds_get(epoll);

	return fd->copy_of ? fd->copy_of : epoll;
}

void
fds_reset(void)
{
	memset(fds, 0, sizeof(fds));
	memset(watches, 0, sizeof(watches));
	last_place = 0;
}

static void
enter_list(struct watch *watch)
{
	if (watch->place == 0)
		watch->place = ++last_place;
}

int
fds_copy_epoll(int number)
{
	struct fd *fd = fds_open(KIND_EPOLL);

	fd->copy_of = original(number);
	return fds_number(fd);
}

void
fds_wake(struct fd *fd)
{
	for (unsigned i = 0; i < 4 * FDS_MAX; i++) {
		if (watches[i].fd == fds_number(fd))
			enter_list(&watches[i]);
	}
	fiber_wake(fds);
}

void
fds_wake_for(const struct fd *fd, uint32_t events)
{
	for (unsigned i = 0; i < 4 * FDS_MAX; i++) {
		if (watches[i].fd == fds_number(fd) && (watches[i].mask & events))
			enter_list(&watches[i]);
	}
	fiber_wake(fds);
}

bool
fds_is_watched(const struct fd *fd)
{
	for (unsigned i = 0; i < 4 * FDS_MAX; i++) {
		if (watches[i].fd == fds_number(fd))
			return true;
	}
	return false;
}

void
fds_close(struct fd *fd)
{
	const int number = fds_number(fd);

	for (unsigned i = 0; i < 4 * FDS_MAX; i++) {
		if (watches[i].fd == number || watches[i].epoll == number)
			watches[i] = (struct watch){ 0 };
	}
	fd->kind = KIND_NONE;
}

int
__wrap_epoll_ctl(int number, int op, int other, struct epoll_event *ev)
{
	const struct fd *fd = fds_get(other);
	struct watch *watch = find_watch(original(number), other);

	if (op == EPOLL_CTL_ADD) {
		SIM_CHECK(watch == NULL, "an epoll gets a descriptor twice");
		watch = find_watch(0, 0);
		SIM_CHECK(watch, "too many descriptors in epolls");
	}
	SIM_CHECK(watch, "an epoll does not have the descriptor");
	if (op == EPOLL_CTL_DEL) {
		*watch = (struct watch){ 0 };
		return 0;
	}
	/* in the list, it keeps its place */
	*watch = (struct watch){ original(number), other, ev->events, ev->data.ptr, watch->place };
	/* an event that is there already is reported again */
	if (fds_events(fd) & (watch->mask | EPOLLERR | EPOLLHUP)) {
		enter_list(watch);
		fiber_wake(fds);
	}
	return 0;
}

/* the events that an epoll reports of this descriptor now */
static uint32_t
news_of(const struct watch *watch)
{
	return watch->place ? fds_events(fds_get(watch->fd)) & (watch->mask | EPOLLERR | EPOLLHUP) : 0;
}

bool
fds_has_report(const struct fd *epoll)
{
	const int number = original(fds_number(epoll));

	for (unsigned i = 0; i < 4 * FDS_MAX; i++)
		if (watches[i].epoll == number && news_of(&watches[i]))
			return true;
	return false;
}

/* the first one in the list of this epoll, up to the end; or NULL */
static struct watch *
first_in_list(int epoll, uint64_t end)
{
	struct watch *first = NULL;

	for (unsigned i = 0; i < 4 * FDS_MAX; i++) {
		struct watch *watch = &watches[i];
		if (watch->epoll == epoll && watch->place && watch->place <= end) {
			first = watch;
			end = watch->place;
		}
	}
	return first;
}

/* as the kernel: what is reported leaves the list, and goes to its end again unless it is edge-triggered */
static int
report(int number, struct epoll_event *events, int max)
{
	const int epoll = original(number);
	const uint64_t end = last_place;
	struct watch *watch;
	int count = 0;

	while (count < max && (watch = first_in_list(epoll, end)) != NULL) {
		const uint32_t now = news_of(watch);
		watch->place = 0;
		if (now == 0)
			continue;
		events[count++] = (struct epoll_event){ .events = now, .data.ptr = watch->data };
		if (!(watch->mask & EPOLLET))
			enter_list(watch);
	}
	return count;
}

int
__wrap_epoll_wait(int number, struct epoll_event *events, int max, int timeout_ms)
{
	const uint64_t end_ns = timeout_ms < 0 ? SIM_NEVER : sim.now_ns + (uint64_t)timeout_ms * SIM_MS;
	int count;

	(void)fds_get(number);
	/* a signal interrupts only a sleep */
	if (timeout_ms != 0 && fds_is_interrupted())
		return -1;
	if (timeout_ms == 0)
		fiber_yield();
	/* some kernels find nothing while another thread looks, but not if they may sleep */
	if (timeout_ms == 0 && sim_chance(20))
		return 0;
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

	fiber_yield();
	while ((ready = look(pfds, count)) == 0 && timeout_ms != 0) {
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
