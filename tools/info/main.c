/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* main.c -- rpma-info: what this machine offers for remote memory */

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "info.h"
#include "standard_descriptors.h"

#define EXIT_USAGE 2

static const char help[] =
	"rpma-info -- what is here: devices, addresses, limits, and how durable memory can be\n"
	"\n"
	"  rpma-info [--address ADDRESS | --remote ADDRESS] [--path PATH] [--json]\n"
	"\n"
	"  --address ADDRESS  which device this address of the machine gives, instead of all addresses there are\n"
	"  --remote ADDRESS   through which device that address is reached\n"
	"  --path PATH        what can be said of memory mapped from that file, directory (by a file that is removed\n"
	"                     again) or device DAX: store granularity, and which devices can flush it to persistence\n"
	"  --json             for programs\n"
	"  --help, --version\n"
	"\n"
	"Exit status: 0 done; 1 no device can use the ADDRESS, or memory of the PATH cannot be mapped, or the result\n"
	"cannot be written; 2 wrong command line.\n";

struct options {
	const char *address;
	const char *remote;
	const char *path;
	bool json;
};

static int
usage(const char *sentence, const char *what)
{
	/* message(info): status 2: a wrong command line -> `rpma-info --help` */
	fprintf(stderr, "rpma-info: %s%s; see --help\n", what, sentence);
	return EXIT_USAGE;
}

/* returns -1 to continue, else the exit status */
static int
parse(int argc, char *argv[], struct options *options)
{
	static const struct option longs[] = {
		{ "address", required_argument, NULL, 'a' },
		{ "remote", required_argument, NULL, 'r' },
		{ "path", required_argument, NULL, 'p' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};
	opterr = 0; /* this program prints the error messages itself */
	for (int value; (value = getopt_long(argc, argv, ":h", longs, NULL)) != -1;) {
		switch (value) {
		case 'a':
			options->address = optarg;
			break;
		case 'r':
			options->remote = optarg;
			break;
		case 'p':
			options->path = optarg;
			break;
		case 'j':
			options->json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return EXIT_SUCCESS;
		case 'v':
			puts("rpma-info " RPMA_INFO_VERSION);
			return EXIT_SUCCESS;
		case ':':
			return usage(" needs a value", argv[optind - 1]);
		default:
			return usage(" is no option", argv[optind - 1]);
		}
	}
	return optind < argc ? usage(" is one argument too many", argv[optind]) : -1;
}

/* true if what the command line names can be used; else says what cannot, because the findings do not stand out */
static bool
is_as_asked(const struct info *info, const struct options *options)
{
	bool good = true;
	for (int i = 0; (options->address || options->remote) && i < info->address_count; i++) {
		const struct info_address *address = &info->addresses[i];
		if (info_is_usable(address))
			continue;
		/* message(info): status 1: the address of the command line -> See *Finding a device*. */
		fprintf(stderr, "rpma-info: no device can use the address %s: %s\n", address->text,
			address->soft.why_not);
		good = false;
	}
	if (options->path && info->path.granularity == GRANULARITY_UNKNOWN) {
		/*
		 * message(info): status 1: the path of the command line -> Give an existing file or
		 * directory that may be written.
		 */
		fprintf(stderr, "rpma-info: nothing can be found out about memory at %s: %s\n", options->path,
			info->path.why_not);
		good = false;
	}
	return good;
}

int
main(int argc, char *argv[])
{
	struct options options = { 0 };
	if (!open_standard_descriptors()) {
		perror("rpma-info: /dev/null");
		return EXIT_FAILURE;
	}
	int status = parse(argc, argv, &options);
	if (status >= 0)
		return status;

	struct info *info = calloc(1, sizeof(*info));
	/* keeps the original value, since the variable is changed to ask for each device */
	const char *device = getenv("RPMA_DEVICE");
	char *kept = device ? strdup(device) : NULL;
	if (info == NULL || (device && kept == NULL)) {
		/* message(info, info-failed): status 1 -> Is the disk full? */
		fprintf(stderr, "rpma-info: out of memory\n");
		free(kept);
		free(info);
		return EXIT_FAILURE;
	}
	info->rpma_device = kept;

	/* failures are expected findings here and are printed in their place, so log nothing */
	(void)rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
	info_find_devices(info);
	if (options.address)
		info_add_address(info, options.address, false);
	if (options.remote)
		info_add_address(info, options.remote, true);
	if (options.address == NULL && options.remote == NULL)
		info_find_addresses(info);
	info_find_limits(info);
	if (options.path)
		info_find_path(info, options.path);

	bool good = true;
	if (options.json)
		good = info_print_json(info);
	else
		info_print_text(info);
	if (!good || fflush(stdout) || ferror(stdout)) {
		/* message(info-failed) */
		fprintf(stderr, "rpma-info: the result cannot be written\n");
		good = false;
	}
	good = is_as_asked(info, &options) && good;
	free(kept);
	free(info);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
