/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* main.c -- rpma-keeper: lends memory of this machine to clients elsewhere, by name */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "keeper.h"
#include "log.h"
#include "standard_descriptors.h"

#define EXIT_USAGE 2

/* what a connection of the software device takes, and what the process takes beside them */
#define DESCRIPTORS_OF_A_CLIENT 5
#define DESCRIPTORS_OF_THE_KEEPER 64

static void
raise_descriptor_limit(const struct options *options)
{
	const rlim_t wanted =
		(rlim_t)KEEPER_PLACES(options) * DESCRIPTORS_OF_A_CLIENT + DESCRIPTORS_OF_THE_KEEPER;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	/*
	 * message(keeper): at the start: the limit is too low for as many clients as may come -> Raise the
	 * limit, or give a smaller `--clients`.
	 */
	if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted)
		log_line(
			"%d clients may need %ju descriptors, and the limit is %ju: raise it (ulimit -n, LimitNOFILE=)",
			options->clients_max, (uintmax_t)wanted, (uintmax_t)limit.rlim_cur);
}

static int
clear_failed(const struct lend_option *lend)
{
	char why[WHY_MAX];
	bool was_failed;

	if (!memory_clear_failure(&lend->source, &was_failed, why)) {
		fprintf(stderr, "rpma-keeper: %s: %s\n", lend->name, why);
		return EXIT_FAILURE;
	}
	printf("%s: %s\n", lend->name,
		was_failed ? "the failure of its medium is cleared"
			   : "no failure of its medium is on record");
	return EXIT_SUCCESS;
}

/* with the shared-memory path, a client on this host that is stopped would stop the keeper: it waits for accesses to end */
static void
forbid_shared_memory(void)
{
	if (getenv("SOFTRDMA_SAME_HOST") == NULL)
		return;
	(void)unsetenv("SOFTRDMA_SAME_HOST");
	/* message(keeper): at the start -> Nothing. */
	log_line("SOFTRDMA_SAME_HOST is ignored: a client that stops would stop all others");
}

static int
run(const struct options *options)
{
	/* a log whose reader has ended must not end the keeper */
	(void)signal(SIGPIPE, SIG_IGN);
	log_begin();
	log_take_library();
	forbid_shared_memory();
	raise_descriptor_limit(options);
	const int status = keeper_run(options);
	log_end();
	return status;
}

int
main(int argc, char *argv[])
{
	struct options options;
	char why[WHY_MAX];
	int status = EXIT_SUCCESS;

	if (!open_standard_descriptors()) {
		perror("rpma-keeper: /dev/null");
		return EXIT_FAILURE;
	}
	if (!options_parse(&options, argc, argv, why)) {
		fprintf(stderr, "rpma-keeper: %s\n", why);
		status = EXIT_USAGE;
	} else if (options.mode == MODE_CLEAR_FAILED) {
		status = clear_failed(options.cleared);
	} else if (options.mode == MODE_HELP) {
		options_print_help();
	} else if (options.mode == MODE_VERSION) {
		puts("rpma-keeper " RPMA_KEEPER_VERSION);
	} else {
		status = run(&options);
	}
	options_free(&options);
	return fflush(stdout) ? EXIT_FAILURE : status;
}
