/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * waits.h -- the ways in which a thread waits for completions
 *
 * A thread with one connection can sleep in rpma_cq_wait. A thread with several connections would see only one
 * of their queues there. So it waits for all descriptors by poll(2) and takes the events, as a program does.
 */

#ifndef PERF_WAITS_H
#define PERF_WAITS_H

#include <poll.h>

#include "load.h"
#include "why.h"

/* as users write it */
const char *way_name(enum way way);
/* WAY_COUNT if no way has this name */
enum way way_parse(const char *name);

/* the completion queues of one thread, and how it waits for them */
struct waits {
	enum way way;
	uint32_t count;
	struct rpma_cq **cqs;
	struct pollfd *pfds;
};

/* makes a set without queues that has room for capacity of them; false: nothing is left behind */
bool waits_open(struct waits *waits, enum way way, uint32_t capacity, char why[static WHY_MAX]);
void waits_add(struct waits *waits, struct rpma_cq *cq, int fd);
void waits_close(struct waits *waits);

#define WAITS_NO_LIMIT UINT64_MAX

/*
 * Waits in the chosen way until there may be a completion; a thread that polls returns at once. A thread that waits
 * for descriptors returns at the given time at the latest. rpma_cq_wait has no limit of time: so an operation must
 * be in flight, or a receive that something completes. Errors are found when completions are collected.
 */
void waits_for_any(struct waits *waits, uint64_t until_ns);
/* the same, for a limited time */
void waits_briefly(struct waits *waits);
/* sleeps until that time, or for a limited time, without looking for completions */
void waits_until(uint64_t ns);

#endif /* PERF_WAITS_H */
