/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fault_plan.h -- the fault plan in force: SOFTRDMA_FAULTS, or the file that it names
 *
 * The variable is read each time that a program opens the device. If its content has changed, a new plan is in
 * force from then on, and its counts start at 0. Existing connections keep the plan they were made with. So a
 * program with many tests can set the variable for each test.
 */

#ifndef SOFTRDMA_FAULT_PLAN_H
#define SOFTRDMA_FAULT_PLAN_H

#include <stdatomic.h>

#include "softrdma/faults/fault_spec.h"

struct softrdma_fault_plan {
	struct softrdma_fault_spec spec;
	atomic_uint refs;
	/* counts of connections and connection requests so far; they select which ones a fault strikes */
	atomic_uint_fast64_t connections, requests;
	size_t len;
	char text[]; /* the text that the plan was parsed from */
};

/*
 * Called first by all functions that open the device. 0; EINVAL if the variable or the file is wrong, with a log
 * line that says where; or ENOMEM. After an error the previous plan stays in force. Any thread.
 */
int softrdma_fault_plan_read(void);

/* the plan in force, with a reference; NULL: none. Any thread, under any lock. */
struct softrdma_fault_plan *softrdma_fault_plan_get(void);
/* releases the reference; plan may be NULL. Any thread, under any lock. */
void softrdma_fault_plan_put(struct softrdma_fault_plan *plan);

/* counts a connection request that has arrived; true if it is to be rejected. Any thread, under any lock. */
bool softrdma_fault_plan_rejects(void);

#endif /* SOFTRDMA_FAULT_PLAN_H */
