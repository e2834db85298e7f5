/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * worker.h -- the threads that post operations and collect their completions
 *
 * The phases of a run: WARM_UP (nothing counts), MEASURE, STOP. At each change, a thread posts nothing until
 * all its operations in flight have completed. So the operations that count were posted and completed within
 * the time that counts, which ends with the last completion. A connection that has posted its count stops by
 * itself. The failure of one thread ends all.
 */

#ifndef PERF_WORKER_H
#define PERF_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "histogram.h"
#include "initiator.h"
#include "waits.h"

enum phase { PHASE_WARM_UP, PHASE_MEASURE, PHASE_STOP };

struct run;

struct worker {
	struct run *run;
	pthread_t thread;
	uint32_t first;     /* its connections: this one, and every threads-th after it */
	struct waits waits; /* for their completion queues */
	enum phase phase;
	uint64_t ops; /* measured operations */
	uint64_t begin_ns;
	uint64_t end_ns; /* time of the last completion that counts */
	uint64_t wrong;
	char first_wrong[WHY_MAX];
	struct histogram latency;
	atomic_uint_fast64_t shown_ops; /* for the progress line */
};

struct run {
	struct initiator *initiator;
	uint64_t count; /* operations per connection; 0: until PHASE_STOP */
	_Atomic enum phase phase;
	atomic_uint running; /* number of running threads */
	atomic_uint entered; /* number of threads that have begun to measure */
	atomic_bool aborted;
	pthread_mutex_t why_lock;
	char why[WHY_MAX];
	uint32_t started;
	struct worker *workers;
};

/* starts the threads, in WARM_UP. After a failure no thread is left. */
bool run_start(struct run *run, struct initiator *initiator, uint64_t count, char why[static WHY_MAX]);
void run_enter(struct run *run, enum phase phase);
bool run_is_over(const struct run *run);
/* true if all threads have begun the entered phase; a slow one would miss a phase that ends too soon */
bool run_all_entered(const struct run *run);
/*
 * Makes all threads end without waiting for operations in flight, by ending their connections. The first reason
 * counts.
 */
void run_abort(struct run *run, const char *why);
/* waits for the threads; false if one has failed or run_abort was called */
bool run_join(struct run *run, char why[static WHY_MAX]);
/* number of operations so far; for display only */
uint64_t run_progress(const struct run *run);
/* frees the workers, after they were joined and their results were read */
void run_free(struct run *run);

#endif /* PERF_WORKER_H */
