/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * checked_calls.c -- the variants with checks that _FORTIFY_SOURCE calls in place of functions of libc
 *
 * Tests replace functions of libc by the linker's --wrap, which knows them by their plain names. These stand-ins
 * check what libc's own check, and then call the plain function.
 * tests/surface/checked-calls.sh tells which are missing.
 */

/* here poll() is poll() */
#undef _FORTIFY_SOURCE

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* what glibc's headers declare, for code that they have changed */
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask,
	size_t size);
ssize_t __read_chk(int fd, void *buf, size_t len, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags);
ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t size);
int __open_2(const char *path, int flags);

static void
check(size_t needed, size_t size)
{
	if (needed > size)
		abort();
}

int
__poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size)
{
	check(count, size / sizeof(*fds));
	return poll(fds, count, timeout);
}

int
__ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask,
	size_t size)
{
	check(count, size / sizeof(*fds));
	return ppoll(fds, count, timeout, mask);
}

ssize_t
__read_chk(int fd, void *buf, size_t len, size_t size)
{
	check(len, size);
	return read(fd, buf, len);
}

ssize_t
__recv_chk(int fd, void *buf, size_t len, size_t size, int flags)
{
	check(len, size);
	return recv(fd, buf, len, flags);
}

ssize_t
__readlink_chk(const char *path, char *buf, size_t len, size_t size)
{
	check(len, size);
	return readlink(path, buf, len);
}

int
__open_2(const char *path, int flags)
{
	return open(path, flags);
}
