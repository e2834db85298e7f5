/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* report.h -- what the workers of faults_and_cuts have done and found, in memory that they share */

#ifndef MEDIUM_REPORT_H
#define MEDIUM_REPORT_H

#include <stdatomic.h>
#include <stdbool.h>

#define TASK_NAME_LEN 128

enum finding {
	LOST,    /* an acknowledged record is not there */
	WRONG,   /* a log is damaged, or contains something that was not written */
	REFUSED, /* a majority with whole histories was refused, or did not get a writer in time */
	FAILED,  /* the test itself could not do what it wanted */
	FINDINGS,
};

struct totals {
	atomic_ulong tasks;
	atomic_ulong runs;       /* with faults */
	atomic_ulong struck;     /* runs in which a fault has occurred */
	atomic_ulong states;     /* that were looked at after a run, with and without power cuts */
	atomic_ulong cuts;       /* power cuts of one file */
	atomic_ulong recoveries; /* by a writer, a client or a server */
	atomic_ulong records;    /* acknowledged */
	atomic_ulong
		refused; /* clients of example 16 that end, since they cannot make durable what they have found */
	atomic_ulong spared;  /* tasks in which nothing was lost */
	atomic_ulong stalled; /* writers that made no progress for a while under faults */
	atomic_ulong found[FINDINGS];
};

extern struct totals *totals; /* shared by all workers */

/* the task of this worker, for its findings */
extern char task_name[TASK_NAME_LEN];
extern char task_detail[TASK_NAME_LEN];

/* prints a finding, and counts it; only the first ones are printed */
void report(enum finding finding, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* the test cannot go on: prints why, and ends the worker */
_Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* MEDIUM_REPORT_H */
