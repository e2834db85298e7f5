/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* main.c -- rpma-keeper: lends memory of this machine to clients elsewhere, by name */

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "keeper.h"
#include "log.h"

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

int
main(int argc, char *argv[])
{
	struct options options;
	char why[WHY_MAX];
	int status = EXIT_SUCCESS;

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
		/* a log whose reader has ended must not end the keeper */
		(void)signal(SIGPIPE, SIG_IGN);
		log_take_library();
		raise_descriptor_limit(&options);
		status = keeper_run(&options);
	}
	options_free(&options);
	return status;
}
