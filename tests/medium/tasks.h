/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* tasks.h -- what faults_and_cuts does: independent pieces, which several workers take in turn */

#ifndef MEDIUM_TASKS_H
#define MEDIUM_TASKS_H

#include <stdbool.h>

#include "report.h"

struct task {
	char name[TASK_NAME_LEN];
	void (*run)(const struct task *);
	const void *config;  /* of the one who has added it */
	unsigned host;       /* whose flush fails */
	unsigned at;         /* number of the flush or work request that fails */
	unsigned connection; /* to which it belongs */
	unsigned mode;
};

/* adds a task if --only admits it; returns true if it did */
bool task_add(const struct task *task);

/*
 * Both find out by runs how many flushes and work requests there are, and add a task for each. The quick form
 * has each position once, the other one has all variants.
 */
void log_add_tasks(bool quick);
void examples_add_tasks(bool quick);

/* makes the files that runs begin with; before any task is added */
void log_make_bases(void);
void examples_make_bases(void);

/* a long log with random faults, kills and power cuts; the number makes its choices together with the seed */
void log_random(unsigned long number);

#endif /* MEDIUM_TASKS_H */
