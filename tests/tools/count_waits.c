/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * count_waits.c -- preloaded into rpma-perf: counts the calls in which a program waits for completions, and writes
 * them into the file COUNT_WAITS when the program ends: "cq_wait N cq_wait_timed N epoll N"
 */

#include <librpma.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

static atomic_ulong cq_waits, timed_waits, epoll_waits;

static void *
real(const char *name)
{
	void *symbol = dlsym(RTLD_NEXT, name);
	if (symbol == NULL)
		abort();
	return symbol;
}

/* true in the threads of rpma-perf that wait for completions; other threads wait for other descriptors */
static bool
is_counted(void)
{
	char name[16];
	return pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 &&
		(strcmp(name, "perf-worker") == 0 || strcmp(name, "perf-receiver") == 0);
}

int
rpma_cq_wait(struct rpma_cq *cq)
{
	int (*call)(struct rpma_cq *);
	*(void **)&call = real("rpma_cq_wait");
	atomic_fetch_add(&cq_waits, is_counted());
	return call(cq);
}

int
rpma_cq_wait_timed(struct rpma_cq *cq, int timeout_ms)
{
	int (*call)(struct rpma_cq *, int);
	*(void **)&call = real("rpma_cq_wait_timed");
	atomic_fetch_add(&timed_waits, is_counted());
	return call(cq, timeout_ms);
}

/* true if this address is in the program: the library makes the same calls in the same threads */
static bool
is_program(const void *address)
{
	Dl_info info;
	return dladdr(address, &info) && strstr(info.dli_fname, "librpma.so") == NULL;
}

int
epoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
	int (*call)(int, struct epoll_event *, int, int);
	*(void **)&call = real("epoll_wait");
	atomic_fetch_add(&epoll_waits, is_counted() && is_program(__builtin_return_address(0)));
	return call(epfd, events, maxevents, timeout);
}

__attribute__((destructor)) static void
report(void)
{
	const char *path = getenv("COUNT_WAITS");
	FILE *file = path ? fopen(path, "we") : NULL;
	if (file == NULL)
		return;
	fprintf(file, "cq_wait %lu cq_wait_timed %lu epoll %lu\n", cq_waits, timed_waits, epoll_waits);
	fclose(file);
}
