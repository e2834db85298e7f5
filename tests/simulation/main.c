/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* main.c -- which seeds, and how far they have come */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deadline.h"
#include "options.h"
#include "sim.h"
#include "world.h"

#define SEEDS_DEFAULT 1000
/* one of so many seeds is run twice, and must do the same */
#define TWICE 50
#define SAVE_EVERY 500
/* real seconds: a seed takes a few milliseconds */
#define SEED_S 60

struct settings {
	unsigned long seeds, from;
	unsigned long seed;
	bool one, trace;
	const char *resume; /* the file that says how far it has come; NULL: none */
};

struct totals {
	unsigned long seeds;
	uint64_t operations;
};

static const char usage_text[] =
	"usage: simulation [--seeds N] [--from S] [--resume FILE]\n"
	"       simulation --seed S [--trace]\n"
	"Runs two applications and the software device between them in a world that the seed decides: order of the\n"
	"threads, pieces of the stream, broken streams, memory, media, power cuts.\n"
	"--seeds: so many (1000), from S on (1).\n"
	"--resume: FILE keeps how far it has come, so that a run that is stopped goes on there.\n"
	"--seed: this one; --trace tells what happens, and a hash of it that is the same each time.\n";

static _Noreturn void
usage(int status)
{
	fputs(usage_text, status ? stderr : stdout);
	exit(status);
}

static unsigned long
number(const char *text, unsigned long min)
{
	unsigned long value;

	if (!option_number(text, min, UINT64_MAX, &value))
		usage(2);
	return value;
}

static void
parse(struct settings *s, int argc, char **argv)
{
	static const struct option options[] = {
		{ "seeds", required_argument, NULL, 'n' },
		{ "from", required_argument, NULL, 'f' },
		{ "seed", required_argument, NULL, 's' },
		{ "trace", no_argument, NULL, 't' },
		{ "resume", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'n':
			s->seeds = number(optarg, 1);
			break;
		case 'f':
			s->from = number(optarg, 0);
			break;
		case 's':
			s->seed = number(optarg, 0);
			s->one = true;
			break;
		case 't':
			s->trace = true;
			break;
		case 'r':
			s->resume = optarg;
			break;
		default:
			usage(opt == 'h' ? 0 : 2);
		}
	}
	if (optind < argc || (s->trace && !s->one) || (s->resume && s->one))
		usage(2);
}

/* --- seeds --- */

/*
 * an assertion of the device, or worse, or a seed that has no end: which one it was is worth more than a core
 */
static char last_words[160];

static void
say_seed(int number_of_signal)
{
	(void)number_of_signal;
	(void)!write(STDERR_FILENO, last_words, strlen(last_words));
	_exit(EXIT_FAILURE);
}

/* the address sanitizer ends the program in its own way */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

static void
say_seed_at_death(void)
{
	fputs(last_words, stderr);
}

static void
catch_signals(void)
{
	signal(SIGABRT, say_seed);
	signal(SIGALRM, say_seed);
	if (__sanitizer_set_death_callback) {
		__sanitizer_set_death_callback(say_seed_at_death);
		return;
	}
	signal(SIGSEGV, say_seed);
	signal(SIGBUS, say_seed);
}

static unsigned
run_seed(unsigned long seed, bool tracing, bool printing)
{
	snprintf(last_words, sizeof(last_words),
		"FAILED: seed %lu: a signal, or %d s are over\nto see it again: simulation --seed %lu --trace\n",
		seed, SEED_S, seed);
	alarm(deadline_scaled(SEED_S));
	sim_begin(seed, tracing, printing);
	unsigned operations = world_run();
	alarm(0);
	return operations;
}

static unsigned
run_twice(unsigned long seed)
{
	run_seed(seed, true, false);
	const uint64_t hash = sim.hash;
	unsigned operations = run_seed(seed, true, false);

	SIM_CHECK(sim.hash == hash, "the same seed has done something else");
	return operations;
}

static void
show_progress(const struct settings *s, const struct totals *t)
{
	static int64_t last;

	if (!isatty(STDERR_FILENO) || now_ms() - last < 100)
		return;
	last = now_ms();
	const int width = 40;
	int done = (int)(t->seeds * (unsigned long)width / s->seeds);
	fprintf(stderr, "\r[%.*s%*s] %lu of %lu seeds ", done, "########################################",
		width - done, "", t->seeds, s->seeds);
}

static void
clear_progress(void)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%*s\r", 90, "");
}

/* --- a run that is stopped goes on --- */

/* what was done holds for this program, and these seeds */
static void
name_run(const struct settings *s, char *line, size_t size)
{
	struct stat st;

	if (stat("/proc/self/exe", &st)) {
		perror("simulation: /proc/self/exe");
		exit(EXIT_FAILURE);
	}
	snprintf(line, size, "simulation %ju %jd.%09ld from %lu\n", (uintmax_t)st.st_size,
		(intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, s->from);
}

static void
load(const struct settings *s, struct totals *t)
{
	char expected[128], line[128];
	FILE *f = s->resume ? fopen(s->resume, "re") : NULL;

	if (f == NULL)
		return;
	name_run(s, expected, sizeof(expected));
	if (!fgets(line, sizeof(line), f) || strcmp(line, expected) != 0 ||
		fscanf(f, "%lu %" SCNu64, &t->seeds, &t->operations) != 2)
		*t = (struct totals){ 0 };
	fclose(f);
}

/* whole or not at all: this program may be stopped meanwhile */
static void
save(const struct settings *s, const struct totals *t)
{
	char line[128], name[4096];

	if (s->resume == NULL)
		return;
	name_run(s, line, sizeof(line));
	snprintf(name, sizeof(name), "%s.new", s->resume);
	FILE *f = fopen(name, "we");
	if (!f || fprintf(f, "%s%lu %" PRIu64 "\n", line, t->seeds, t->operations) < 0 || fclose(f) ||
		rename(name, s->resume)) {
		perror("simulation: --resume");
		exit(EXIT_FAILURE);
	}
}

static void
run_seeds(const struct settings *s)
{
	struct totals t = { 0 };

	load(s, &t);
	while (t.seeds < s->seeds) {
		unsigned long seed = s->from + t.seeds;
		show_progress(s, &t);
		t.operations += seed % TWICE ? run_seed(seed, false, false) : run_twice(seed);
		if (++t.seeds % SAVE_EVERY == 0)
			save(s, &t);
	}
	save(s, &t);
	clear_progress();
	printf("%lu seeds, %" PRIu64 " operations, 0 failures\n", t.seeds, t.operations);
}

int
main(int argc, char **argv)
{
	struct settings s = { .seeds = SEEDS_DEFAULT, .from = 1 };

	parse(&s, argc, argv);
	/* to go on looking for more costs steps, and there is nothing to win in a world without time */
	setenv("SOFTRDMA_SPIN_US", "0", 1);
	unsetenv("SOFTRDMA_FAULTS");
	unsetenv("SOFTRDMA_READ_FLUSHES");
	catch_signals();
	world_init();
	if (!s.one) {
		run_seeds(&s);
		return 0;
	}
	unsigned operations = run_seed(s.seed, s.trace, s.trace);
	if (s.trace)
		printf("hash %016" PRIx64 "\n", sim.hash);
	printf("1 seeds, %u operations, 0 failures\n", operations);
	return 0;
}
