/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* main.c -- which scenarios, which calls, and how many of them */

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cuts.h"
#include "deadline.h"
#include "options.h"
#include "torture.h"

#define SCENARIOS_MAX 512
#define NAME_LEN 64
#define SAMPLE_DEFAULT 25
/* calls are not always as many: the last one has been found when so many in a row are not reached any more */
#define UNREACHED 3
/* of a scenario with more calls than this not all of them fail, but so many, at the same distance */
#define CALLS_MAX 1000
/* the same for pairs of calls */
#define PAIRS_MAX 20000
#define BAR_WIDTH 30

struct settings {
	const char *only; /* patterns, separated by '|' */
	bool all;
	bool pairs;
	bool list;
	unsigned sample;  /* calls for each scenario */
	unsigned seconds; /* 0: no limit */
	int64_t end;      /* now_ms() when they are over */
	unsigned seed;
	unsigned long max_call; /* 0: no limit */
	unsigned long call;     /* this one only; 0: not so */
	unsigned long also;     /* and this one; 0: none */
	int from;               /* the mode of it: 0, 1, -1 for both */
	const char *resume;     /* the file that says what is done; NULL: none */
	const char *dir;
};

struct totals {
	unsigned long passed, failed, skipped;
	unsigned long scenarios; /* that can run */
};

struct entry {
	struct torture_scenario scenario;
	char name[NAME_LEN];
	unsigned long calls; /* when nothing fails */
	bool usable;
	bool done; /* before this program was started */
};

static struct entry entries[SCENARIOS_MAX];
static size_t entry_count;

/*
 * what --pairs runs unless --only says otherwise: a connection, the ways to move data, durable memory, verbs
 */
static const char core_scenarios[] = "connect|write|send|flush-persistent-file|verbs-connect";

static const char usage_text[] =
	"usage: torture [--list] [--only PATTERN[|PATTERN...]] [--seed S] [--dir DIRECTORY]\n"
	"               [--sample N [--seconds T]]\n"
	"               [--all [--max-call K] | --pairs] [--resume FILE]\n"
	"               [--call K [--and L] [--mode once|from]]\n"
	"       torture --cut ...: the TCP stream fails instead of a call; --cut --help has its options\n"
	"Runs each scenario again and again, each time with another call of the library failing: N random ones\n"
	"of each scenario, at most for T seconds.\n"
	"--all: every call, once and with all that follow (a thousand of those that make more).\n"
	"--pairs: two calls, of five scenarios (20,000 pairs of those that have more).\n"
	"--resume: FILE keeps what was finished without a failure, so that a run that is stopped goes on there.\n"
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
	unsigned long value;

	if (!option_number(text, 0, UINT32_MAX, &value))
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
	case 'p':
		s->pairs = true;
		break;
	case 'r':
		s->resume = optarg;
		break;
	case 'b':
		s->also = number(optarg);
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
		{ "pairs", no_argument, NULL, 'p' },
		{ "resume", required_argument, NULL, 'r' },
		{ "max-call", required_argument, NULL, 'x' },
		{ "sample", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 't' },
		{ "dir", required_argument, NULL, 'd' },
		{ "call", required_argument, NULL, 'k' },
		{ "and", required_argument, NULL, 'b' },
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
	if (optind < argc || (s->all && s->pairs) || (s->resume && !s->all && !s->pairs))
		usage(2);
	if (s->pairs && !s->only)
		s->only = core_scenarios;
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
	if (!option_matches(s->only, e->name))
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
	add_table(beyond_scenarios, s);
	for (const struct scenario *c = conformance_next(NULL); c; c = conformance_next(c)) {
		const struct torture_scenario wrapped = { .name = conformance_name(c), .conformance = c };

		add(&wrapped, "conf-", s);
	}
}

/* on a terminal: what is going on; the results may go elsewhere */
static void
show_progress(const struct entry *e, unsigned long done, unsigned long of)
{
	static int64_t last;
	int filled = of ? (int)(done * BAR_WIDTH / of) : 0;

	if (!isatty(STDERR_FILENO) || now_ms() - last < 100)
		return;
	last = now_ms();
	if (filled > BAR_WIDTH)
		filled = BAR_WIDTH;
	fprintf(stderr, "\r[%.*s%*s] %lu/%lu of %-32.32s (%zu/%zu)", filled, "##############################",
		BAR_WIDTH - filled, "", done, of, e->name, (size_t)(e - entries) + 1, entry_count);
}

static void
clear_progress(void)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%*s\r", BAR_WIDTH + 80, "");
}

/* one run; true: the call was reached */
static bool
run_pair(struct entry *e, const struct settings *s, unsigned long k, unsigned long also, bool from,
	struct totals *t)
{
	struct run r = { .scenario = &e->scenario,
		.k = k,
		.also = also,
		.from = from,
		.seed = s->seed,
		.dir = s->dir };

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

static bool
run(struct entry *e, const struct settings *s, unsigned long k, bool from, struct totals *t)
{
	return run_pair(e, s, k, 0, from, t);
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
run_pairs(struct entry *e, const struct settings *s, struct totals *t)
{
	unsigned long of = e->calls * (e->calls - 1) / 2, step = 1 + of / PAIRS_MAX, n = 0;

	for (unsigned long k = 1; k < e->calls; k++) {
		for (unsigned long also = k + 1; also <= e->calls; also++, n++) {
			if (n % step != s->seed % step)
				continue;
			show_progress(e, n, of);
			run_pair(e, s, k, also, false, t);
		}
	}
}

/* ---- what is done: a line for the run, and one for each scenario ---- */

/* results hold for this program and these settings */
static void
name_run(const struct settings *s, char *line, size_t size)
{
	struct stat st;

	if (stat("/proc/self/exe", &st)) {
		perror("torture: /proc/self/exe");
		exit(EXIT_FAILURE);
	}
	snprintf(line, size, "%s %ju %jd.%09ld max-call %lu", s->pairs ? "pairs" : "all",
		(uintmax_t)st.st_size, (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, s->max_call);
}

/* what an earlier run has done, and its seed; the file is begun anew if it was another program's */
static void
resume(struct settings *s, struct totals *t)
{
	char expected[128], line[128], name[NAME_LEN];
	unsigned long runs;
	FILE *f = fopen(s->resume, "re");
	bool same;

	name_run(s, expected, sizeof(expected));
	same = f && fgets(line, sizeof(line), f) && !strncmp(line, expected, strlen(expected)) &&
		sscanf(line + strlen(expected), " seed %u", &s->seed) == 1;
	while (same && fscanf(f, "%63s %lu", name, &runs) == 2) {
		for (size_t i = 0; i < entry_count; i++) {
			if (!strcmp(entries[i].name, name)) {
				entries[i].done = true;
				t->passed += runs;
			}
		}
	}
	if (f)
		fclose(f);
	if (same)
		return;
	f = fopen(s->resume, "we");
	if (!f || fprintf(f, "%s seed %u\n", expected, s->seed) < 0 || fclose(f)) {
		perror("torture: --resume");
		exit(EXIT_FAILURE);
	}
}

static void
remember(const struct settings *s, const struct entry *e, unsigned long runs)
{
	FILE *f = fopen(s->resume, "ae");

	if (!f || fprintf(f, "%s %lu\n", e->name, runs) < 0 || fclose(f)) {
		perror("torture: --resume");
		exit(EXIT_FAILURE);
	}
}

static void
run_everything(const struct settings *s, struct totals *t)
{
	for (size_t i = 0; i < entry_count; i++) {
		struct entry *e = &entries[i];
		unsigned long before = t->passed + t->failed, failed = t->failed, runs;

		if (!e->usable || e->done)
			continue;
		if (s->pairs) {
			run_pairs(e, s, t);
		} else {
			run_all_calls(e, s, false, t);
			run_all_calls(e, s, true, t);
		}
		clear_progress();
		runs = t->passed + t->failed - before;
		printf("%-40s %4lu calls, %4lu runs, %lu failed\n", e->name, e->calls, runs,
			t->failed - failed);
		fflush(stdout);
		if (s->resume && t->failed == failed)
			remember(s, e, runs);
	}
	if (s->resume && !t->failed)
		unlink(s->resume);
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
	t->scenarios = entry_count;
	for (size_t i = 0; i < entry_count; i++) {
		for (int from = 0; from < 2; from++) {
			if (s->from < 0 || s->from == from)
				run_pair(&entries[i], s, s->call, s->also, from, t);
		}
	}
}

int
main(int argc, char **argv)
{
	struct settings s = { 0 };
	struct totals t = { 0 };

	if (argc > 1 && !strcmp(argv[1], "--cut"))
		return cuts_main(argc - 1, argv + 1);
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
	if (s.resume)
		resume(&s, &t);
	printf("seed %u\n", s.seed);
	if (s.call) {
		run_call(&s, &t);
	} else {
		count_calls(&s, &t);
		if (s.all || s.pairs)
			run_everything(&s, &t);
		else
			run_sample(&s, &t);
		clear_progress();
	}
	printf("%lu runs of %lu scenarios, %lu failures", t.passed + t.failed, t.scenarios, t.failed);
	if (t.skipped)
		printf(", %lu cannot run here", t.skipped);
	putchar('\n');
	return t.failed || !t.passed ? EXIT_FAILURE : EXIT_SUCCESS;
}
