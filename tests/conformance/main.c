/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* main.c -- which scenarios run, over which address, in how many processes */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deadline.h"
#include "driver.h"
#include "remote.h"
#include "run.h"

static struct run_options run = { .addr = "127.0.0.1" };
static unsigned long processes = 1, deadline_s = 60, max_size = SIZE_MAX, times = 1;
static unsigned counts[3]; /* by enum run_result */
static bool races;

static const struct driver_option options[] = {
	{ "address", "ADDRESS", "IP address of the target", .text = &run.addr },
	{ "processes", "1|2", "both roles in one process, or a process for each", .number = &processes,
		.min = 1, .max = 2 },
	{ DRIVER_LIST },
	{ DRIVER_ONLY },
	{ "max-size", "BYTES", "leave out scenarios with a larger payload", .number = &max_size,
		.max = SIZE_MAX - 1 },
	{ "races", NULL, "run the scenarios that chance decides, and no others", .flag = &races },
	{ "repeat", "TIMES", "run each scenario this often", .number = &times, .min = 1, .max = 1000000 },
	{ "deadline", "SECONDS", "time limit for each scenario", .number = &deadline_s, .min = 1,
		.max = 86400 },
	{ DRIVER_DIR, .help = "directory for the files that are registered" },
	{ "device", "PATH", "device DAX that is registered instead of files", .text = &run.device },
	{ "power-cut", "COMMAND",
		"cut the power of this directory's medium after a flush, and look for what was flushed",
		.text = &run.power_cut },
	{ "closed", "DIGITS",
		"start the roles as programs without these descriptors of 0, 1 and 2 (\"-\": with all), while the "
		"library logs",
		.text = &run.closed },
	{ "verbose", NULL, "show the standard error of the roles", .flag = &run.verbose },
	{ "role", "target|initiator", "run this role; the same command runs the other one on another host",
		.text = &run.role, .is_choice = true },
	{ "control", "ADDRESS:PORT", "with --role: where the target's driver listens", .text = &run.control },
	{ 0 },
};

static const struct driver_program conformance = { "conformance",
	"Runs the scenarios of the conformance table, and prints the results as TAP. RPMA_DEVICE in the environment\n"
	"chooses the device; with \"soft\" the exact results of the software device are expected.",
	options };

static void
parse(int argc, char **argv)
{
	const char *device = getenv("RPMA_DEVICE");

	driver_parse(&conformance, argc, argv);
	driver_needs("role", "control");
	driver_needs("control", "role");
	driver_excludes("closed", "role");
	if (run.closed && (!*run.closed || run.closed[strspn(run.closed, "-012")]))
		driver_refuse("--closed: '%s' is not a list of 0, 1 and 2, or -", run.closed);
	run.argv = argv;
	run.dir = driver.dir;
	run.processes = run.role ? 2 : (int)processes;
	run.deadline = (unsigned)deadline_s;
	run.soft = device && !strcmp(device, "soft");
}

/* with two hosts: from now on the target's driver can be reached */
static void
listen_for_initiator(void)
{
	if (!run.role || strcmp(run.role, "target") != 0)
		return;
	run.listener = remote_listen(run.control);
	if (run.listener < 0)
		driver_refuse("cannot listen on %s: %s", run.control, strerror(errno));
}

/* joins the lines of a reason */
static void
flatten(char *why)
{
	size_t len = strlen(why);

	while (len && why[len - 1] == '\n')
		why[--len] = '\0';
	for (char *p = strchr(why, '\n'); p; p = strchr(p, '\n'))
		*p = ';';
}

static unsigned
count_all(void)
{
	return counts[RUN_PASSED] + counts[RUN_FAILED] + counts[RUN_SKIPPED];
}

static void
run_one(const struct scenario *sc)
{
	char why[RUN_WHY_LEN] = "";
	int64_t start = now_ms();
	enum run_result result = run_scenario(sc, &run, why);

	flatten(why);
	counts[result]++;
	printf("%sok %u - %s (%" PRId64 " ms)", result == RUN_FAILED ? "not " : "", count_all(), sc->name,
		now_ms() - start);
	if (result != RUN_PASSED)
		printf(" # %s %s", result == RUN_SKIPPED ? "SKIPPED" : "FAILED", why);
	putchar('\n');
	fflush(stdout);
}

/* in a role that was started as a program of its own */
static void
run_role(const char *name)
{
	for (const struct scenario_group *const *group = scenario_groups; *group; group++) {
		for (size_t i = 0; i < (*group)->count; i++) {
			if (!strcmp((*group)->list[i].name, name))
				run_as_role(&(*group)->list[i], &run);
		}
	}
}

/* runs or lists the scenarios that are chosen, and returns their number */
static size_t
run_group(const struct scenario_group *group)
{
	size_t chosen = 0;

	for (size_t i = 0; i < group->count; i++) {
		const struct scenario *sc = &group->list[i];

		const bool is_race = sc->flags & RACES;

		if (sc->size > max_size || !driver_admits(sc->name) || is_race != races)
			continue;
		chosen++;
		if (driver.list)
			printf("%s\n", sc->name);
		for (unsigned n = 0; !driver.list && n < times; n++)
			run_one(sc);
	}
	return chosen;
}

int
main(int argc, char **argv)
{
	size_t chosen = 0;

	parse(argc, argv);
	if (run_is_role())
		run_role(run_is_role());
	listen_for_initiator();
	for (const struct scenario_group *const *group = scenario_groups; *group; group++)
		chosen += run_group(*group);
	driver_refuse_if_none(chosen, "scenario of at most --max-size bytes");
	if (driver.list)
		return EXIT_SUCCESS;
	printf("1..%u\n", count_all());
	return driver_close(counts[RUN_FAILED] == 0, "# %s, %d process%s: %u passed, %u failed, %u skipped",
		run.addr, run.processes, run.processes == 1 ? "" : "es", counts[RUN_PASSED],
		counts[RUN_FAILED], counts[RUN_SKIPPED]);
}
