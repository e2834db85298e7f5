/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* fds.c -- the descriptors of the simulated processes, their clock and their memory */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "fds.h"
#include "fiber.h"
#include "sim.h"

/* above all real descriptors */
#define FD_FIRST (1 << 20)
#define FDS_MAX 256

/* what a session reads into: at most one for each */
#define BLOCK_SIZE ((size_t)1 << 20)
#define BLOCKS_MAX 32

static struct {
	struct fd fds[FDS_MAX];
	unsigned interrupt;
	uint8_t *blocks; /* mapped once */
	unsigned owner[BLOCKS_MAX];
	bool taken[BLOCKS_MAX];
} all;

static struct fd *
get(int number)
{
	SIM_CHECK(number >= FD_FIRST && number < FD_FIRST + FDS_MAX, "a descriptor of something else");
	struct fd *fd = &all.fds[number - FD_FIRST];
	SIM_CHECK(fd->used, "a descriptor is used that has been closed");
	return fd;
}

void
fds_begin(unsigned interrupt)
{
	memset(all.fds, 0, sizeof(all.fds));
	memset(all.taken, 0, sizeof(all.taken));
	all.interrupt = interrupt;
}

int
fds_open(bool is_link)
{
	int i = 0;

	while (all.fds[i].used)
		SIM_CHECK(++i < FDS_MAX, "too many descriptors");
	all.fds[i] = (struct fd){ .used = true, .is_link = is_link, .group = fiber_group() };
	return FD_FIRST + i;
}

void
fds_close(int number)
{
	get(number)->used = false;
}

void
fds_add(int number, uint64_t count)
{
	struct fd *fd = get(number);

	fd->count += count;
	if (fd->who)
		fiber_wake(fd->who);
}

void
fds_reset(int number)
{
	get(number)->count = 0;
}

uint64_t
fds_events(int number)
{
	return get(number)->count;
}

void
fds_close_all(unsigned group)
{
	for (int i = 0; i < FDS_MAX; i++)
		if (all.fds[i].group == group)
			all.fds[i].used = false;
	for (int i = 0; i < BLOCKS_MAX; i++)
		if (all.owner[i] == group)
			all.taken[i] = false;
}

unsigned
fds_count(unsigned group)
{
	unsigned count = 0;

	for (int i = 0; i < FDS_MAX; i++)
		count += all.fds[i].used && all.fds[i].group == group;
	for (int i = 0; i < BLOCKS_MAX; i++)
		count += all.taken[i] && all.owner[i] == group;
	return count;
}

/* --- the system --- */

int __wrap_eventfd(unsigned count, int flags);
ssize_t __real_read(int number, void *buf, size_t len);
ssize_t __wrap_read(int number, void *buf, size_t len);
ssize_t __real_write(int number, const void *buf, size_t len);
ssize_t __wrap_write(int number, const void *buf, size_t len);
int __real_close(int number);
int __wrap_close(int number);
int __wrap_fcntl(int number, int command, ...);
int __wrap_poll(struct pollfd *pfds, nfds_t count, int timeout_ms);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *ptr);
void __wrap_free(void *ptr);

int
__wrap_eventfd(unsigned count, int flags)
{
	SIM_CHECK(flags == (EFD_CLOEXEC | EFD_NONBLOCK) && count == 0, "an eventfd of another kind");
	return fds_open(false);
}

ssize_t
__wrap_write(int number, const void *buf, size_t len)
{
	uint64_t value;

	if (number < FD_FIRST)
		return __real_write(number, buf, len);
	memcpy(&value, buf, sizeof(value));
	fds_add(number, value);
	return sizeof(value);
}

ssize_t
__wrap_read(int number, void *buf, size_t len)
{
	if (number < FD_FIRST)
		return __real_read(number, buf, len);
	struct fd *fd = get(number);
	if (fd->count == 0) {
		errno = EAGAIN;
		return -1;
	}
	memcpy(buf, &fd->count, sizeof(fd->count));
	fd->count = 0;
	return sizeof(fd->count);
}

int
__wrap_close(int number)
{
	if (number < FD_FIRST)
		return __real_close(number);
	SIM_CHECK(!get(number)->is_link, "a descriptor of the library is closed");
	fds_close(number);
	return 0;
}

/* only to make a descriptor of the library non-blocking */
int
__wrap_fcntl(int number, int command, ...)
{
	(void)get(number);
	SIM_CHECK(command == F_GETFL || command == F_SETFL, "a command of something else");
	return 0;
}

static int
look(struct pollfd *pfds, nfds_t count)
{
	int ready = 0;

	for (nfds_t i = 0; i < count; i++) {
		pfds[i].revents = 0;
		if (pfds[i].fd >= 0 && fds_events(pfds[i].fd))
			pfds[i].revents = POLLIN;
		ready += pfds[i].revents != 0;
	}
	return ready;
}

static void
watch(const struct pollfd *pfds, nfds_t count, const void *who)
{
	for (nfds_t i = 0; i < count; i++)
		if (pfds[i].fd >= 0)
			get(pfds[i].fd)->who = who;
}

int
__wrap_poll(struct pollfd *pfds, nfds_t count, int timeout_ms)
{
	const uint64_t end_ns = timeout_ms < 0 ? SIM_NEVER : sim.now_ns + (uint64_t)timeout_ms * SIM_MS;
	int ready;

	if (sim_chance(all.interrupt)) {
		errno = EINTR;
		return -1;
	}
	while ((ready = look(pfds, count)) == 0 && sim.now_ns < end_ns) {
		watch(pfds, count, pfds);
		fiber_wait(pfds, end_ns);
		watch(pfds, count, NULL);
	}
	return ready;
}

int
__wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (!fiber_is_running())
		return __real_clock_gettime(clock, ts);
	*ts = (struct timespec){ (time_t)(sim.now_ns / SIM_S), (long)(sim.now_ns % SIM_S) };
	return 0;
}

ssize_t
__wrap_getrandom(void *buf, size_t len, unsigned flags)
{
	(void)flags;
	sim_random_bytes(buf, len);
	return (ssize_t)len;
}

/* from a pool, so that the memory of a process that was killed is not lost */
void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
	unsigned i = 0;

	SIM_CHECK(size <= BLOCK_SIZE && alignment <= 4096, "more memory than a session needs");
	if (all.blocks == NULL) {
		all.blocks = mmap(NULL, BLOCKS_MAX * BLOCK_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		SIM_CHECK(all.blocks != MAP_FAILED, "no memory for sessions");
	}
	while (all.taken[i])
		SIM_CHECK(++i < BLOCKS_MAX, "too many sessions have memory");
	all.taken[i] = true;
	all.owner[i] = fiber_group();
	return all.blocks + i * BLOCK_SIZE;
}

void
__wrap_free(void *ptr)
{
	const size_t at = (size_t)((uint8_t *)ptr - all.blocks);

	if (all.blocks && ptr && (uint8_t *)ptr >= all.blocks && at < BLOCKS_MAX * BLOCK_SIZE)
		all.taken[at / BLOCK_SIZE] = false;
	else
		__real_free(ptr);
}
