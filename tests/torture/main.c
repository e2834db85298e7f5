/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* main.c -- which scenarios, which calls, and how many of them */

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "deadline.h"
#include "torture.h"

#define SCENARIOS_MAX 512
#define NAME_LEN 64
#define SAMPLE_DEFAULT 25
/* calls are not always as many: the last one has been found when so many in a row are not reached any more */
#define UNREACHED 3
/* of a scenario with more calls than this not all of them fail, but so many, at the same distance */
#define CALLS_MAX 1000
#define BAR_WIDTH 30

struct settings {
	const char *only; /* patterns, separated by '|' */
	bool all;
	bool list;
	unsigned sample;  /* calls for each scenario */
	unsigned seconds; /* 0: no limit */
	int64_t end;      /* now_ms() when they are over */
	unsigned seed;
	unsigned long max_call; /* 0: no limit */
	unsigned long call;     /* this one only; 0: not so */
	int from;               /* the mode of it: 0, 1, -1 for both */
	const char *dir;
};

struct totals {
	unsigned long passed, failed, skipped;
	unsigned long scenarios;
};

struct entry {
	struct torture_scenario scenario;
	char name[NAME_LEN];
	unsigned long calls; /* when nothing fails */
	bool usable;
};

static struct entry entries[SCENARIOS_MAX];
static size_t entry_count;

static const char usage_text[] =
	"usage: torture [--list] [--only PATTERN[|PATTERN...]] [--all [--max-call K]]\n"
	"               [--sample N] [--seed S] [--seconds T] [--dir DIRECTORY]\n"
	"               [--call K [--mode once|from]]\n"
	"Runs each scenario again and again, each time with another call of the library failing. --all: every\n"
	"call (a thousand of those that make more); else N random ones of each scenario, at most for T seconds.\n"
	"--call: this one only, to look at a failure again (with its --seed).\n";

static _Noreturn void
usage(int status)
{
	fputs(usage_text, status ? stderr : stdout);
	exit(status);
}

static unsigned long
number(const char *text)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 0);
	if (errno || *end || end == text || value > UINT32_MAX)
		usage(2);
	return value;
}

static void
take_option(struct settings *s, int opt)
{
	switch (opt) {
	case 'l':
		s->list = true;
		break;
	case 'o':
		s->only = optarg;
		break;
	case 'a':
		s->all = true;
		break;
	case 'x':
		s->max_call = number(optarg);
		break;
	case 'n':
		s->sample = (unsigned)number(optarg);
		break;
	case 's':
		s->seed = (unsigned)number(optarg);
		break;
	case 't':
		s->seconds = (unsigned)number(optarg);
		break;
	case 'd':
		s->dir = optarg;
		break;
	case 'k':
		s->call = number(optarg);
		break;
	case 'm':
		if (strcmp(optarg, "once") != 0 && strcmp(optarg, "from") != 0)
			usage(2);
		s->from = !strcmp(optarg, "from");
		break;
	default:
		usage(opt == 'h' ? 0 : 2);
	}
}

static void
parse(struct settings *s, int argc, char **argv)
{
	static const struct option options[] = {
		{ "list", no_argument, NULL, 'l' },
		{ "only", required_argument, NULL, 'o' },
		{ "all", no_argument, NULL, 'a' },
		{ "max-call", required_argument, NULL, 'x' },
		{ "sample", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 't' },
		{ "dir", required_argument, NULL, 'd' },
		{ "call", required_argument, NULL, 'k' },
		{ "mode", required_argument, NULL, 'm' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	s->sample = SAMPLE_DEFAULT;
	s->seed = (unsigned)time(NULL);
	s->from = -1;
	s->dir = ".";
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		take_option(s, opt);
	if (optind < argc)
		usage(2);
}

/* does one of the patterns fit? */
static bool
wanted(const char *name, const char *only)
{
	char pattern[256];

	for (const char *p = only; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL) {
		snprintf(pattern, sizeof(pattern), "%.*s", (int)strcspn(p, "|"), p);
		if (!fnmatch(pattern, name, 0))
			return true;
	}
	return !only;
}

static void
add(const struct torture_scenario *scenario, const char *prefix, const struct settings *s)
{
	struct entry *e = &entries[entry_count];

	if (entry_count == SCENARIOS_MAX) {
		fprintf(stderr, "torture: more scenarios than there is room for\n");
		exit(EXIT_FAILURE);
	}
	snprintf(e->name, sizeof(e->name), "%s%s", prefix, scenario->name);
	if (!wanted(e->name, s->only))
		return;
	e->scenario = *scenario;
	e->scenario.name = e->name;
	e->usable = true;
	entry_count++;
}

static void
add_table(const struct torture_scenario *table, const struct settings *s)
{
	for (; table->name; table++)
		add(table, "", s);
}

static void
add_all(const struct settings *s)
{
	add_table(object_scenarios, s);
	add_table(connection_scenarios, s);
	add_table(operation_scenarios, s);
	for (const struct scenario *c = conformance_next(NULL); c; c = conformance_next(c)) {
		const struct torture_scenario wrapped = { .name = conformance_name(c), .conformance = c };

		add(&wrapped, "conf-", s);
	}
}

/* on a terminal: what is going on */
static void
show_progress(const struct entry *e, unsigned long done, unsigned long of)
{
	static int64_t last;
	int filled = of ? (int)(done * BAR_WIDTH / of) : 0;

	if (!isatty(STDOUT_FILENO) || now_ms() - last < 100)
		return;
	last = now_ms();
	if (filled > BAR_WIDTH)
		filled = BAR_WIDTH;
	printf("\r[%.*s%*s] %lu/%lu %-32.32s", filled, "##############################", BAR_WIDTH - filled,
		"", done, of, e->name);
	fflush(stdout);
}

static void
clear_progress(void)
{
	if (isatty(STDOUT_FILENO))
		printf("\r%*s\r", BAR_WIDTH + 64, "");
}

/* one run; true: the call was reached */
static bool
run(struct entry *e, const struct settings *s, unsigned long k, bool from, struct totals *t)
{
	struct run r = { .scenario = &e->scenario, .k = k, .from = from, .seed = s->seed, .dir = s->dir };

	switch (run_one(&r)) {
	case RUN_PASSED:
		t->passed++;
		break;
	case RUN_FAILED:
		t->failed++;
		break;
	default:
		t->skipped++;
		e->usable = false;
		break;
	}
	if (k == 0)
		e->calls = r.calls;
	return r.used;
}

/* without a fault: what does not even pass that is left out of the rest */
static void
count_calls(const struct settings *s, struct totals *t)
{
	for (size_t i = 0; i < entry_count; i++) {
		unsigned long failed = t->failed;

		show_progress(&entries[i], i, entry_count);
		run(&entries[i], s, 0, false, t);
		if (t->failed > failed)
			entries[i].usable = false;
		t->scenarios += entries[i].usable;
	}
	clear_progress();
}

static void
run_all_calls(struct entry *e, const struct settings *s, bool from, struct totals *t)
{
	unsigned long step = 1 + e->calls / CALLS_MAX;
	int unreached = 0;

	for (unsigned long k = 1 + s->seed % step; unreached < UNREACHED; k += step) {
		if (s->max_call && k > s->max_call)
			return;
		show_progress(e, k, e->calls);
		unreached = run(e, s, k, from, t) ? 0 : unreached + 1;
	}
}

static void
run_everything(const struct settings *s, struct totals *t)
{
	for (size_t i = 0; i < entry_count; i++) {
		struct entry *e = &entries[i];
		unsigned long before = t->passed + t->failed, failed = t->failed;

		if (!e->usable)
			continue;
		run_all_calls(e, s, false, t);
		run_all_calls(e, s, true, t);
		clear_progress();
		printf("%-40s %4lu calls, %4lu runs, %lu failed\n", e->name, e->calls,
			t->passed + t->failed - before, t->failed - failed);
		fflush(stdout);
	}
}

/* each scenario gets its turn in each round, so that a limit of time is fair to all of them */
static void
run_sample(const struct settings *s, struct totals *t)
{
	unsigned short state[3] = { 0x330e, (unsigned short)s->seed, (unsigned short)(s->seed >> 16) };

	for (unsigned round = 0; round < s->sample; round++) {
		for (size_t i = 0; i < entry_count; i++) {
			struct entry *e = &entries[i];
			unsigned long k = 1 + (unsigned long)nrand48(state) % (e->calls ? e->calls : 1);
			bool from = nrand48(state) & 1;

			/* the generator goes on for those that are left out too: the rest stays the same */
			if (!e->usable || round >= 2 * e->calls)
				continue;
			if (s->seconds && now_ms() >= s->end)
				return;
			show_progress(e, round * entry_count + i, s->sample * entry_count);
			run(e, s, k, from, t);
		}
	}
}

static void
run_call(const struct settings *s, struct totals *t)
{
	for (size_t i = 0; i < entry_count; i++) {
		for (int from = 0; from < 2; from++) {
			if (s->from < 0 || s->from == from)
				run(&entries[i], s, s->call, from, t);
		}
	}
}

int
main(int argc, char **argv)
{
	struct settings s = { 0 };
	struct totals t = { 0 };

	parse(&s, argc, argv);
	s.end = now_ms() + (int64_t)s.seconds * 1000;
	if (!documented_read(TORTURE_HEADER)) {
		perror("torture: " TORTURE_HEADER);
		return EXIT_FAILURE;
	}
	add_all(&s);
	for (size_t i = 0; s.list && i < entry_count; i++)
		printf("%s\n", entries[i].name);
	if (s.list)
		return 0;
	printf("seed %u\n", s.seed);
	if (s.call) {
		run_call(&s, &t);
	} else {
		count_calls(&s, &t);
		if (s.all)
			run_everything(&s, &t);
		else
			run_sample(&s, &t);
		clear_progress();
	}
	printf("%lu scenarios of which each can run, %lu skipped\n", t.scenarios, t.skipped);
	printf("%lu passed, %lu failed\n", t.passed, t.failed);
	return t.failed || !t.passed ? EXIT_FAILURE : EXIT_SUCCESS;
}
