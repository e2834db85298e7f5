/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* main.c -- which scenarios, which bytes, and what happens behind them */

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cuts.h"
#include "deadline.h"
#include "fault.h"
#include "options.h"
#include "proxy.h"

#define SCENARIOS_MAX 512
#define NAME_LEN 96
/* what can happen: each kind, in each direction */
#define HOWS (2 * CUT_KINDS)
/* as many bytes pass as acknowledgements come together: the last one was found if so many are not reached */
#define UNREACHED 3
/* of a direction with more bytes than this not each is cut at, but so many, at the same distance */
#define BYTES_MAX 1200
/* what waits for ever by itself: so long is a silent connection silent for it, and is reset then */
#define STALL_MS 150

static const char *const how_names[HOWS] = { "reset-to-server", "reset-to-client", "stall-to-server",
	"stall-to-client", "fin-to-server", "fin-to-client" };

struct settings {
	const char *only; /* patterns, separated by '|' */
	const char *how;  /* likewise */
	bool all;
	bool list;
	unsigned seconds; /* 0: no limit */
	unsigned seed;
	unsigned long byte; /* this one only; 0: not so */
	const char *resume; /* the file that says what is done; NULL: none */
	const char *dir;
};

struct totals {
	unsigned long passed, failed, skipped;
	unsigned long at[HOWS]; /* runs in which it happened */
};

struct entry {
	const struct torture_scenario *inner;
	const struct scenario *conformance; /* NULL: inner */
	char name[NAME_LEN];
	unsigned long bytes[2]; /* of each direction, when nothing happens; 0: not counted yet */
	bool usable;
};

static struct entry entries[SCENARIOS_MAX];
static size_t entry_count;

static const char usage_text[] =
	"usage: torture --cut [--list] [--only PATTERN[|PATTERN...]] [--how PATTERN[|PATTERN...]] [--dir DIRECTORY]\n"
	"                     [--all [--resume FILE] | --seconds T | --byte N] [--seed S]\n"
	"Runs each scenario again and again, each time with its TCP stream ending behind another byte: by a reset,\n"
	"by silence, or by the end of one direction; counted in the direction to the server or to the client.\n"
	"Without --all it is a sample, of 20 seconds unless --seconds says otherwise.\n"
	"--all: every byte (1,200 of each direction that has more).\n"
	"--resume: FILE keeps what was finished without a failure, so that a run that is stopped goes on there.\n"
	"--byte: behind this one only, to look at a failure again.\n";

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
	case 'w':
		s->how = optarg;
		break;
	case 'a':
		s->all = true;
		break;
	case 'r':
		s->resume = optarg;
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
	case 'b':
		s->byte = number(optarg);
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
		{ "how", required_argument, NULL, 'w' },
		{ "all", no_argument, NULL, 'a' },
		{ "resume", required_argument, NULL, 'r' },
		{ "seed", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 't' },
		{ "dir", required_argument, NULL, 'd' },
		{ "byte", required_argument, NULL, 'b' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	s->seconds = 20;
	s->seed = (unsigned)time(NULL);
	s->dir = ".";
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		take_option(s, opt);
	if (optind < argc || (s->resume && !s->all) || (s->all && s->byte))
		usage(2);
}

/* ---- scenarios ---- */

static void
add(const struct torture_scenario *inner, const struct scenario *conformance, const struct settings *s)
{
	struct entry *e = &entries[entry_count];

	if (entry_count == SCENARIOS_MAX) {
		fprintf(stderr, "torture: more scenarios than there is room for\n");
		exit(EXIT_FAILURE);
	}
	*e = (struct entry){ .inner = inner, .conformance = conformance, .usable = true };
	snprintf(e->name, sizeof(e->name), "%s%s", conformance ? "conf-" : "",
		conformance ? conformance_name(conformance) : inner->name);
	if (option_matches(s->only, e->name))
		entry_count++;
}

/* those in which a stream is, and whose verbs are all the device's own */
static void
add_table(const struct torture_scenario *table, const struct settings *s)
{
	for (; table->name; table++) {
		if (!table->plan.faulty_verbs)
			add(table, NULL, s);
	}
}

static void
add_all(const struct settings *s)
{
	add_table(exchange_scenarios, s);
	add_table(connection_scenarios, s);
	add_table(operation_scenarios, s);
	add_table(beyond_scenarios, s);
	for (const struct scenario *c = conformance_next(NULL); c; c = conformance_next(c))
		add(NULL, c, s);
}

/* ---- one run ---- */

/* what the next run is about; its process inherits it */
static struct {
	const struct entry *entry;
	struct cut cut;
	unsigned long byte;
	bool again; /* the second attempt, of which nothing is cut */
} now;

static bool
run_cut(struct world *w)
{
	const struct plan plan = w->plan;
	bool done = true;

	fault_arm(now.again ? 0 : now.byte, FAULT_ONCE, FAULT_STREAM, 0);
	now.again = true;
	proxy_start(&now.cut);
	if (now.entry->conformance)
		conformance_run(now.entry->conformance, w->dir);
	else
		done = now.entry->inner->run(w);
	world_close(w);
	proxy_stop();
	world_open(w, &plan, w->dir); /* whoever called has nothing left to close */
	return done;
}

static bool
waits_for_ever(const struct entry *e)
{
	return e->conformance || !strcmp(e->name, "write-truncated") || !strcmp(e->name, "write-flush-dereg");
}

/* true: it happened */
static bool
run(struct entry *e, const struct settings *s, unsigned how, unsigned long byte, struct totals *t)
{
	struct torture_scenario scenario = { .run = run_cut };
	struct run r = { .scenario = &scenario, .k = byte, .seed = s->seed, .dir = s->dir };
	char name[2 * NAME_LEN];

	now.entry = e;
	now.byte = byte;
	now.again = false;
	now.cut.kind = (enum cut_kind)(how / 2);
	now.cut.to_client = how % 2;
	now.cut.stall_ms = waits_for_ever(e) ? STALL_MS : 0;
	snprintf(name, sizeof(name), "%s, %s", e->name, how_names[how]);
	scenario.name = name;
	if (e->inner)
		scenario.plan = e->inner->plan;
	scenario.plan.silence = now.cut.kind == CUT_STALL;
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
	t->at[how] += r.used;
	if (byte == 0)
		e->bytes[how % 2] = r.calls;
	return r.used;
}

/* without a cut: what does not even pass that is left out of the rest */
static void
count_bytes(struct entry *e, const struct settings *s, struct totals *t)
{
	unsigned long failed = t->failed;

	for (unsigned direction = 0; direction < 2 && e->usable; direction++)
		run(e, s, direction, 0, t);
	if (t->failed > failed)
		e->usable = false;
}

static bool
is_asked_for(const struct settings *s, unsigned how)
{
	return option_matches(s->how, how_names[how]);
}

/* ---- all bytes ---- */

static void
show_progress(const struct entry *e, unsigned how, unsigned long byte, unsigned long of)
{
	static int64_t last;

	if (!isatty(STDERR_FILENO) || now_ms() - last < 100)
		return;
	last = now_ms();
	fprintf(stderr, "\r%-40.40s %-16s byte %lu of %lu (%zu/%zu)   ", e->name, how_names[how], byte, of,
		(size_t)(e - entries) + 1, entry_count);
}

static void
clear_progress(void)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%*s\r", 110, "");
}

static void
run_all_bytes(struct entry *e, const struct settings *s, unsigned how, struct totals *t)
{
	unsigned long of = e->bytes[how % 2];
	unsigned long step = 1 + of / BYTES_MAX;
	int unreached = 0;

	for (unsigned long byte = 1 + s->seed % step; unreached < UNREACHED; byte += step) {
		show_progress(e, how, byte, of);
		unreached = run(e, s, how, byte, t) ? 0 : unreached + 1;
		if (!e->usable)
			return;
	}
}

/* results hold for this program */
static void
name_run(char *line, size_t size)
{
	struct stat st;

	if (stat("/proc/self/exe", &st)) {
		perror("torture: /proc/self/exe");
		exit(EXIT_FAILURE);
	}
	snprintf(line, size, "cuts %ju %jd.%09ld", (uintmax_t)st.st_size, (intmax_t)st.st_mtim.tv_sec,
		st.st_mtim.tv_nsec);
}

/* lines "<scenario> <how> <runs>" of an earlier run of the same program */
static bool done[SCENARIOS_MAX][HOWS];

static void
resume(struct settings *s, struct totals *t)
{
	char expected[128], line[256], name[NAME_LEN], how[32];
	unsigned long runs;
	FILE *f = fopen(s->resume, "re");
	bool same;

	name_run(expected, sizeof(expected));
	same = f && fgets(line, sizeof(line), f) && !strncmp(line, expected, strlen(expected)) &&
		sscanf(line + strlen(expected), " seed %u", &s->seed) == 1;
	while (same && fscanf(f, "%95s %31s %lu", name, how, &runs) == 3) {
		for (size_t i = 0; i < entry_count; i++) {
			for (unsigned h = 0; h < HOWS; h++) {
				if (!strcmp(entries[i].name, name) && !strcmp(how_names[h], how)) {
					done[i][h] = true;
					t->passed += runs;
					t->at[h] += runs;
				}
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
remember(const struct settings *s, const struct entry *e, unsigned how, unsigned long runs)
{
	FILE *f = fopen(s->resume, "ae");

	if (!f || fprintf(f, "%s %s %lu\n", e->name, how_names[how], runs) < 0 || fclose(f)) {
		perror("torture: --resume");
		exit(EXIT_FAILURE);
	}
}

static bool
all_done(const struct settings *s, size_t i)
{
	for (unsigned how = 0; how < HOWS; how++) {
		if (is_asked_for(s, how) && !done[i][how])
			return false;
	}
	return true;
}

static void
run_everything(const struct settings *s, struct totals *t)
{
	for (size_t i = 0; i < entry_count; i++) {
		struct entry *e = &entries[i];
		unsigned long before = t->passed + t->failed, failed = t->failed;

		if (all_done(s, i))
			continue;
		count_bytes(e, s, t);
		for (unsigned how = 0; how < HOWS && e->usable; how++) {
			unsigned long failed_before = t->failed, at = t->at[how];

			if (!is_asked_for(s, how) || done[i][how])
				continue;
			run_all_bytes(e, s, how, t);
			if (s->resume && t->failed == failed_before)
				remember(s, e, how, t->at[how] - at);
		}
		clear_progress();
		printf("%-40s %6lu bytes to the server, %6lu to the client, %5lu runs, %lu failed\n", e->name,
			e->bytes[0], e->bytes[1], t->passed + t->failed - before, t->failed - failed);
		fflush(stdout);
	}
}

/* ---- a sample, and one ---- */

/* any scenario at any byte, rather an early one: how many there are is not known, and not needed */
static void
run_sample(const struct settings *s, struct totals *t)
{
	unsigned short state[3] = { 0x330e, (unsigned short)s->seed, (unsigned short)(s->seed >> 16) };
	int64_t over = now_ms() + (int64_t)s->seconds * 1000;

	while (now_ms() < over) {
		struct entry *e = &entries[(size_t)nrand48(state) % entry_count];
		unsigned how = (unsigned)nrand48(state) % HOWS;
		unsigned long limit = 1ul << (5 + nrand48(state) % 6);
		unsigned long byte = 1 + (unsigned long)nrand48(state) % limit;

		if (e->usable && is_asked_for(s, how))
			run(e, s, how, byte, t);
	}
}

static void
run_byte(const struct settings *s, struct totals *t)
{
	for (size_t i = 0; i < entry_count; i++) {
		for (unsigned how = 0; how < HOWS; how++) {
			if (is_asked_for(s, how))
				run(&entries[i], s, how, s->byte, t);
		}
	}
}

static void
say(const struct totals *t)
{
	unsigned long happened = 0;

	for (unsigned how = 0; how < HOWS; how++)
		happened += t->at[how];
	printf("%lu runs, %lu of them cut (%lu resets, %lu stalls, %lu half-closes), %lu failures",
		t->passed + t->failed, happened, t->at[0] + t->at[1], t->at[2] + t->at[3],
		t->at[4] + t->at[5], t->failed);
	if (t->skipped)
		printf(", %lu cannot run here", t->skipped);
	putchar('\n');
}

int
cuts_main(int argc, char **argv)
{
	struct settings s = { 0 };
	struct totals t = { 0 };

	parse(&s, argc, argv);
	if (!documented_read(TORTURE_HEADER)) {
		perror("torture: " TORTURE_HEADER);
		return EXIT_FAILURE;
	}
	add_all(&s);
	for (size_t i = 0; s.list && i < entry_count; i++)
		printf("%s\n", entries[i].name);
	if (s.list)
		return 0;
	if (entry_count == 0)
		usage(2);
	if (s.resume)
		resume(&s, &t);
	printf("seed %u\n", s.seed);
	if (s.byte)
		run_byte(&s, &t);
	else if (s.all)
		run_everything(&s, &t);
	else
		run_sample(&s, &t);
	say(&t);
	return t.failed || !t.passed ? EXIT_FAILURE : EXIT_SUCCESS;
}
