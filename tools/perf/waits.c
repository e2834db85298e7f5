/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* waits.c -- the ways in which a thread waits for completions */

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "waits.h"

#define LOOK_MS 100 /* interval at which a sleeping thread checks whether to end */
#define LOOK_NS (LOOK_MS * UINT64_C(1000000))

static const char *const names[WAY_COUNT] = {
	[WAY_POLL] = "poll",
	[WAY_CQ_WAIT] = "cq_wait",
	[WAY_FD] = "fd",
	[WAY_PAUSE] = "pause",
};

const char *
way_name(enum way way)
{
	assert(way < WAY_COUNT);
	return names[way];
}

enum way
way_parse(const char *name)
{
	for (int i = 0; i < WAY_COUNT; i++)
		if (strcmp(name, names[i]) == 0)
			return (enum way)i;
	return WAY_COUNT;
}

bool
waits_open(struct waits *waits, enum way way, uint32_t capacity, char why[static WHY_MAX])
{
	*waits = (struct waits){ .way = way, .epoll_fd = -1 };
	waits->is_loop = way == WAY_FD || (way == WAY_CQ_WAIT && capacity > 1);
	waits->cqs = calloc(capacity, sizeof(struct rpma_cq *));
	waits->events = calloc(capacity, sizeof(*waits->events));
	waits->ready = calloc(capacity, sizeof(*waits->ready));
	bool good = waits->cqs && waits->events && waits->ready ? true : why_say(why, "out of memory");
	if (good && waits->is_loop) {
		waits->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		good = waits->epoll_fd >= 0 ? true : why_say(why, "epoll_create1: %m");
	}
	if (!good)
		waits_close(waits);
	return good;
}

bool
waits_add(struct waits *waits, struct rpma_cq *cq, int fd, char why[static WHY_MAX])
{
	const uint32_t number = waits->count++;
	waits->cqs[number] = cq;
	waits->ready[number] = number;
	waits->ready_count = waits->count;
	if (!waits->is_loop)
		return true;
	/* as event loops do, which sleep in one place only */
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return why_say(why, "O_NONBLOCK: %m");
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = number };
	if (epoll_ctl(waits->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return why_say(why, "epoll_ctl: %m");
	return true;
}

void
waits_close(struct waits *waits)
{
	free(waits->cqs);
	free(waits->events);
	free(waits->ready);
	if (waits->epoll_fd >= 0)
		close(waits->epoll_fd);
	*waits = (struct waits){ .epoll_fd = -1 };
}

void
waits_all_ready(struct waits *waits)
{
	for (uint32_t i = 0; i < waits->count; i++)
		waits->ready[i] = i;
	waits->ready_count = waits->count;
	waits->has_events = false;
}

void
waits_take(const struct waits *waits, uint32_t i)
{
	if (waits->has_events)
		(void)rpma_cq_wait(waits->cqs[waits->ready[i]]);
}

void
waits_take_all(const struct waits *waits)
{
	for (uint32_t i = 0; i < waits->ready_count; i++)
		waits_take(waits, i);
}

/* the time until then, but at most until the thread has to look around */
static struct timespec
timeout_until(uint64_t until_ns)
{
	uint64_t now = until_ns == WAITS_NO_LIMIT ? 0 : now_ns();
	uint64_t left = until_ns > now ? until_ns - now : 0;
	return (struct timespec){ .tv_nsec = (long)(left < LOOK_NS ? left : LOOK_NS) };
}

/* sleeps until descriptors are readable */
static void
wait_in_epoll(struct waits *waits, uint64_t until_ns)
{
	int timeout_ms = LOOK_MS;
	/* epoll_wait counts in milliseconds, which is more than an operation takes */
	if (until_ns != WAITS_NO_LIMIT) {
		const struct timespec timeout = timeout_until(until_ns);
		struct pollfd pfd = { .fd = waits->epoll_fd, .events = POLLIN };
		(void)ppoll(&pfd, 1, &timeout, NULL);
		timeout_ms = 0;
	}
	int got = epoll_wait(waits->epoll_fd, waits->events, (int)waits->count, timeout_ms);
	waits->ready_count = got > 0 ? (uint32_t)got : 0;
	waits->has_events = true;
	for (uint32_t i = 0; i < waits->ready_count; i++)
		waits->ready[i] = waits->events[i].data.u32;
}

void
waits_for_any(struct waits *waits, uint64_t until_ns)
{
	if (waits->is_loop)
		wait_in_epoll(waits, until_ns);
	else if (waits->way == WAY_CQ_WAIT)
		(void)rpma_cq_wait(waits->cqs[0]);
}

void
waits_briefly(struct waits *waits)
{
	if (waits->way == WAY_CQ_WAIT && !waits->is_loop)
		(void)rpma_cq_wait_timed(waits->cqs[0], LOOK_MS);
	else
		waits_for_any(waits, WAITS_NO_LIMIT);
	waits_take_all(waits);
}

void
waits_until(uint64_t ns)
{
	uint64_t latest = now_ns() + LOOK_NS;
	sleep_until(ns < latest ? ns : latest);
}
