/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* calls.c -- which calls of the library fail */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "mode.h"

/* If a scenario makes more calls than this, this many of them fail, evenly spaced. */
#define CALLS_MAX 1000
/* the same for pairs of calls */
#define PAIRS_MAX 20000

static unsigned long scenarios; /* that can run */

/* call k and call `also` fail, 0 for none; true if the fault happened */
static bool
run_pair(struct entry *e, unsigned long k, unsigned long also, bool from)
{
	struct run r = { .scenario = &e->scenario, .k = k, .also = also, .from = from };

	run_entry(e, &r);
	if (k == 0)
		e->calls = r.calls;
	return r.used;
}

/* runs every scenario without a fault; one that fails even so is left out afterwards */
static void
count_calls(void)
{
	for (size_t i = 0; i < entry_count; i++) {
		unsigned long failed = totals.failed;

		show_progress(&entries[i], "", i, entry_count);
		run_pair(&entries[i], 0, 0, false);
		if (totals.failed > failed)
			entries[i].usable = false;
		scenarios += entries[i].usable;
	}
	driver_clear_progress();
}

static void
run_all_calls(struct entry *e, bool from)
{
	unsigned long step = 1 + e->calls / CALLS_MAX;
	int unreached = 0;

	for (unsigned long k = 1 + driver.seed % step; unreached < UNREACHED; k += step) {
		if (settings.max_call && k > settings.max_call)
			return;
		show_progress(e, from ? "from" : "once", k, e->calls);
		unreached = run_pair(e, k, 0, from) ? 0 : unreached + 1;
	}
}

static void
run_pairs(struct entry *e)
{
	unsigned long of = e->calls * (e->calls - 1) / 2, step = 1 + of / PAIRS_MAX, n = 0;

	for (unsigned long k = 1; k < e->calls; k++) {
		for (unsigned long also = k + 1; also <= e->calls; also++, n++) {
			if (n % step != driver.seed % step)
				continue;
			show_progress(e, "pairs", n, of);
			run_pair(e, k, also, false);
		}
	}
}

static void
run_everything(void)
{
	for (size_t i = 0; i < entry_count; i++) {
		struct entry *e = &entries[i];
		unsigned long before = totals.passed + totals.failed, failed = totals.failed, runs;

		if (!e->usable || is_done(e, 0))
			continue;
		if (settings.pairs) {
			run_pairs(e);
		} else {
			run_all_calls(e, false);
			run_all_calls(e, true);
		}
		driver_clear_progress();
		runs = totals.passed + totals.failed - before;
		printf("%-40s %4lu calls, %4lu runs, %lu failed\n", e->name, e->calls, runs,
			totals.failed - failed);
		fflush(stdout);
		if (totals.failed == failed)
			remember(e, 0, runs);
	}
	if (driver.resume && !totals.failed)
		unlink(driver.resume);
}

/* each scenario gets its turn in each round, so that a limit of time is fair to all of them */
static void
run_sample(void)
{
	srand48((long)driver.seed);
	for (unsigned long round = 0; round < settings.sample; round++) {
		for (size_t i = 0; i < entry_count; i++) {
			struct entry *e = &entries[i];
			unsigned long k = 1 + (unsigned long)lrand48() % (e->calls ? e->calls : 1);
			bool from = lrand48() & 1;

			/* after the random numbers are drawn: an entry that is left out does not change the others */
			if (!e->usable || round >= 2 * e->calls)
				continue;
			if (driver_is_time_over())
				return;
			show_progress(e, "sample", round * entry_count + i, settings.sample * entry_count);
			run_pair(e, k, 0, from);
		}
	}
}

static void
run_call(void)
{
	scenarios = entry_count;
	for (size_t i = 0; i < entry_count; i++) {
		for (int from = 0; from < 2; from++) {
			if (!settings.mode || from == !strcmp(settings.mode, "from"))
				run_pair(&entries[i], settings.call, settings.also, from);
		}
	}
}

void
calls_run(char *summary, size_t size)
{
	if (settings.call) {
		run_call();
	} else {
		count_calls();
		if (settings.all || settings.pairs)
			run_everything();
		else
			run_sample();
	}
	snprintf(summary, size, "%lu runs of %lu scenarios", totals.passed + totals.failed, scenarios);
}
