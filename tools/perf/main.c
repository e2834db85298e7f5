/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* main.c -- rpma-perf: measures how fast remote memory is */

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "client.h"
#include "help.h"
#include "options.h"
#include "server.h"
#include "standard_descriptors.h"

/* a connection needs several descriptors; the usual limit of a shell is enough for some hundred */
static void
raise_descriptor_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit); /* if too low, it is reported later */
	}
}

int
main(int argc, char *argv[])
{
	struct options options;
	char why[WHY_MAX];
	if (!open_standard_descriptors()) {
		perror("rpma-perf: /dev/null");
		return EXIT_FAILURE;
	}
	if (!options_parse(&options, argc, argv, why)) {
		fprintf(stderr, "rpma-perf: %s\n", why);
		return EXIT_USAGE;
	}

	raise_descriptor_limit();
	switch (options.mode) {
	case MODE_HELP:
		help_print();
		return EXIT_SUCCESS;
	case MODE_VERSION:
		help_print_version();
		return EXIT_SUCCESS;
	case MODE_SERVER:
		return server_run(&options, -1);
	case MODE_CLIENT:
		return client_run(&options, options.port);
	default:
		return client_run_local(&options);
	}
}
