/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* main.c -- which seeds run, and how far they have come */

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "deadline.h"
#include "seeds.h"
#include "sim.h"

/* every seed that this divides runs twice, and must do the same both times */
#define TWICE 50
#define SAVE_EVERY 500
/* real seconds; a seed takes a few milliseconds */
#define SEED_S 60
/* options of one simulation */
#define OWN_MAX 4

static unsigned long seeds = 1000, first = 1, only_seed;
static bool trace;

static const struct driver_option common[] = {
	{ "seeds", "N", "number of seeds", .number = &seeds, .min = 1, .max = ULONG_MAX },
	{ "from", "S", "the first of them", .number = &first, .max = ULONG_MAX },
	{ DRIVER_RESUME, .help = "keep in FILE how many seeds are done, and go on from there" },
	{ "seed", "S", "only this seed", .number = &only_seed, .max = ULONG_MAX },
	{ "trace", NULL, "with --seed: print each step, and a hash of the trace that is the same in each run",
		.flag = &trace },
};

#define COMMON (sizeof(common) / sizeof(common[0]))

/* and those of the world, ended by zeros */
static struct driver_option options[COMMON + OWN_MAX + 1];

static void
parse(int argc, char **argv)
{
	static struct driver_program program; /* the driver keeps it */

	program = (struct driver_program){ world_program.name, world_program.purpose, options };
	memcpy(options, common, sizeof(common));
	for (unsigned i = 0; world_program.options[i].name; i++) {
		SIM_CHECK(i < OWN_MAX, "too many options");
		options[COMMON + i] = world_program.options[i];
	}
	driver_parse(&program, argc, argv);
	driver_needs("trace", "seed");
	driver_excludes("seed", "seeds|from|resume");
}

/* the options of the world that are given, as on the command line: each set of them has seeds of its own */
static char given[64];

static void
note_options(void)
{
	for (const struct driver_option *option = world_program.options; option->name; option++) {
		const size_t at = strlen(given);
		if (driver_given(option->name))
			snprintf(given + at, sizeof(given) - at, " --%s%s%s", option->name,
				option->text ? " " : "", option->text ? *option->text : "");
	}
	sim_options = given;
}

/* --- seeds --- */

/* printed if a seed ends in an assertion or another signal, or does not end: the seed is worth more than a core */
static char last_words[224];

static void
say_seed(int number_of_signal)
{
	(void)number_of_signal;
	(void)!write(STDERR_FILENO, last_words, strlen(last_words));
	_exit(EXIT_FAILURE);
}

/* the address sanitizer ends the process without a signal */
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
		"FAILED: seed %lu: a signal, or %d s are over\nto see it again: %s%s --seed %lu --trace\n",
		seed, SEED_S, world_program.name, given, seed);
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

/* --- a run that is stopped goes on --- */

static void
load(unsigned long *done, uint64_t *operations)
{
	char rest[DRIVER_LINE_MAX];
	FILE *f = driver_open_resume(rest, "%s%s %s from %lu", world_program.name, given, driver_build(),
		first);

	if (f == NULL)
		return;
	if (strcmp(rest, "\n") != 0 || fscanf(f, "%lu %" SCNu64, done, operations) != 2)
		*done = *operations = 0;
	fclose(f);
}

static void
save(unsigned long done, uint64_t operations)
{
	driver_save("%s%s %s from %lu\n%lu %" PRIu64 "\n", world_program.name, given, driver_build(), first,
		done, operations);
}

static int
run_seeds(void)
{
	unsigned long done = 0;
	uint64_t operations = 0;

	load(&done, &operations);
	while (done < seeds) {
		unsigned long seed = first + done;

		driver_progress(done, seeds, "seeds");
		operations += seed % TWICE ? run_seed(seed, false, false) : run_twice(seed);
		if (++done % SAVE_EVERY == 0)
			save(done, operations);
	}
	save(done, operations);
	return driver_close(true, "%lu seeds, %" PRIu64 " operations, 0 failures", done, operations);
}

static int
run_one(void)
{
	unsigned operations = run_seed(only_seed, trace, trace);

	if (trace)
		printf("hash %016" PRIx64 "\n", sim.hash);
	return driver_close(true, "1 seeds, %u operations, 0 failures", operations);
}

int
main(int argc, char **argv)
{
	parse(argc, argv);
	note_options();
	catch_signals();
	world_init();
	/* the first world makes what lives as long as the process, which takes time: what a seed does depends on nothing before it */
	run_seed(0, false, false);
	return driver_given("seed") ? run_one() : run_seeds();
}
