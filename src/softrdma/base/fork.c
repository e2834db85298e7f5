/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* fork.c -- what a child process gets of the device when a process that has used it forks */

#include <errno.h>
#include <pthread.h>
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

/* how long a fork waits until no thread connects, and how long between two looks */
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

/* --- refused calls, and memory that is kept --- */

int
softrdma_fork_refuse(const char *call)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
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

/* --- the fork itself, on the thread that calls it --- */

static _Thread_local bool has_manager; /* from the beginning of the fork to its end */

/*
 * Takes the manager's lock, so that no thread is connecting: TLS handshakes hold locks of OpenSSL, which a child could
 * not begin anew. A log function that forks while its caller holds the lock would wait for ever, so the wait ends.
 */
static bool
lock_manager(void)
{
	const struct timespec look = { .tv_nsec = LOOK_NS };
	const uint64_t start_ns = softrdma_now_ns();
	while (!softrdma_cm_fork_begins()) {
		if (softrdma_now_ns() - start_ns >= PATIENCE_NS)
			return false;
		nanosleep(&look, NULL);
	}
	return true;
}

static void
before(void)
{
	has_manager = lock_manager();
	softrdma_mr_fork_begins();
	pthread_mutex_lock(&descriptors.lock);
}

static void
after(void)
{
	pthread_mutex_unlock(&descriptors.lock);
	softrdma_mr_fork_ends();
	if (has_manager)
		softrdma_cm_fork_ends();
}

static void
in_child(void)
{
	static void (*const forget[])(void) = {
		softrdma_device_after_fork, /* from here on every existing object is the parent's */
		softrdma_registry_after_fork,
		softrdma_cm_after_fork,
		softrdma_copy_after_fork,
		softrdma_credentials_after_fork,
		softrdma_dax_after_fork,
		softrdma_direct_after_fork,
		softrdma_engine_after_fork,
		softrdma_event_after_fork,
		softrdma_fault_plan_after_fork,
		softrdma_file_after_fork,
		softrdma_gid_after_fork,
		softrdma_incoming_after_fork,
		softrdma_io_after_fork,
		softrdma_links_after_fork,
		softrdma_mr_after_fork,
		softrdma_local_peer_after_fork,
		softrdma_pending_sockets_after_fork,
		softrdma_pending_after_fork,
		softrdma_qp_listener_after_fork,
		softrdma_qp_connect_after_fork,
		softrdma_source_after_fork,
		softrdma_workers_after_fork,
		softrdma_accounts_after_fork,
		softrdma_stats_file_after_fork,
	};

	close_all();
	after();
	for (size_t i = 0; i < sizeof(forget) / sizeof(forget[0]); i++)
		forget[i]();
}

static void
arrange(void)
{
	if (pthread_atfork(before, after, in_child))
		SOFTRDMA_LOG(WARNING, "this process must not fork, there is no memory to be prepared for it");
}

void
softrdma_fork_prepare_for(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, arrange);
}
