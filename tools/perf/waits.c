/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* waits.c -- the ways in which a thread waits for completions */

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "waits.h"

#define LOOK_MS 100 /* interval at which a sleeping thread checks whether to end */

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

/* sleeps until a queue has an event, and takes it; no other thread takes events, so taking does not sleep */
static void
poll_descriptors(struct waits *waits)
{
	const struct timespec timeout = { .tv_nsec = LOOK_MS * 1000000 };
	if (ppoll(waits->pfds, waits->count, &timeout, NULL) <= 0)
		return;
	for (uint32_t i = 0; i < waits->count; i++)
		if (waits->pfds[i].revents)
			(void)rpma_cq_wait(waits->cqs[i]);
}

void
waits_for_any(struct waits *waits)
{
	if (waits->way == WAY_CQ_WAIT && waits->count == 1)
		(void)rpma_cq_wait(waits->cqs[0]);
	else if (waits->way == WAY_CQ_WAIT || waits->way == WAY_FD)
		poll_descriptors(waits);
}

void
waits_briefly(struct waits *waits)
{
	if (waits->way == WAY_CQ_WAIT && waits->count == 1)
		(void)rpma_cq_wait_timed(waits->cqs[0], LOOK_MS);
	else
		waits_for_any(waits);
}
