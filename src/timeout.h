/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* timeout.h -- waiting for a descriptor, at most for a time */

#ifndef RPMAI_TIMEOUT_H
#define RPMAI_TIMEOUT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* a point of monotonic time in ns, or never */
#define DEADLINE_NEVER UINT64_MAX

/* monotonic time in ns */
uint64_t rpmai_timeout_now(void);

/* timeout_ms from now; -1: never */
uint64_t rpmai_timeout_deadline(int timeout_ms);

/* what is left of it in ms, rounded up; -1 for DEADLINE_NEVER, 0 if it has passed */
int rpmai_timeout_left(uint64_t deadline);

/* -1, 0 or more? RPMA_E_INVAL */
int rpmai_timeout_check(int timeout_ms);

/* is the descriptor readable before the deadline? 1, or 0 (also if a signal was handled); RPMA_E_PROVIDER */
int rpmai_timeout_readable(int fd, uint64_t deadline);

/* one thread at a time, and others wait for their turn no longer than they want to */
struct turn {
	pthread_mutex_t lock;
	pthread_cond_t free;
	bool is_taken;
};

void rpmai_turn_init(struct turn *turn);
void rpmai_turn_fini(struct turn *turn);

/* is it this thread's turn before the deadline? */
bool rpmai_turn_take(struct turn *turn, uint64_t deadline);
void rpmai_turn_give(struct turn *turn);

#endif /* RPMAI_TIMEOUT_H */
