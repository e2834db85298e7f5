/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* main.c -- rpma-keeper: lends memory of this machine to clients elsewhere, by name */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "keeper.h"

#define EXIT_USAGE 2

/* a connection takes several descriptors */
static void
raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit); /* if too low, the library reports it later */
	}
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
	} else if (options.mode == MODE_HELP) {
		options_print_help();
	} else if (options.mode == MODE_VERSION) {
		puts("rpma-keeper " RPMA_KEEPER_VERSION);
	} else {
		/* a log whose reader has ended must not end the keeper */
		(void)signal(SIGPIPE, SIG_IGN);
		raise_descriptor_limit();
		status = keeper_run(&options);
	}
	options_free(&options);
	return status;
}
