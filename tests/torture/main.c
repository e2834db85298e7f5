/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* main.c -- options, the scenarios that are chosen, and what both modes do with them */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "mode.h"

#define SCENARIOS_MAX 512
#define CUT_SECONDS 20

struct settings settings = { .sample = 25 };
struct totals totals;
struct entry entries[SCENARIOS_MAX];
size_t entry_count;

/* what --pairs runs unless --only is given: a connection, ways to move data, durable memory, verbs */
static const char core_scenarios[] = "connect|write|send|flush-persistent-file|verbs-connect";

static const struct driver_option options[] = {
	{ "cut", NULL, "end the TCP stream after a byte, instead of letting a call fail",
		.flag = &settings.cut },
	{ DRIVER_LIST },
	{ DRIVER_ONLY },
	{ DRIVER_SEED },
	{ DRIVER_DIR, .help = "directory for the files of the scenarios" },
	{ DRIVER_SECONDS, .help = "end a sample after T seconds (default: no limit; with --cut 20)" },
	{ "all", NULL, "every call, or byte with --cut: up to 1,000 of a scenario, 1,200 of a direction",
		.flag = &settings.all },
	{ DRIVER_RESUME, .help = "keep in FILE what --all or --pairs has finished, and go on from there" },
	{ "sample", "N", "random calls of each scenario", .number = &settings.sample, .min = 1,
		.max = UINT32_MAX },
	{ "pairs", NULL,
		"two calls fail: in five scenarios unless --only is given, at most 20,000 pairs of each",
		.flag = &settings.pairs },
	{ "max-call", "K", "with --all: no call after the K-th", .number = &settings.max_call, .min = 1,
		.max = UINT32_MAX },
	{ "call", "K", "only the K-th call, to look at a failure again (with its --seed)",
		.number = &settings.call, .min = 1, .max = UINT32_MAX },
	{ "and", "L", "with --call: the L-th call too", .number = &settings.also, .min = 1,
		.max = UINT32_MAX },
	{ "mode", "once|from", "with --call: only this call, or this one and all that follow (default: both)",
		.text = &settings.mode, .is_choice = true },
	{ "how", "PATTERNS", "with --cut: only these cuts, for example 'reset-*' or 'stall-to-client'",
		.text = &settings.how },
	{ "byte", "N", "with --cut: only after the N-th byte, to look at a failure again",
		.number = &settings.byte, .min = 1, .max = UINT32_MAX },
	{ 0 },
};

static const struct driver_program torture = { "torture",
	"Runs each scenario again and again, each time with another call of the library failing. With --cut the TCP\n"
	"stream fails: it is reset, falls silent or ends in one direction, after a byte to the server or to the client.\n"
	"Without --all, --pairs, --call and --byte the calls or bytes are a random sample.",
	options };

static void
parse(int argc, char **argv)
{
	driver_parse(&torture, argc, argv);
	driver_excludes("cut", "sample|pairs|max-call|call|and|mode");
	driver_excludes("all", "pairs|sample|seconds|call|byte");
	driver_excludes("pairs", "sample|seconds|call");
	driver_needs("how", "cut");
	cuts_check_how();
	driver_needs("byte", "cut");
	driver_needs("and", "call");
	driver_needs("mode", "call");
	driver_needs("max-call", "all");
	driver_needs("resume", settings.cut ? "all" : "all|pairs");
	if (settings.pairs && !driver.only)
		driver.only = core_scenarios;
	if (settings.cut && !driver.seconds)
		driver.seconds = CUT_SECONDS;
}

/* ---- scenarios ---- */

static void
add(const struct torture_scenario *scenario, const char *prefix)
{
	struct entry *e = &entries[entry_count];

	if (entry_count == SCENARIOS_MAX) {
		fprintf(stderr, "torture: more than %d scenarios\n", SCENARIOS_MAX);
		exit(EXIT_FAILURE);
	}
	snprintf(e->name, sizeof(e->name), "%s%s", prefix, scenario->name);
	if (!driver_admits(e->name))
		return;
	e->scenario = *scenario;
	e->scenario.name = e->name;
	e->usable = true;
	entry_count++;
}

/* a cut needs a stream, and verbs that are the device's own */
static void
add_table(const struct torture_scenario *table)
{
	for (; table->name; table++) {
		if (!settings.cut || !table->plan.faulty_verbs)
			add(table, "");
	}
}

static void
add_all(void)
{
	add_table(settings.cut ? exchange_scenarios : object_scenarios);
	add_table(connection_scenarios);
	add_table(operation_scenarios);
	add_table(beyond_scenarios);
	for (const struct scenario *c = conformance_next(NULL); c; c = conformance_next(c)) {
		const struct torture_scenario wrapped = { .name = conformance_name(c), .conformance = c };

		add(&wrapped, "conf-");
	}
	driver_refuse_if_none(entry_count, "scenario");
}

void
show_progress(const struct entry *e, const char *part, unsigned long done, unsigned long of)
{
	driver_progress(done, of, "of %-.40s %s (%zu/%zu)", e->name, part, (size_t)(e - entries) + 1,
		entry_count);
}

bool
run_entry(struct entry *e, struct run *run)
{
	run->seed = (unsigned)driver.seed;
	run->dir = driver.dir;
	switch (run_one(run)) {
	case RUN_PASSED:
		totals.passed++;
		break;
	case RUN_FAILED:
		totals.failed++;
		break;
	default:
		totals.skipped++;
		e->usable = false;
		break;
	}
	return run->used;
}

/* ---- the resume file: a line for the run, and one with the number of runs for each part that has passed ---- */

bool
is_done(const struct entry *e, unsigned part)
{
	return e->done >> part & 1;
}

static void
name_part(const struct entry *e, unsigned part, char *name, size_t size)
{
	if (settings.cut)
		snprintf(name, size, "%s %s", e->name, cut_names[part]);
	else
		snprintf(name, size, "%s", e->name);
}

static void
take_line(char *line)
{
	char name[DRIVER_LINE_MAX], *number = strrchr(line, ' ');
	unsigned long runs = number ? strtoul(number, NULL, 10) : 0;

	if (number)
		*number = '\0';
	for (size_t i = 0; i < entry_count; i++) {
		for (unsigned part = 0; part < (settings.cut ? CUTS : 1); part++) {
			name_part(&entries[i], part, name, sizeof(name));
			if (strcmp(line, name) != 0)
				continue;
			entries[i].done |= 1u << part;
			totals.passed += runs;
			totals.at[part] += runs;
		}
	}
}

/* the seed of a run that goes on is the one it began with */
static void
resume(void)
{
	char first[DRIVER_LINE_MAX], rest[DRIVER_LINE_MAX], line[DRIVER_LINE_MAX];
	bool goes_on;
	FILE *f;

	if (settings.cut)
		snprintf(first, sizeof(first), "cuts %s", driver_build());
	else
		snprintf(first, sizeof(first), "%s %s max-call %lu", settings.pairs ? "pairs" : "all",
			driver_build(), settings.max_call);
	f = driver_open_resume(rest, "%s", first);
	goes_on = f && sscanf(rest, " seed %lu", &driver.seed) == 1;
	while (goes_on && fgets(line, sizeof(line), f))
		take_line(line);
	if (f)
		fclose(f);
	if (!goes_on)
		driver_save("%s seed %lu\n", first, driver.seed);
}

void
remember(struct entry *e, unsigned part, unsigned long runs)
{
	char name[DRIVER_LINE_MAX];

	name_part(e, part, name, sizeof(name));
	driver_append("%s %lu\n", name, runs);
}

int
main(int argc, char **argv)
{
	char summary[160], skipped[48] = "";

	parse(argc, argv);
	if (!documented_read(TORTURE_HEADER)) {
		perror("torture: " TORTURE_HEADER);
		return EXIT_FAILURE;
	}
	add_all();
	for (size_t i = 0; driver.list && i < entry_count; i++)
		printf("%s\n", entries[i].name);
	if (driver.list)
		return EXIT_SUCCESS;
	resume();
	driver_print_seed();
	if (settings.cut)
		cuts_run(summary, sizeof(summary));
	else
		calls_run(summary, sizeof(summary));
	if (totals.skipped)
		snprintf(skipped, sizeof(skipped), ", %lu cannot run here", totals.skipped);
	return driver_close(totals.passed && !totals.failed, "%s, %lu failures%s", summary, totals.failed,
		skipped);
}
