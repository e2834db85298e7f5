/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* fork.c -- what a child process gets of the device when a process that has used it forks */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/high_fd.h"
#include "softrdma/bounds.h"

#define WORD_BITS 64

/* how long a fork waits for a hook that cannot begin yet, and how long between two looks */
#define PATIENCE_NS 1000000000u
#define LOOK_NS 100000

/* number of list heads, about twenty for each generation of processes; only leak checkers miss those that do not fit */
#define KEPT_MAX 256

/* --- descriptors --- */

/* one bit for each descriptor; the lock is the last one to be taken, and is held during the system calls */
static struct {
	pthread_mutex_t lock;
	unsigned words; /* number of words that may have a bit set */
	uint64_t owned[SOFTRDMA_DESCRIPTORS_MAX / WORD_BITS];
} descriptors = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* marks a descriptor as the device's, or no longer so; a child keeps those that are too high. The lock is held. */
static void
mark(int fd, bool owned)
{
	if (fd < 0 || fd >= SOFTRDMA_DESCRIPTORS_MAX)
		return;
	unsigned word = (unsigned)fd / WORD_BITS;
	uint64_t bit = UINT64_C(1) << (unsigned)fd % WORD_BITS;
	if (owned)
		descriptors.owned[word] |= bit;
	else
		descriptors.owned[word] &= ~bit;
	if (owned && word >= descriptors.words)
		descriptors.words = word + 1;
}

int
softrdma_fork_socket(int domain, int type, int protocol)
{
	pthread_mutex_lock(&descriptors.lock);
	int fd = softrdma_high_fd(socket(domain, type, protocol));
	mark(fd, true);
	pthread_mutex_unlock(&descriptors.lock);
	return fd;
}

int
softrdma_fork_accept(int listening, struct sockaddr *addr, socklen_t *len, int flags)
{
	pthread_mutex_lock(&descriptors.lock);
	int fd = softrdma_high_fd(accept4(listening, addr, len, flags));
	mark(fd, true);
	pthread_mutex_unlock(&descriptors.lock);
	return fd;
}

int
softrdma_fork_owned(int fd)
{
	pthread_mutex_lock(&descriptors.lock);
	fd = softrdma_high_fd(fd);
	mark(fd, true);
	pthread_mutex_unlock(&descriptors.lock);
	return fd;
}

void
softrdma_fork_close(int fd)
{
	SOFTRDMA_NO_CANCEL;
	pthread_mutex_lock(&descriptors.lock);
	mark(fd, false);
	close(fd);
	pthread_mutex_unlock(&descriptors.lock);
}

/*
 * Only closes the descriptors: no shutdown(2), no message of TLS, no removal from an epoll. Sockets and epolls are
 * shared with the parent, which would be affected.
 */
static void
close_all(void)
{
	for (unsigned word = 0; word < descriptors.words; word++) {
		for (unsigned bit = 0; descriptors.owned[word] && bit < WORD_BITS; bit++) {
			if (descriptors.owned[word] >> bit & 1)
				close((int)(word * WORD_BITS + bit));
		}
		descriptors.owned[word] = 0;
	}
	descriptors.words = 0;
}

/* --- inherited objects: refused calls, and memory that is kept --- */

/* the context of this process; NULL: it has none yet, so every object is its parent's */
static const struct ibv_context *_Atomic own_context;

void
softrdma_fork_owns(const struct ibv_context *context)
{
	atomic_store_explicit(&own_context, context, memory_order_relaxed);
}

bool
softrdma_is_inherited(const struct ibv_context *context)
{
	return context != atomic_load_explicit(&own_context, memory_order_relaxed);
}

int
softrdma_fork_refuse(const char *call)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	/* message(inherited) */
	SOFTRDMA_LOG_FEW(&limit, ERROR,
		"%s: the object was made before fork(2) and belongs to the parent process: make a new one in "
		"this process",
		call);
	return ESTALE;
}

/* volatile: only tools read it, so a compiler would leave it out */
static const void *volatile kept[KEPT_MAX];
static unsigned kept_count;

void
softrdma_fork_keep(const void *memory)
{
	if (memory && kept_count < KEPT_MAX)
		kept[kept_count++] = memory;
}

/* --- hooks --- */

static struct softrdma_fork_hook *hooks; /* by rank */

void
softrdma_fork_register(struct softrdma_fork_hook *hook)
{
	struct softrdma_fork_hook **at = &hooks;

	while (*at && (*at)->rank <= hook->rank)
		at = &(*at)->next;
	hook->next = *at;
	*at = hook;
}

void
softrdma_fork_forget(void)
{
	softrdma_fork_owns(NULL); /* from here on every existing object is the parent's */
	for (const struct softrdma_fork_hook *hook = hooks; hook; hook = hook->next)
		hook->in_child();
}

/* --- the fork itself, on the thread that calls it --- */

static _Thread_local unsigned held; /* a bit for each rank that has begun; 0: no fork, or none of them */

/*
 * The wait for a hook that cannot begin ends: a log function that forks while its caller holds the manager's lock would
 * wait for ever.
 */
static bool
begins(const struct softrdma_fork_hook *hook)
{
	const struct timespec look = { .tv_nsec = LOOK_NS };
	const uint64_t start_ns = softrdma_now_ns();
	while (!hook->begins()) {
		if (softrdma_now_ns() - start_ns >= PATIENCE_NS)
			return false;
		nanosleep(&look, NULL);
	}
	return true;
}

static void
before(void)
{
	held = 0;
	for (const struct softrdma_fork_hook *hook = hooks; hook; hook = hook->next)
		if (hook->begins && begins(hook))
			held |= 1u << hook->rank;
	pthread_mutex_lock(&descriptors.lock);
}

/* in the order in which they have begun: each gives back a lock of its own, so no other order is needed */
static void
after(void)
{
	pthread_mutex_unlock(&descriptors.lock);
	for (const struct softrdma_fork_hook *hook = hooks; hook; hook = hook->next)
		if (held & 1u << hook->rank)
			hook->ends();
}

static void
in_child(void)
{
	close_all();
	after();
	softrdma_fork_forget();
}

static void
arrange(void)
{
	/*
	 * message(limits): out of memory at the first use of the device -> Do not fork; give the process
	 * more memory.
	 */
	if (pthread_atfork(before, after, in_child))
		SOFTRDMA_LOG(WARNING, "this process must not fork, there is no memory to be prepared for it");
}

void
softrdma_fork_prepare_for(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, arrange);
}
