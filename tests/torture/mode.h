/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * mode.h -- what the two modes of torture share: options, scenarios, totals, the resume file
 *
 * calls.c makes calls of the library fail. cuts.c (--cut) ends the TCP stream between the two sides after a
 * chosen byte; the promises of torture.h hold for a cut as for a call that fails.
 */

#ifndef TORTURE_MODE_H
#define TORTURE_MODE_H

#include "torture.h"

/*
 * The number of fallible calls and of bytes differs a little from run to run: the last one has been found if
 * this many in a row are not reached.
 */
#define UNREACHED 3
/* ways to cut a stream: three kinds, in two directions */
#define CUTS 6

struct settings {
	bool cut, all, pairs;
	unsigned long sample;   /* calls of each scenario */
	unsigned long max_call; /* 0: no limit */
	unsigned long call;     /* the only call that fails; 0: several runs */
	unsigned long also;     /* a second one; 0: none */
	const char *mode;       /* "once" or "from"; NULL: both */
	const char *how;        /* patterns for the names of cuts; NULL: all of them */
	unsigned long byte;     /* the only byte that is cut at; 0: several runs */
};

struct entry {
	struct torture_scenario scenario;
	char name[96];
	bool usable;            /* false if it cannot run here, or fails without a fault */
	unsigned done;          /* bits of the parts that the resume file has */
	unsigned long calls;    /* of a run without a fault */
	unsigned long bytes[2]; /* likewise: to the server, to the client */
};

struct totals {
	unsigned long passed, failed, skipped;
	unsigned long at[CUTS]; /* runs in which the cut happened */
};

extern struct settings settings;
extern struct totals totals;
extern struct entry entries[];
extern size_t entry_count;

/* runs an entry once and counts the result; true if the fault happened */
bool run_entry(struct entry *e, struct run *run);
/* parts of an entry: 0 for calls, one of CUTS for cuts */
bool is_done(const struct entry *e, unsigned part);
void remember(struct entry *e, unsigned part, unsigned long runs);
/* on a terminal: `done` of `of` in the part that is named, "" if the entry has only one */
void show_progress(const struct entry *e, const char *part, unsigned long done, unsigned long of);

/* refuses a --how that matches no cut */
void cuts_check_how(void);

/* each runs what the settings ask for, and formats the beginning of the closing line */
void calls_run(char *summary, size_t size);
void cuts_run(char *summary, size_t size);

extern const char *const cut_names[CUTS];
/* exchange.c: several operations at a time, written as letters */
extern const struct torture_scenario exchange_scenarios[];

#endif /* TORTURE_MODE_H */
