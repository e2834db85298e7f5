/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* readable.c -- a descriptor for applications that is readable while its owner wants that */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "softrdma/base/fork.h"
#include "softrdma/base/high_fd.h"
#include "softrdma/base/readable.h"

/*
 * The kernel lets one file be in at most 1,000 epolls, and in 50 if these are in epolls of the application that are in other
 * ones (path_limits of fs/eventpoll.c).
 */
#define USERS_MAX 50

#define EVENTS_MAX 16

/* calls of epoll_wait() that may find nothing, and the one that finds the eventfd */
#define LOOKS_SPARE 16

/* an eventfd that is always readable */
struct softrdma_readable_source {
	int fd;
	unsigned users;
	struct softrdma_readable_source *next;
};

static pthread_mutex_t sources_lock = PTHREAD_MUTEX_INITIALIZER;
static struct softrdma_readable_source *sources; /* those with users; the first one may have room for more */

static void
after_fork(void)
{
	softrdma_fork_keep(sources);
	sources = NULL;
	sources_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

/* NULL with errno */
static struct softrdma_readable_source *
new_source(void)
{
	struct softrdma_readable_source *source = calloc(1, sizeof(*source));
	if (source == NULL)
		return NULL;
	source->fd = softrdma_fork_owned(eventfd(1, EFD_CLOEXEC));
	if (source->fd < 0) {
		free(source);
		return NULL;
	}
	source->next = sources;
	sources = source;
	return source;
}

/* NULL with errno */
static struct softrdma_readable_source *
get_source(void)
{
	pthread_mutex_lock(&sources_lock);
	struct softrdma_readable_source *source = sources;
	while (source && source->users == USERS_MAX)
		source = source->next;
	if (source == NULL)
		source = new_source();
	if (source)
		source->users++;
	pthread_mutex_unlock(&sources_lock);
	return source;
}

static void
put_source(struct softrdma_readable_source *source)
{
	pthread_mutex_lock(&sources_lock);
	if (--source->users == 0) {
		struct softrdma_readable_source **at = &sources;
		while (*at != source)
			at = &(*at)->next;
		*at = source->next;
		softrdma_fork_close(source->fd);
		free(source);
	}
	pthread_mutex_unlock(&sources_lock);
}

int
softrdma_readable_open(struct softrdma_readable *readable)
{
	readable->source = get_source();
	if (readable->source == NULL)
		return errno;
	readable->fd = softrdma_high_fd(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event ev = { .events = EPOLLET, .data.ptr = NULL };
	if (readable->fd >= 0 && epoll_ctl(readable->fd, EPOLL_CTL_ADD, readable->source->fd, &ev) == 0)
		return 0;
	const int error = errno;
	softrdma_readable_close(readable);
	return error;
}

void
softrdma_readable_close(struct softrdma_readable *readable)
{
	if (readable->fd >= 0)
		close(readable->fd);
	readable->fd = -1;
	put_source(readable->source);
}

/*
 * Edge-triggered: the kernel enters the eventfd in the list of what is ready, where poll(2) and the epolls of the application
 * leave it, and where only epoll_wait() takes it out. Taken out by another mask, it would stay in the list, and the next
 * entry would be no edge for an epoll of the application that is edge-triggered.
 */
bool
softrdma_readable_raise(const struct softrdma_readable *readable)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.ptr = NULL };
	return epoll_ctl(readable->fd, EPOLL_CTL_MOD, readable->source->fd, &ev) == 0;
}

/*
 * Sockets in the epoll that have input go to the end of the list, so each call comes to others. While another thread looks at
 * the list, some kernels let epoll_wait(2) without a timeout find nothing in it; poll(2) waits for that thread.
 */
void
softrdma_readable_clear(const struct softrdma_readable *readable, unsigned sockets)
{
	struct epoll_event events[EVENTS_MAX];
	struct pollfd pfd = { .fd = readable->fd, .events = POLLIN };
	for (unsigned looks = 0; looks <= sockets + LOOKS_SPARE; looks++) {
		const int count = epoll_wait(readable->fd, events, EVENTS_MAX, 0);
		for (int i = 0; i < count; i++) {
			if (events[i].data.ptr == NULL)
				return;
		}
		if (count <= 0 && poll(&pfd, 1, 0) <= 0)
			return;
	}
}
