/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* main.c -- the driver: which scenarios, over which address, in how many processes */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deadline.h"
#include "options.h"
#include "remote.h"
#include "run.h"

#define DEFAULT_DEADLINE_S 60

struct settings {
	struct run_options run;
	const char *only; /* patterns, separated by '|' */
	size_t max_size;
	unsigned times; /* that each scenario is run */
	bool list;
};

struct totals {
	unsigned number;
	unsigned of[3]; /* by enum run_result */
};

static const char usage_text[] =
	"usage: conformance [--address A] [--processes 1|2] [--only PATTERN[|PATTERN...]]\n"
	"                   [--max-size BYTES] [--repeat TIMES]\n"
	"                   [--deadline SECONDS] [--dir DIRECTORY] [--device PATH] [--list] [--verbose]\n"
	"                   [--power-cut COMMAND]\n"
	"                   [--role target|initiator --control ADDRESS:PORT]\n"
	"With --role the other role runs on another host, by the same command line but for its role; --control is\n"
	"where the target's driver listens, --address the target's in both.\n"
	"--dir is where files are made that are registered, --device a device DAX to be used instead.\n"
	"--repeat runs each scenario so many times, one after the other.\n"
	"--power-cut gives the command that cuts the power of the medium that the current folder is on; after it, what\n"
	"was flushed must be there (tests/lossy/).\n"
	"Which RDMA device is for RPMA_DEVICE; with \"soft\" its exact answers are asked for.\n";

static _Noreturn void
usage(int status)
{
	fputs(usage_text, status ? stderr : stdout);
	exit(status);
}

static unsigned long
number(const char *text, unsigned long min, unsigned long max)
{
	unsigned long value;

	if (!option_number(text, min, max, &value))
		usage(2);
	return value;
}

static void
take_option(struct settings *s, int opt)
{
	switch (opt) {
	case 'a':
		s->run.addr = optarg;
		break;
	case 'p':
		s->run.processes = (int)number(optarg, 1, 2);
		break;
	case 'o':
		s->only = optarg;
		break;
	case 'm':
		s->max_size = number(optarg, 0, SIZE_MAX);
		break;
	case 'n':
		s->times = (unsigned)number(optarg, 1, 1000000);
		break;
	case 't':
		s->run.deadline = (unsigned)number(optarg, 1, 86400);
		break;
	case 'd':
		s->run.dir = optarg;
		break;
	case 'x':
		s->run.device = optarg;
		break;
	case 'k':
		s->run.power_cut = optarg;
		break;
	case 'l':
		s->list = true;
		break;
	case 'r':
		if (strcmp(optarg, "target") && strcmp(optarg, "initiator"))
			usage(2);
		s->run.role = optarg;
		break;
	case 'c':
		s->run.control = optarg;
		break;
	case 'v':
		s->run.verbose = true;
		break;
	default:
		usage(opt == 'h' ? 0 : 2);
	}
}

static void
parse(struct settings *s, int argc, char **argv)
{
	static const struct option options[] = {
		{ "address", required_argument, NULL, 'a' },
		{ "processes", required_argument, NULL, 'p' },
		{ "only", required_argument, NULL, 'o' },
		{ "max-size", required_argument, NULL, 'm' },
		{ "repeat", required_argument, NULL, 'n' },
		{ "deadline", required_argument, NULL, 't' },
		{ "dir", required_argument, NULL, 'd' },
		{ "device", required_argument, NULL, 'x' },
		{ "power-cut", required_argument, NULL, 'k' },
		{ "list", no_argument, NULL, 'l' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "role", required_argument, NULL, 'r' },
		{ "control", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *device = getenv("RPMA_DEVICE");
	int opt;

	s->run.addr = "127.0.0.1";
	s->run.dir = ".";
	s->run.processes = 1;
	s->run.deadline = DEFAULT_DEADLINE_S;
	s->run.soft = device && !strcmp(device, "soft");
	s->max_size = SIZE_MAX;
	s->times = 1;
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		take_option(s, opt);
	if (optind < argc || !s->run.role != !s->run.control)
		usage(2);
}

/* two hosts: the target's driver can be reached from now on */
static void
set_up_role(struct run_options *run)
{
	if (!run->role)
		return;
	run->processes = 2;
	if (strcmp(run->role, "target"))
		return;
	run->listener = remote_listen(run->control);
	if (run->listener < 0) {
		fprintf(stderr, "conformance: cannot listen on %s: %s\n", run->control, strerror(errno));
		exit(2);
	}
}

/* lines of a reason as one */
static void
flatten(char *why)
{
	size_t len = strlen(why);

	while (len && why[len - 1] == '\n')
		why[--len] = '\0';
	for (char *p = strchr(why, '\n'); p; p = strchr(p, '\n'))
		*p = ';';
}

static void
run_one(const struct scenario *sc, const struct settings *s, struct totals *t)
{
	char why[RUN_WHY_LEN] = "";
	int64_t start = now_ms();
	enum run_result result = run_scenario(sc, &s->run, why);

	flatten(why);
	t->of[result]++;
	t->number++;
	printf("%sok %u - %s (%" PRId64 " ms)", result == RUN_FAILED ? "not " : "", t->number, sc->name,
		now_ms() - start);
	if (result != RUN_PASSED)
		printf(" # %s %s", result == RUN_SKIPPED ? "SKIPPED" : "FAILED", why);
	putchar('\n');
	fflush(stdout);
}

static void
run_group(const struct scenario_group *group, const struct settings *s, struct totals *t)
{
	for (size_t i = 0; i < group->count; i++) {
		const struct scenario *sc = &group->list[i];

		if (sc->size > s->max_size || !option_matches(s->only, sc->name))
			continue;
		if (s->list)
			printf("%s\n", sc->name);
		for (unsigned n = 0; !s->list && n < s->times; n++)
			run_one(sc, s, t);
	}
}

static void
run_all(const struct settings *s, struct totals *t)
{
	for (const struct scenario_group *const *group = scenario_groups; *group; group++)
		run_group(*group, s, t);
}

int
main(int argc, char **argv)
{
	struct settings s = { 0 };
	struct totals t = { 0 };

	parse(&s, argc, argv);
	set_up_role(&s.run);
	run_all(&s, &t);
	if (s.list)
		return 0;
	printf("1..%u\n", t.number);
	printf("# %s, %d process%s: %u passed, %u failed, %u skipped\n", s.run.addr, s.run.processes,
		s.run.processes == 1 ? "" : "es", t.of[RUN_PASSED], t.of[RUN_FAILED], t.of[RUN_SKIPPED]);
	/* a pattern that fits nothing is a mistake */
	return t.of[RUN_FAILED] || !t.number ? 1 : 0;
}
