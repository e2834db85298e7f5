/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* timeout.h -- waiting for a descriptor, with a time limit */

#ifndef RPMAI_TIMEOUT_H
#define RPMAI_TIMEOUT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* a point of monotonic time in ns that never comes */
#define DEADLINE_NEVER UINT64_MAX

/* monotonic time in ns */
uint64_t rpmai_timeout_now(void);

/* the time timeout_ms from now; DEADLINE_NEVER for -1 */
uint64_t rpmai_timeout_deadline(int timeout_ms);

/* the rest of the time in ms, rounded up; -1 for DEADLINE_NEVER, 0 if it has passed */
int rpmai_timeout_left(uint64_t deadline);

/* checks that timeout_ms is -1 or more. RPMA_E_INVAL */
int rpmai_timeout_check(int timeout_ms);

/* 1 if fd is readable before the deadline, else 0 (also if a signal was handled); RPMA_E_PROVIDER */
int rpmai_timeout_readable(int fd, uint64_t deadline);

/* lets one thread at a time proceed; other threads wait for their turn, with a time limit */
struct turn {
	pthread_mutex_t lock;
	pthread_cond_t free;
	bool is_taken;
};

void rpmai_turn_init(struct turn *turn);
void rpmai_turn_fini(struct turn *turn);

/* true if this thread got its turn before the deadline */
bool rpmai_turn_take(struct turn *turn, uint64_t deadline);
/* arg: a struct turn. A routine of pthread_cleanup_push(3), for a thread that is cancelled while it has its turn. */
void rpmai_turn_give(void *arg);

#endif /* RPMAI_TIMEOUT_H */
