/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* options.c -- the command line of rpma-keeper */

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "perf/numbers.h"

#define ANONYMOUS "dram:"

static const char help[] =
	"rpma-keeper -- lends memory of this machine to clients elsewhere, by name\n"
	"\n"
	"  rpma-keeper --listen ADDRESS[:PORT] --lend NAME=PATH[,property...] [--lend ...]\n"
	"              [--clients N] [--status FILE] [--direct-write]\n"
	"  rpma-keeper --clear-failed NAME --lend NAME=PATH[,...]\n"
	"\n"
	"  --listen ADDRESS[:PORT]  where clients connect to; an IPv6 address as [ADDRESS]:PORT; the port is\n"
	"                           " KEEPER_PORT_DEFAULT " unless given\n"
	"  --lend NAME=PATH         lends a file or a device DAX; dram: instead of a path is memory of this process,\n"
	"                           which is lost when it ends\n"
	"      size=SIZE            in bytes, or with k, m or g; a file that does not exist is made with this size\n"
	"      ro                   lends it for reading only\n"
	"      durable              promises that an overlay file system keeps the file on a disk\n"
	"      identity=FILE        where the identity of the memory is kept, instead of PATH.identity\n"
	"  --clients N              at most N clients at a time; 64 unless given\n"
	"  --status FILE            writes what is lent to whom, as JSON, whenever it changes\n"
	"  --direct-write           promises that RDMA writes reach persistent memory past the processor's caches;\n"
	"                           for hardware without flush only\n"
	"  --clear-failed NAME      takes the failure of the medium out of the record of this memory, and ends;\n"
	"                           the other options may be those of the keeper\n"
	"  --help, --version\n"
	"\n"
	"SIGTERM makes it stop lending, flush and end. Files of TLS that are replaced need no signal.\n"
	"Exit status: 0 ended by SIGTERM or SIGINT; 1 it failed, or a medium has; 2 wrong command line.\n";

void
options_print_help(void)
{
	fputs(help, stdout);
}

/* a copy that lives as long as the options */
static char *
keep(struct options *options, const char *text)
{
	char *copy = strdup(text);

	if (copy)
		options->strings[options->string_count++] = copy;
	return copy;
}

static bool
parse_listen(struct options *options, const char *text, char why[static WHY_MAX])
{
	if (options->addr)
		return why_say(why, "--listen is given twice");
	char *addr = keep(options, text);
	if (addr == NULL)
		return why_say(why, "out of memory");

	char *port = strrchr(addr, ':');
	if (addr[0] == '[') {
		char *end = strchr(addr, ']');
		if (end == NULL || (end[1] != '\0' && end[1] != ':'))
			return why_say(why, "%s is no [ADDRESS]:PORT", text);
		port = end[1] ? end + 1 : NULL;
		*end = '\0';
		addr++;
	} else if (port && strchr(addr, ':') != port) {
		port = NULL; /* an IPv6 address without brackets has no port */
	}
	options->port = KEEPER_PORT_DEFAULT;
	if (port) {
		uint64_t number;
		*port++ = '\0';
		if (!number_parse(port, 1, 65535, &number))
			return why_say(why, "%s is no port", port);
		options->port = port;
	}
	options->addr = addr;
	return *addr ? true : why_say(why, "%s names no address", text);
}

static bool
parse_property(struct lend_option *lend, const char *text, char why[static WHY_MAX])
{
	static const char size[] = "size=", identity[] = "identity=";
	struct memory_source *source = &lend->source;

	if (strcmp(text, "ro") == 0) {
		source->read_only = true;
	} else if (strcmp(text, "durable") == 0) {
		source->vouched = true;
	} else if (strncmp(text, size, strlen(size)) == 0) {
		text += strlen(size);
		if (!size_parse(text, 1, INT64_MAX, &source->size))
			return why_say(why,
				"%s: size=%s is no size: give bytes, or a number with k, m or g, such as 64m",
				lend->name, text);
		if (source->size % MEMORY_ALIGNMENT)
			return why_say(why, "%s: size=%s is no multiple of %d bytes", lend->name, text,
				MEMORY_ALIGNMENT);
	} else if (strncmp(text, identity, strlen(identity)) == 0 && text[strlen(identity)]) {
		source->identity_path = text + strlen(identity);
	} else {
		return why_say(why, "%s: %s is none of size=, ro, durable and identity=", lend->name, text);
	}
	return true;
}

/* NAME=PATH[,property...]; a path with a comma cannot be given */
static bool
parse_lend(struct options *options, const char *text, char why[static WHY_MAX])
{
	if (options->lend_count == LENDS_MAX)
		return why_say(why, "--lend is given more than %d times", LENDS_MAX);
	char *rest = keep(options, text);
	if (rest == NULL)
		return why_say(why, "out of memory");
	struct lend_option *lend = &options->lends[options->lend_count];
	char *name = strsep(&rest, "=");
	if (rest == NULL || !keeper_name_is_valid(name))
		return why_say(why,
			"%s is no NAME=PATH with a name of at most %d letters, digits, '.', '_' and '-'",
			text, KEEPER_NAME_MAX);
	snprintf(lend->name, sizeof(lend->name), "%s", name);
	for (int i = 0; i < options->lend_count; i++)
		if (strcmp(options->lends[i].name, lend->name) == 0)
			return why_say(why, "the name %s is given twice", lend->name);

	const char *path = strsep(&rest, ",");
	if (*path == '\0')
		return why_say(why, "%s: the path is empty", lend->name);
	if (strcmp(path, ANONYMOUS) != 0)
		lend->source.path = path;
	for (char *property; (property = strsep(&rest, ",")) != NULL;)
		if (!parse_property(lend, property, why))
			return false;
	if (lend->source.path == NULL && (lend->source.size == 0 || lend->source.identity_path))
		return why_say(why, "%s: " ANONYMOUS " needs size=, and keeps no identity", lend->name);
	options->lend_count++;
	return true;
}

static bool
parse_option(struct options *options, int letter, char why[static WHY_MAX])
{
	uint64_t number;

	switch (letter) {
	case 'l':
		return parse_listen(options, optarg, why);
	case 'n':
		return parse_lend(options, optarg, why);
	case 'c':
		if (!number_parse(optarg, 1, CLIENTS_MAX, &number))
			return why_say(why, "--clients: %s is no number from 1 to %d", optarg, CLIENTS_MAX);
		options->clients_max = (int)number;
		return true;
	case 's':
		options->status_path = optarg;
		return true;
	case 'd':
		options->direct_write = true;
		return true;
	case 'f':
		options->clear_failed = optarg;
		return true;
	case 'h':
		options->mode = MODE_HELP;
		return true;
	default:
		options->mode = MODE_VERSION;
		return true;
	}
}

/* the memory that --clear-failed names */
static bool
find_cleared(struct options *options, char why[static WHY_MAX])
{
	options->mode = MODE_CLEAR_FAILED;
	for (int i = 0; i < options->lend_count; i++)
		if (strcmp(options->lends[i].name, options->clear_failed) == 0) {
			options->cleared = &options->lends[i];
			/*
			 * message(keeper, wrong-clear-failed): status 2: a wrong command line -> Give the
			 * options that the keeper has, with a name that one of them lends.
			 */
			return options->cleared->source.path
				? true
				: why_say(why, "--clear-failed: dram: has no record");
		}
	/* message(wrong-clear-failed) */
	return why_say(why, "--clear-failed: no --lend has the name %s", options->clear_failed);
}

bool
options_parse(struct options *options, int argc, char *argv[], char why[static WHY_MAX])
{
	static const struct option longs[] = {
		{ "listen", required_argument, NULL, 'l' },
		{ "lend", required_argument, NULL, 'n' },
		{ "clients", required_argument, NULL, 'c' },
		{ "status", required_argument, NULL, 's' },
		{ "direct-write", no_argument, NULL, 'd' },
		{ "clear-failed", required_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};

	*options = (struct options){ .mode = MODE_SERVE, .clients_max = CLIENTS_DEFAULT };
	opterr = 0; /* this program prints the error messages itself */
	for (int letter;
		options->mode == MODE_SERVE && (letter = getopt_long(argc, argv, ":", longs, NULL)) != -1;) {
		if (letter == ':')
			return why_say(why, "%s needs a value; see --help", argv[optind - 1]);
		if (letter == '?')
			return why_say(why, "%s is no option; see --help", argv[optind - 1]);
		if (!parse_option(options, letter, why))
			return false;
	}
	if (options->mode != MODE_SERVE)
		return true;
	if (optind < argc)
		return why_say(why, "%s is one argument too many; see --help", argv[optind]);
	if (options->clear_failed)
		return find_cleared(options, why);
	if (options->addr == NULL)
		return why_say(why, "--listen is missing; see --help");
	return options->lend_count ? true : why_say(why, "--lend is missing; see --help");
}

void
options_free(struct options *options)
{
	for (int i = 0; i < options->string_count; i++)
		free(options->strings[i]);
	options->string_count = 0;
}
