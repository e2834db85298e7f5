/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fault_plan.h -- the faults that are in force: SOFTRDMA_FAULTS, or the file that it names
 *
 * The variable is read whenever a program asks for the device. If it says something else than before, that
 * is in force from here on, and counting begins anew; connections keep what they were made under. So a
 * program of many tests may set it for each.
 */

#ifndef SOFTRDMA_FAULT_PLAN_H
#define SOFTRDMA_FAULT_PLAN_H

#include <stdatomic.h>

#include "faults.h"

struct softrdma_fault_plan {
	struct softrdma_faults faults;
	atomic_uint refs;
	/* so many there have been: the order numbers that decide */
	atomic_uint_fast64_t connections, requests;
	size_t len;
	char text[]; /* what it was read from */
};

/*
 * Whoever asks for the device calls this first. 0, EINVAL when the variable or the file is wrong, which the
 * log tells, or ENOMEM; then what was in force stays. Any thread.
 */
int softrdma_fault_plan_read(void);

/* what is in force, with a reference; NULL: nothing. Any thread, any lock. */
struct softrdma_fault_plan *softrdma_fault_plan_get(void);
/* gives the reference back; NULL is allowed. Any thread, any lock. */
void softrdma_fault_plan_put(struct softrdma_fault_plan *plan);

/* is the connection request that has just come one to be refused? Any thread, any lock. */
bool softrdma_fault_plan_rejects(void);

#endif /* SOFTRDMA_FAULT_PLAN_H */
