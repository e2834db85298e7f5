/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* cuts.c -- after which bytes the TCP stream of a scenario is cut, and how */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "fault.h"
#include "mode.h"
#include "options.h"
#include "proxy.h"

/* If a direction has more bytes than this, it is cut at this many of them, evenly spaced. */
#define BYTES_MAX 1200
/* ms until a silent connection is reset, in scenarios that would wait for it for ever */
#define STALL_MS 150

_Static_assert(CUTS == 2 * CUT_KINDS, "each kind has a name for each direction");
const char *const cut_names[CUTS] = { "reset-to-server", "reset-to-client", "stall-to-server",
	"stall-to-client", "fin-to-server", "fin-to-client" };

/* ---- one run ---- */

/* the cut of the next run; its process inherits it */
static struct {
	const struct torture_scenario *scenario;
	struct cut cut;
	unsigned long byte;
	bool again; /* the second attempt, which is not cut */
} now;

static bool
run_cut(struct world *w)
{
	const struct plan plan = w->plan;
	bool done = true;

	fault_arm(now.again ? 0 : now.byte, FAULT_ONCE, FAULT_STREAM, 0);
	now.again = true;
	proxy_start(&now.cut);
	if (now.scenario->conformance)
		conformance_run(now.scenario->conformance, w->dir);
	else
		done = now.scenario->run(w);
	world_close(w);
	proxy_stop();
	world_open(w, &plan, w->dir); /* the caller closes this one, which is empty */
	return done;
}

static bool
waits_for_ever(const struct torture_scenario *s)
{
	return s->conformance || !strcmp(s->name, "write-truncated") || !strcmp(s->name, "write-flush-dereg");
}

/* true if the cut happened */
static bool
run(struct entry *e, unsigned how, unsigned long byte)
{
	char name[DRIVER_LINE_MAX];
	struct torture_scenario scenario = { .name = name, .run = run_cut, .plan = e->scenario.plan };
	struct run r = { .scenario = &scenario, .k = byte };

	now.scenario = &e->scenario;
	now.byte = byte;
	now.again = false;
	now.cut.kind = (enum cut_kind)(how / 2);
	now.cut.to_client = how % 2;
	now.cut.stall_ms = waits_for_ever(&e->scenario) ? STALL_MS : 0;
	snprintf(name, sizeof(name), "%s, %s", e->name, cut_names[how]);
	scenario.plan.silence = now.cut.kind == CUT_STALL;
	totals.at[how] += run_entry(e, &r);
	if (byte == 0)
		e->bytes[how % 2] = r.calls;
	return r.used;
}

/* runs the scenario without a cut; if it fails even so it is left out afterwards */
static void
count_bytes(struct entry *e)
{
	unsigned long failed = totals.failed;

	for (unsigned direction = 0; direction < 2 && e->usable; direction++)
		run(e, direction, 0);
	if (totals.failed > failed)
		e->usable = false;
}

static bool
is_asked_for(unsigned how)
{
	return option_matches(settings.how, cut_names[how]);
}

void
cuts_check_how(void)
{
	for (unsigned how = 0; how < CUTS; how++)
		if (is_asked_for(how))
			return;
	driver_refuse("--how: '%s' matches no cut, such as %s", settings.how, cut_names[0]);
}

/* ---- all bytes ---- */

static void
run_all_bytes(struct entry *e, unsigned how)
{
	unsigned long of = e->bytes[how % 2];
	unsigned long step = 1 + of / BYTES_MAX;
	int unreached = 0;

	for (unsigned long byte = 1 + driver.seed % step; unreached < UNREACHED; byte += step) {
		show_progress(e, cut_names[how], byte, of);
		unreached = run(e, how, byte) ? 0 : unreached + 1;
		if (!e->usable)
			return;
	}
}

static bool
is_wanted(const struct entry *e, unsigned how)
{
	return is_asked_for(how) && !is_done(e, how);
}

static bool
is_any_wanted(const struct entry *e)
{
	for (unsigned how = 0; how < CUTS; how++)
		if (is_wanted(e, how))
			return true;
	return false;
}

static void
run_all_cuts(struct entry *e)
{
	for (unsigned how = 0; how < CUTS && e->usable; how++) {
		unsigned long failed = totals.failed, at = totals.at[how];

		if (!is_wanted(e, how))
			continue;
		run_all_bytes(e, how);
		if (totals.failed == failed)
			remember(e, how, totals.at[how] - at);
	}
}

static void
run_everything(void)
{
	for (size_t i = 0; i < entry_count; i++) {
		struct entry *e = &entries[i];
		unsigned long before = totals.passed + totals.failed, failed = totals.failed;

		if (!is_any_wanted(e))
			continue;
		count_bytes(e);
		run_all_cuts(e);
		driver_clear_progress();
		printf("%-40s %6lu bytes to the server, %6lu to the client, %5lu runs, %lu failed\n", e->name,
			e->bytes[0], e->bytes[1], totals.passed + totals.failed - before,
			totals.failed - failed);
		fflush(stdout);
	}
}

/* ---- a sample, and one byte ---- */

/* any scenario at any byte; early bytes are more likely, as the number of bytes is not known */
static void
run_sample(void)
{
	srand48((long)driver.seed);
	while (!driver_is_time_over()) {
		struct entry *e = &entries[(size_t)lrand48() % entry_count];
		unsigned how = (unsigned)lrand48() % CUTS;
		unsigned long limit = 1ul << (5 + lrand48() % 6);
		unsigned long byte = 1 + (unsigned long)lrand48() % limit;

		if (e->usable && is_asked_for(how))
			run(e, how, byte);
	}
}

static void
run_byte(void)
{
	for (size_t i = 0; i < entry_count; i++)
		for (unsigned how = 0; how < CUTS; how++)
			if (is_asked_for(how))
				run(&entries[i], how, settings.byte);
}

void
cuts_run(char *summary, size_t size)
{
	const unsigned long *at = totals.at;

	if (settings.byte)
		run_byte();
	else if (settings.all)
		run_everything();
	else
		run_sample();
	snprintf(summary, size, "%lu runs, %lu of them cut (%lu resets, %lu stalls, %lu half-closes)",
		totals.passed + totals.failed, at[0] + at[1] + at[2] + at[3] + at[4] + at[5], at[0] + at[1],
		at[2] + at[3], at[4] + at[5]);
}
