/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * waits.h -- the ways in which a thread waits for completions
 *
 * A thread with one connection can sleep in rpma_cq_wait. A thread with several connections would see only one
 * of their queues there. So it is an event loop, as a service is: it sleeps in epoll_wait(2) on the descriptors of all
 * queues, and looks only at the queues whose descriptors are readable.
 */

#ifndef PERF_WAITS_H
#define PERF_WAITS_H

#include <sys/epoll.h>

#include "load.h"
#include "why.h"

/* as users write it */
const char *way_name(enum way way);
/* WAY_COUNT if no way has this name */
enum way way_parse(const char *name);

/* the completion queues of one thread, and how it waits for them */
struct waits {
	enum way way;
	bool is_loop; /* it is an event loop */
	uint32_t count;
	struct rpma_cq **cqs;
	/* of an event loop */
	int epoll_fd;
	struct epoll_event *events;
	uint32_t *ready; /* the queues to look at, as numbers in the order in which they were added */
	uint32_t ready_count;
	bool has_events; /* true if these are the queues whose descriptors were readable */
};

/* makes a set without queues that gets capacity of them; false: nothing is left behind */
bool waits_open(struct waits *waits, enum way way, uint32_t capacity, char why[static WHY_MAX]);
/* an event loop looks at a new queue before it first waits */
bool waits_add(struct waits *waits, struct rpma_cq *cq, int fd, char why[static WHY_MAX]);
void waits_close(struct waits *waits);

/* of an event loop: it looks at another queue after this many looks at one, so that a busy one keeps none waiting */
#define WAITS_LOOKS_MAX 8

/* of an event loop: it has to look at all queues */
void waits_all_ready(struct waits *waits);
/* of an event loop: takes the event of ready queue number i; then the completions are collected until none is left */
void waits_take(const struct waits *waits, uint32_t i);
void waits_take_all(const struct waits *waits);

#define WAITS_NO_LIMIT UINT64_MAX

/*
 * Waits in the chosen way until there may be a completion; a thread that polls returns at once. An event loop finds
 * the queues in waits->ready, and returns at the given time at the latest. rpma_cq_wait has no limit of time: so an
 * operation must be in flight, or a receive that something completes. Errors are found when completions are collected.
 */
void waits_for_any(struct waits *waits, uint64_t until_ns);
/* the same, for a limited time; an event loop also takes the events */
void waits_briefly(struct waits *waits);
/* sleeps until that time, or for a limited time, without looking for completions */
void waits_until(uint64_t ns);

#endif /* PERF_WAITS_H */
