/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* failing.c -- calls of the C library that fail on a test's request */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <pthread.h>
#include <search.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "failing.h"
#include "failing_wrap.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t other;
	unsigned number;  /* changes with each fail_call() and fail_nothing() */
	const char *call; /* NULL: nothing is armed */
	enum fail_whose whose;
	pthread_t mine;
	unsigned skip, times;
	unsigned struck;
	int error;
} fault = { .lock = PTHREAD_MUTEX_INITIALIZER, .other = PTHREAD_COND_INITIALIZER };

void
fail_call(enum fail_whose whose, const char *call, unsigned skip, unsigned times, int error)
{
	pthread_mutex_lock(&fault.lock);
	fault.call = call;
	fault.whose = whose;
	fault.mine = pthread_self();
	fault.skip = skip;
	fault.times = times;
	fault.error = error;
	fault.struck = 0;
	fault.number++;
	pthread_cond_broadcast(&fault.other);
	pthread_mutex_unlock(&fault.lock);
}

unsigned
fail_nothing(void)
{
	pthread_mutex_lock(&fault.lock);
	fault.call = NULL;
	fault.number++;
	pthread_cond_broadcast(&fault.other);
	unsigned struck = fault.struck;
	pthread_mutex_unlock(&fault.lock);
	return struck;
}

bool
has_failed(unsigned times)
{
	pthread_mutex_lock(&fault.lock);
	bool struck = fault.struck >= times;
	pthread_mutex_unlock(&fault.lock);
	return struck;
}

int
strikes(const char *call)
{
	int saved_errno = errno, error = 0;
	pthread_mutex_lock(&fault.lock);
	bool mine = pthread_equal(fault.mine, pthread_self());
	bool meant = fault.call && strcmp(fault.call, call) == 0 &&
		(fault.whose == FAIL_ANY || mine == (fault.whose == FAIL_MINE));
	if (meant && fault.skip > 0) {
		fault.skip--;
	} else if (meant && fault.times > 0) {
		fault.times--;
		fault.struck++;
		error = fault.error;
	}
	const unsigned number = fault.number;
	while (error == FAIL_WAIT && fault.number == number)
		pthread_cond_wait(&fault.other, &fault.lock);
	if (error == FAIL_WAIT)
		error = 0;
	pthread_mutex_unlock(&fault.lock);
	errno = error > 0 ? error : saved_errno;
	return error;
}

WRAP(void *, malloc, NULL, (size_t size), (size))
WRAP(void *, calloc, NULL, (size_t n, size_t size), (n, size))
WRAP(void *, realloc, NULL, (void *p, size_t size), (p, size))
WRAP(void *, tsearch, NULL, (const void *key, void **root, int (*compare)(const void *, const void *)),
	(key, root, compare))
WRAP(int, socket, -1, (int family, int type, int protocol), (family, type, protocol))
WRAP(int, bind, -1, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len))
WRAP(int, listen, -1, (int fd, int backlog), (fd, backlog))
WRAP(int, connect, -1, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len))
WRAP(int, accept4, -1, (int fd, struct sockaddr *addr, socklen_t *len, int flags), (fd, addr, len, flags))
WRAP(int, getsockname, -1, (int fd, struct sockaddr *addr, socklen_t *len), (fd, addr, len))
WRAP(int, getpeername, -1, (int fd, struct sockaddr *addr, socklen_t *len), (fd, addr, len))
WRAP(int, setsockopt, -1, (int fd, int level, int name, const void *value, socklen_t len),
	(fd, level, name, value, len))
WRAP(int, epoll_create1, -1, (int flags), (flags))
WRAP(int, epoll_ctl, -1, (int fd, int op, int other, struct epoll_event *ev), (fd, op, other, ev))
WRAP(int, epoll_wait, -1, (int fd, struct epoll_event *events, int max, int timeout),
	(fd, events, max, timeout))
WRAP(int, eventfd, -1, (unsigned int count, int flags), (count, flags))
WRAP(int, poll, -1, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
WRAP(int, ppoll, -1,
	(struct pollfd * fds, nfds_t count, const struct timespec *limit, const sigset_t *signals),
	(fds, count, limit, signals))
WRAP(ssize_t, read, -1, (int fd, void *buf, size_t len), (fd, buf, len))
WRAP(ssize_t, write, -1, (int fd, const void *buf, size_t len), (fd, buf, len))
WRAP(ssize_t, sendmsg, -1, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags))
WRAP(int, sendmmsg, -1, (int fd, struct mmsghdr *msgs, unsigned int count, int flags),
	(fd, msgs, count, flags))
WRAP(int, recvmmsg, -1, (int fd, struct mmsghdr *msgs, unsigned int count, int flags, struct timespec *limit),
	(fd, msgs, count, flags, limit))
WRAP(ssize_t, getrandom, -1, (void *buf, size_t len, unsigned int flags), (buf, len, flags))
WRAP(int, msync, -1, (void *addr, size_t len, int flags), (addr, len, flags))
WRAP(ssize_t, process_vm_readv, -1,
	(pid_t pid, const struct iovec *local, unsigned long locals, const struct iovec *remote,
		unsigned long remotes, unsigned long flags),
	(pid, local, locals, remote, remotes, flags))
WRAP(ssize_t, process_vm_writev, -1,
	(pid_t pid, const struct iovec *local, unsigned long locals, const struct iovec *remote,
		unsigned long remotes, unsigned long flags),
	(pid, local, locals, remote, remotes, flags))
WRAP(int, getnameinfo, error,
	(const struct sockaddr *addr, socklen_t len, char *host, socklen_t host_len, char *serv,
		socklen_t serv_len, int flags),
	(addr, len, host, host_len, serv, serv_len, flags))
WRAP(int, pthread_create, error,
	(pthread_t * thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg),
	(thread, attr, run, arg))

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);

int
__wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	int error = strikes("getsockopt");
	if (error == FAIL_ETHERNET) {
		*(int *)value = 1500;
		return 0;
	}
	return error ? -1 : __real_getsockopt(fd, level, name, value, len);
}

int __real_glob(const char *pattern, int flags, int (*error)(const char *path, int number), glob_t *found);
int __wrap_glob(const char *pattern, int flags, int (*error)(const char *path, int number), glob_t *found);

int
__wrap_glob(const char *pattern, int flags, int (*error)(const char *path, int number), glob_t *found)
{
	if (!strikes("glob"))
		return __real_glob(pattern, flags, error, found);
	return __real_glob("/nonexistent", GLOB_NOCHECK, NULL, found);
}

WRAP(DIR *, opendir, NULL, (const char *path), (path))
WRAP(int, fstatfs, -1, (int fd, struct statfs *fs), (fd, fs))
WRAP(int, statx, -1, (int fd, const char *path, int flags, unsigned int mask, struct statx *stx),
	(fd, path, flags, mask, stx))
WRAP(int, madvise, -1, (void *addr, size_t len, int advice), (addr, len, advice))
WRAP(int, pipe2, -1, (int ends[2], int flags), (ends, flags))
WRAP(int, memfd_create, -1, (const char *name, unsigned int flags), (name, flags))
WRAP(void *, mmap, MAP_FAILED, (void *addr, size_t len, int prot, int flags, int fd, off_t offset),
	(addr, len, prot, flags, fd, offset))
/* without a new address: the device never passes one */
void *__real_mremap(void *addr, size_t old_len, size_t new_len, int flags, ...);
void *__wrap_mremap(void *addr, size_t old_len, size_t new_len, int flags, ...);

void *
__wrap_mremap(void *addr, size_t old_len, size_t new_len, int flags, ...)
{
	return strikes("mremap") ? MAP_FAILED : __real_mremap(addr, old_len, new_len, flags);
}

int __real_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);

int
__wrap_fstat(int fd, struct stat *st)
{
	int error = strikes("fstat");
	int ret = error > 0 ? -1 : __real_fstat(fd, st);
	if (error < 0) {
		st->st_mode = error == FAIL_BLOCK_DEVICE ? S_IFBLK : S_IFCHR;
		st->st_rdev = error == FAIL_DEVICE ? makedev(1, 5) : 0; /* /dev/zero exists everywhere */
	}
	return ret;
}

static _Thread_local const char *next_file;

void
fail_file(const char *text)
{
	next_file = text;
}

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);

FILE *
__wrap_fopen(const char *path, const char *mode)
{
	if (strikes("fopen"))
		return NULL;
	if (next_file == NULL)
		return __real_fopen(path, mode);
	FILE *file = tmpfile();
	if (file) {
		fputs(next_file, file);
		rewind(file);
	}
	next_file = NULL;
	return file;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

int
__wrap_open(const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	return strikes("open") ? -1 : __real_open(path, flags, mode);
}

ssize_t __real_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);
ssize_t __real_recv(int fd, void *buf, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);

ssize_t
__wrap_send(int fd, const void *buf, size_t len, int flags)
{
	int error = strikes("send");
	if (error == FAIL_SHORT)
		return __real_send(fd, buf, len - 1, flags);
	return error ? -1 : __real_send(fd, buf, len, flags);
}

ssize_t
__wrap_recv(int fd, void *buf, size_t len, int flags)
{
	int error = strikes("recv");
	if (error == FAIL_SHORT)
		return __real_recv(fd, buf, 1, flags);
	if (error == FAIL_END)
		return 0;
	return error ? -1 : __real_recv(fd, buf, len, flags);
}

ssize_t __real_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);

ssize_t
__wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	int error = strikes("recvmsg");
	if (error == FAIL_SHORT)
		return __real_recv(fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len / 2, flags);
	return error ? -1 : __real_recvmsg(fd, msg, flags);
}

int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
	struct addrinfo **res);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
	struct addrinfo **res);

int
__wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res)
{
	int error = strikes("getaddrinfo");
	int ret = error && error != FAIL_STRANGE ? error : __real_getaddrinfo(node, service, hints, res);
	for (struct addrinfo *at = *res; ret == 0 && error == FAIL_STRANGE && at; at = at->ai_next)
		at->ai_family = AF_UNIX;
	return ret;
}

/* variadic: the device only asks for flags */
int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);

int
__wrap_fcntl(int fd, int command, ...)
{
	va_list ap;
	va_start(ap, command);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	return strikes("fcntl") ? -1 : __real_fcntl(fd, command, arg);
}
