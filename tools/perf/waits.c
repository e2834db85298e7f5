/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* waits.c -- the ways in which a thread waits for completions */

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
	*waits = (struct waits){ .way = way };
	waits->cqs = calloc(capacity, sizeof(struct rpma_cq *));
	waits->pfds = calloc(capacity, sizeof(*waits->pfds));
	if (waits->cqs && waits->pfds)
		return true;
	waits_close(waits);
	return why_say(why, "out of memory");
}

void
waits_add(struct waits *waits, struct rpma_cq *cq, int fd)
{
	waits->cqs[waits->count] = cq;
	waits->pfds[waits->count] = (struct pollfd){ .fd = fd, .events = POLLIN };
	waits->count++;
}

void
waits_close(struct waits *waits)
{
	free(waits->cqs);
	free(waits->pfds);
	*waits = (struct waits){ 0 };
}

/* the time until then, but at most until the thread has to look around */
static struct timespec
timeout_until(uint64_t until_ns)
{
	uint64_t now = until_ns == WAITS_NO_LIMIT ? 0 : now_ns();
	uint64_t left = until_ns > now ? until_ns - now : 0;
	return (struct timespec){ .tv_nsec = (long)(left < LOOK_NS ? left : LOOK_NS) };
}

/* sleeps until a queue has an event, and takes it; no other thread takes events, so taking does not sleep */
static void
poll_descriptors(struct waits *waits, uint64_t until_ns)
{
	const struct timespec timeout = timeout_until(until_ns);
	if (ppoll(waits->pfds, waits->count, &timeout, NULL) <= 0)
		return;
	for (uint32_t i = 0; i < waits->count; i++)
		if (waits->pfds[i].revents)
			(void)rpma_cq_wait(waits->cqs[i]);
}

void
waits_for_any(struct waits *waits, uint64_t until_ns)
{
	if (waits->way == WAY_CQ_WAIT && waits->count == 1)
		(void)rpma_cq_wait(waits->cqs[0]);
	else if (waits->way == WAY_CQ_WAIT || waits->way == WAY_FD)
		poll_descriptors(waits, until_ns);
}

void
waits_briefly(struct waits *waits)
{
	if (waits->way == WAY_CQ_WAIT && waits->count == 1)
		(void)rpma_cq_wait_timed(waits->cqs[0], LOOK_MS);
	else
		waits_for_any(waits, WAITS_NO_LIMIT);
}

void
waits_until(uint64_t ns)
{
	uint64_t latest = now_ns() + LOOK_NS;
	sleep_until(ns < latest ? ns : latest);
}
