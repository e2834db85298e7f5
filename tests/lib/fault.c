/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fault.c -- stand-ins for fallible calls
 *
 * A stand-in fails as the call itself may fail: with an errno value of its manual page, and with the same
 * side effects. A call that cannot fail with valid arguments (removing a descriptor from an epoll set) has
 * none. If shutdown(), sendmsg() or the like is made to fail, the connection is lost, so the stand-in ends
 * it.
 */

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <search.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "fault.h"

/* more than a scenario ever holds at once; fails loudly if a scenario does */
#define HELD_MAX 65536

static struct {
	pthread_mutex_t lock;
	bool armed;
	unsigned long k, also;
	enum fault_mode mode;
	unsigned domains;
	unsigned variant;
	unsigned long calls;
	const char *call; /* the one that failed first */
	int error;
	void *frames[FAULT_FRAMES];
	int frame_count;
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Atomic int64_t ahead_ns;

void
fault_arm(unsigned long k, enum fault_mode mode, unsigned domains, unsigned variant)
{
	void *frames[FAULT_FRAMES];

	backtrace(frames, FAULT_FRAMES); /* its first call loads a library */
	pthread_mutex_lock(&state.lock);
	state.armed = true;
	state.k = k;
	state.also = 0;
	state.mode = mode;
	state.domains = domains;
	state.variant = variant;
	state.calls = 0;
	state.call = NULL;
	pthread_mutex_unlock(&state.lock);
}

void
fault_also(unsigned long k)
{
	pthread_mutex_lock(&state.lock);
	state.also = k;
	pthread_mutex_unlock(&state.lock);
}

void
fault_disarm(void)
{
	pthread_mutex_lock(&state.lock);
	state.armed = false;
	pthread_mutex_unlock(&state.lock);
}

unsigned long
fault_calls(void)
{
	pthread_mutex_lock(&state.lock);
	unsigned long calls = state.calls;
	pthread_mutex_unlock(&state.lock);
	return calls;
}

bool
fault_used(void)
{
	pthread_mutex_lock(&state.lock);
	bool used = state.call != NULL;
	pthread_mutex_unlock(&state.lock);
	return used;
}

const char *
fault_call(void)
{
	pthread_mutex_lock(&state.lock);
	const char *call = state.call;
	pthread_mutex_unlock(&state.lock);
	return call ? call : "none";
}

int
fault_errno(void)
{
	pthread_mutex_lock(&state.lock);
	int error = state.call ? state.error : 0;
	pthread_mutex_unlock(&state.lock);
	return error;
}

int
fault_frames(void *frames[static FAULT_FRAMES])
{
	pthread_mutex_lock(&state.lock);
	int count = state.call ? state.frame_count : 0;
	memcpy(frames, state.frames, sizeof(state.frames));
	pthread_mutex_unlock(&state.lock);
	return count;
}

static unsigned
length_of(const int *errnos)
{
	unsigned n = 0;

	while (errnos[n])
		n++;
	return n;
}

int
fault_hits(enum fault_domain domain, const char *call, const int *errnos)
{
	static _Thread_local bool interrupted;
	int error = 0;

	pthread_mutex_lock(&state.lock);
	if (state.armed && (state.domains & domain)) {
		unsigned long n = ++state.calls;

		if (n == state.k || n == state.also || (state.k && n > state.k && state.mode == FAULT_FROM))
			error = errnos[(state.variant + n) % length_of(errnos)];
		/* a signal interrupts a call, but not twice in a row */
		if (error == EINTR && interrupted)
			error = 0;
		interrupted = error == EINTR;
		if (error && !state.call) {
			state.call = call;
			state.error = error;
			state.frame_count = backtrace(state.frames, FAULT_FRAMES);
		}
	}
	pthread_mutex_unlock(&state.lock);
	return error;
}

#define ERRNOS(...) ((const int[]){ __VA_ARGS__, 0 })
/* true if the call must fail; errno is set then */
#define HITS(call, ...) (hits(call, ERRNOS(__VA_ARGS__)))

static bool
hits(const char *call, const int *errnos)
{
	int saved_errno = errno;
	int error = fault_hits(FAULT_SYSTEM, call, errnos);

	errno = error ? error : saved_errno;
	return error != 0;
}

/* ---- what is held ---- */

/* a hash table with open addressing; the entry of a freed pointer can be used again */
static struct {
	const void *ptr;
	struct fault_held what;
} held[HELD_MAX];
static const char given_back; /* its address marks such entries */
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t
place_of(const void *ptr)
{
	return (size_t)(((uintptr_t)ptr >> 4) * 0x9e3779b97f4a7c15u >> 32) % HELD_MAX;
}

static void *
take(const char *call, void *ptr, size_t size)
{
	int saved_errno = errno;
	size_t i;

	if (!ptr)
		return NULL;
	pthread_mutex_lock(&held_lock);
	size_t tries = 0;
	for (i = place_of(ptr); held[i].ptr && held[i].ptr != &given_back; i = (i + 1) % HELD_MAX) {
		if (++tries == HELD_MAX)
			abort();
	}
	held[i].ptr = ptr;
	held[i].what.call = call;
	held[i].what.size = size;
	held[i].what.frame_count = backtrace(held[i].what.frames, FAULT_FRAMES);
	pthread_mutex_unlock(&held_lock);
	errno = saved_errno;
	return ptr;
}

/* memory that the C library allocated itself (getline) is not in the table */
static void
give_back(const void *ptr)
{
	pthread_mutex_lock(&held_lock);
	size_t tries = 0;
	for (size_t i = place_of(ptr); held[i].ptr && tries < HELD_MAX; i = (i + 1) % HELD_MAX, tries++) {
		if (held[i].ptr == ptr) {
			held[i].ptr = &given_back;
			break;
		}
	}
	pthread_mutex_unlock(&held_lock);
}

size_t
fault_held(struct fault_held *list, size_t max)
{
	size_t count = 0;

	pthread_mutex_lock(&held_lock);
	for (size_t i = 0; i < HELD_MAX; i++) {
		if (!held[i].ptr || held[i].ptr == &given_back)
			continue;
		if (count < max)
			list[count] = held[i].what;
		count++;
	}
	pthread_mutex_unlock(&held_lock);
	return count;
}

/* ---- memory ---- */

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *ptr, size_t size);
void __wrap_free(void *ptr);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
int __wrap_msync(void *addr, size_t len, int flags);
int __wrap_madvise(void *addr, size_t len, int advice);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
	const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
	const struct iovec *remote, unsigned long remote_count, unsigned long flags);

void *
__wrap_malloc(size_t size)
{
	return HITS("malloc", ENOMEM) ? NULL : take("malloc", malloc(size), size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
	return HITS("calloc", ENOMEM) ? NULL : take("calloc", calloc(count, size), count * size);
}

void *
__wrap_realloc(void *ptr, size_t size)
{
	if (HITS("realloc", ENOMEM))
		return NULL;
	if (ptr)
		give_back(ptr);
	return take("realloc", realloc(ptr, size), size);
}

void
__wrap_free(void *ptr)
{
	if (ptr)
		give_back(ptr);
	free(ptr);
}

void *
__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	return HITS("mmap", ENOMEM, EAGAIN) ? MAP_FAILED : mmap(addr, len, prot, flags, fd, offset);
}

int
__wrap_msync(void *addr, size_t len, int flags)
{
	return HITS("msync", EIO, ENOMEM) ? -1 : msync(addr, len, flags);
}

/* a kernel that does not know the advice, and a page that cannot be allocated */
int
__wrap_madvise(void *addr, size_t len, int advice)
{
	return HITS("madvise", EINVAL, EFAULT, ENOMEM) ? -1 : madvise(addr, len, advice);
}

ssize_t
__wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
	const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	/* the errors of a sandbox */
	if (HITS("process_vm_writev", ENOSYS, EPERM, ENOMEM))
		return -1;
	return process_vm_writev(pid, local, local_count, remote, remote_count, flags);
}

ssize_t
__wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
	const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	if (HITS("process_vm_readv", ENOSYS, EPERM, ENOMEM))
		return -1;
	return process_vm_readv(pid, local, local_count, remote, remote_count, flags);
}

/* ---- sockets ---- */

int __wrap_socket(int domain, int type, int protocol);
int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_listen(int fd, int backlog);
int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockname(int fd, struct sockaddr *addr, socklen_t *len);
int __wrap_getpeername(int fd, struct sockaddr *addr, socklen_t *len);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);
int __wrap_shutdown(int fd, int how);

int
__wrap_socket(int domain, int type, int protocol)
{
	return HITS("socket", EMFILE, ENFILE, ENOBUFS, EAFNOSUPPORT) ? -1 : socket(domain, type, protocol);
}

int
__wrap_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	return HITS("bind", EADDRINUSE, EACCES, EADDRNOTAVAIL) ? -1 : bind(fd, addr, len);
}

int
__wrap_listen(int fd, int backlog)
{
	return HITS("listen", EADDRINUSE) ? -1 : listen(fd, backlog);
}

static fault_redirection *_Atomic redirection;

void
fault_redirect(fault_redirection *new_redirection)
{
	redirection = new_redirection;
}

/* datagram sockets connect only to learn the local address, and send nothing */
static bool
is_stream(int fd)
{
	int type = 0;
	socklen_t len = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
}

int
__wrap_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	fault_redirection *redirect = redirection;
	struct sockaddr_storage via;

	if (HITS("connect", ECONNREFUSED, ENETUNREACH, EADDRNOTAVAIL, EPERM))
		return -1;
	if (redirect && is_stream(fd) && redirect(addr, &via))
		return connect(fd, (const struct sockaddr *)&via, len);
	return connect(fd, addr, len);
}

int
__wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	return HITS("accept4", EMFILE, ENFILE, ENOBUFS, ENOMEM, EINTR) ? -1 : accept4(fd, addr, len, flags);
}

int
__wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	return HITS("setsockopt", ENOBUFS, ENOPROTOOPT, EPERM) ? -1 : setsockopt(fd, level, name, value, len);
}

int
__wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	return HITS("getsockopt", ENOBUFS) ? -1 : getsockopt(fd, level, name, value, len);
}

int
__wrap_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	return HITS("getsockname", ENOBUFS) ? -1 : getsockname(fd, addr, len);
}

int
__wrap_getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	return HITS("getpeername", ENOTCONN, ENOBUFS) ? -1 : getpeername(fd, addr, len);
}

/* a call that fails with such an error ends the connection */
static ssize_t
broken(int fd)
{
	int saved_errno = errno;

	if (errno == ECONNRESET || errno == EPIPE || errno == ETIMEDOUT || errno == ENOTCONN)
		shutdown(fd, SHUT_RDWR);
	errno = saved_errno;
	return -1;
}

ssize_t
__wrap_send(int fd, const void *buf, size_t len, int flags)
{
	return HITS("send", ECONNRESET, EPIPE, ENOBUFS, ENOMEM, EINTR) ? broken(fd)
								       : send(fd, buf, len, flags);
}

ssize_t
__wrap_recv(int fd, void *buf, size_t len, int flags)
{
	return HITS("recv", ECONNRESET, ETIMEDOUT, ENOMEM, EINTR) ? broken(fd) : recv(fd, buf, len, flags);
}

ssize_t
__wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return HITS("sendmsg", ECONNRESET, EPIPE, ENOBUFS, ENOMEM, EINTR) ? broken(fd)
									  : sendmsg(fd, msg, flags);
}

ssize_t
__wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return HITS("recvmsg", ECONNRESET, ETIMEDOUT, ENOMEM, EINTR) ? broken(fd) : recvmsg(fd, msg, flags);
}

int
__wrap_shutdown(int fd, int how)
{
	return HITS("shutdown", ENOTCONN) ? (int)broken(fd) : shutdown(fd, how);
}

/* ---- names ---- */

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
	struct addrinfo **res);
void __wrap_freeaddrinfo(struct addrinfo *res);
int __wrap_getnameinfo(const struct sockaddr *addr, socklen_t len, char *host, socklen_t host_len,
	char *service, socklen_t service_len, int flags);

int
__wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res)
{
	if (HITS("getaddrinfo", ENOMEM, EMFILE, EAGAIN))
		return errno == ENOMEM ? EAI_MEMORY : errno == EAGAIN ? EAI_AGAIN : EAI_SYSTEM;
	int ret = getaddrinfo(node, service, hints, res);
	if (ret == 0)
		take("getaddrinfo", *res, sizeof(**res));
	return ret;
}

void
__wrap_freeaddrinfo(struct addrinfo *res)
{
	give_back(res);
	freeaddrinfo(res);
}

int
__wrap_getnameinfo(const struct sockaddr *addr, socklen_t len, char *host, socklen_t host_len, char *service,
	socklen_t service_len, int flags)
{
	if (HITS("getnameinfo", ENOMEM))
		return EAI_MEMORY;
	return getnameinfo(addr, len, host, host_len, service, service_len, flags);
}

/* ---- descriptors and threads ---- */

int __wrap_pipe2(int ends[2], int flags);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event);
int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int max, int timeout);
int __wrap_eventfd(unsigned value, int flags);
void *__wrap_tsearch(const void *key, void **root, int (*compare)(const void *, const void *));
int __wrap_timerfd_create(clockid_t clock, int flags);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);
ssize_t __wrap_read(int fd, void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len);
int __wrap_close(int fd);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

int
__wrap_pipe2(int ends[2], int flags)
{
	return HITS("pipe2", EMFILE, ENFILE) ? -1 : pipe2(ends, flags);
}

int
__wrap_epoll_create1(int flags)
{
	return HITS("epoll_create1", EMFILE, ENFILE, ENOMEM) ? -1 : epoll_create1(flags);
}

/* changing and removing an entry allocates nothing, so it cannot fail */
int
__wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
	if (op == EPOLL_CTL_ADD && HITS("epoll_ctl", ENOMEM, ENOSPC))
		return -1;
	return epoll_ctl(epoll_fd, op, fd, event);
}

int
__wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int max, int timeout)
{
	return HITS("epoll_wait", EINTR) ? -1 : epoll_wait(epoll_fd, events, max, timeout);
}

int
__wrap_eventfd(unsigned value, int flags)
{
	return HITS("eventfd", EMFILE, ENFILE, ENOMEM) ? -1 : eventfd(value, flags);
}

/* The C library allocates an element, unless it finds one that exists. Here all are new. */
void *
__wrap_tsearch(const void *key, void **root, int (*compare)(const void *, const void *))
{
	return HITS("tsearch", ENOMEM) ? NULL : tsearch(key, root, compare);
}

int
__wrap_timerfd_create(clockid_t clock, int flags)
{
	return HITS("timerfd_create", EMFILE, ENFILE, ENOMEM) ? -1 : timerfd_create(clock, flags);
}

int
__wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
	return HITS("poll", EINTR, ENOMEM) ? -1 : poll(fds, count, timeout);
}

ssize_t
__wrap_read(int fd, void *buf, size_t len)
{
	return HITS("read", EINTR) ? -1 : read(fd, buf, len);
}

ssize_t
__wrap_write(int fd, const void *buf, size_t len)
{
	return HITS("write", EINTR) ? -1 : write(fd, buf, len);
}

/* the descriptor is closed even if the call fails (close(2)) */
int
__wrap_close(int fd)
{
	bool fails = HITS("close", EINTR, EIO);
	int saved_errno = errno;
	int ret = close(fd);

	if (fails)
		errno = saved_errno;
	return fails ? -1 : ret;
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	return HITS("pthread_create", EAGAIN) ? EAGAIN : pthread_create(thread, attr, run, arg);
}

ssize_t
__wrap_getrandom(void *buf, size_t len, unsigned flags)
{
	return HITS("getrandom", ENOSYS, EINTR) ? -1 : getrandom(buf, len, flags);
}

void
fault_skip_time(unsigned ms)
{
	atomic_fetch_add(&ahead_ns, (int64_t)ms * 1000000);
}

int
__wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	int ret = clock_gettime(clock, ts);

	if (ret == 0 && clock == CLOCK_MONOTONIC) {
		int64_t ns = ts->tv_nsec + atomic_load(&ahead_ns);

		ts->tv_sec += ns / 1000000000;
		ts->tv_nsec = ns % 1000000000;
	}
	return ret;
}

/* ---- files ---- */

int __wrap_open(const char *path, int flags, ...);
FILE *__wrap_fopen(const char *path, const char *mode);
int __wrap_fclose(FILE *stream);
ssize_t __wrap_getdelim(char **line, size_t *size, int delimiter, FILE *stream);
ssize_t __wrap___getdelim(char **line, size_t *size, int delimiter, FILE *stream);
ssize_t __wrap_getline(char **line, size_t *size, FILE *stream);
DIR *__wrap_opendir(const char *path);
int __wrap_closedir(DIR *dir);
int __wrap_stat(const char *path, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);
int __wrap_fstatfs(int fd, struct statfs *fs);
int __wrap_statx(int dir_fd, const char *path, int flags, unsigned mask, struct statx *stx);
int __wrap_ioctl(int fd, unsigned long request, ...);

int
__wrap_open(const char *path, int flags, ...)
{
	va_list ap;

	va_start(ap, flags);
	mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	return HITS("open", EMFILE, ENFILE, ENOMEM, EACCES) ? -1 : open(path, flags, mode);
}

FILE *
__wrap_fopen(const char *path, const char *mode)
{
	return HITS("fopen", EMFILE, ENOMEM, EACCES) ? NULL : take("fopen", fopen(path, mode), sizeof(FILE));
}

int
__wrap_fclose(FILE *stream)
{
	give_back(stream);
	return fclose(stream);
}

ssize_t
__wrap_getdelim(char **line, size_t *size, int delimiter, FILE *stream)
{
	return HITS("getdelim", ENOMEM) ? -1 : getdelim(line, size, delimiter, stream);
}

/* the headers turn getline() into this call in optimised builds */
ssize_t
__wrap___getdelim(char **line, size_t *size, int delimiter, FILE *stream)
{
	return __wrap_getdelim(line, size, delimiter, stream);
}

ssize_t
__wrap_getline(char **line, size_t *size, FILE *stream)
{
	return __wrap_getdelim(line, size, '\n', stream);
}

DIR *
__wrap_opendir(const char *path)
{
	return HITS("opendir", EMFILE, ENOMEM) ? NULL : take("opendir", opendir(path), 0);
}

int
__wrap_closedir(DIR *dir)
{
	give_back(dir);
	return closedir(dir);
}

int
__wrap_stat(const char *path, struct stat *st)
{
	return HITS("stat", ENOMEM, EACCES) ? -1 : stat(path, st);
}

int
__wrap_fstat(int fd, struct stat *st)
{
	return HITS("fstat", ENOMEM, EIO) ? -1 : fstat(fd, st);
}

int
__wrap_fstatfs(int fd, struct statfs *fs)
{
	return HITS("fstatfs", EIO, ENOMEM) ? -1 : fstatfs(fd, fs);
}

int
__wrap_statx(int dir_fd, const char *path, int flags, unsigned mask, struct statx *stx)
{
	return HITS("statx", ENOSYS, ENOMEM) ? -1 : statx(dir_fd, path, flags, mask, stx);
}

/* an older kernel, or one without free memory */
int
__wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list ap;

	va_start(ap, request);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	return HITS("ioctl", ENOTTY, ENOMEM) ? -1 : ioctl(fd, request, arg);
}
