/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* command_line.c -- what nbdkit was told, and does not tell its plugins in time */

#include <stdlib.h>
#include <string.h>

#include "command_line.h"

/* options of nbdkit 1.32 that have a value. That is the rest of the argument, or the next one if there is no rest */
static const char short_with_value[] = "DegiPptUu";
static const char *const long_with_value[] = { "--debug", "--export", "--export-name", "--exportname",
	"--filter", "--group", "--ip-addr", "--ipaddr", "--log", "--mask-handshake", "--pid-file",
	"--pidfile", "--port", "--run", "--selinux-label", "--threads", "--tls", "--tls-certificates",
	"--tls-psk", "--unix", "--user" };

struct meaning {
	bool is_read_only;
	bool takes_next; /* the next argument is the value of this one */
};

static struct meaning
short_options(const char *letters)
{
	struct meaning meaning = { .is_read_only = false };

	for (; *letters; letters++) {
		if (strchr(short_with_value, *letters)) {
			meaning.takes_next = letters[1] == '\0';
			break;
		}
		if (*letters == 'r')
			meaning.is_read_only = true;
	}
	return meaning;
}

/* getopt_long(3) takes an abbreviation that is not ambiguous; nbdkit has refused one that is */
static bool
abbreviates(const char *arg, const char *option)
{
	return strncmp(arg, option, strlen(arg)) == 0;
}

static struct meaning
long_option(const char *arg)
{
	struct meaning meaning = {
		.is_read_only = abbreviates(arg, "--readonly") || abbreviates(arg, "--read-only"),
	};

	for (size_t i = 0; i < sizeof(long_with_value) / sizeof(long_with_value[0]); i++)
		if (abbreviates(arg, long_with_value[i]))
			meaning.takes_next = true;
	return meaning;
}

bool
command_line_is_read_only(FILE *args)
{
	struct meaning meaning = { .takes_next = true }; /* the name of the program is no option */
	size_t size = 0;
	char *arg = NULL;

	while (!meaning.is_read_only && getdelim(&arg, &size, '\0', args) >= 0) {
		if (meaning.takes_next)
			meaning.takes_next = false;
		else if (strcmp(arg, "--") == 0)
			break;
		else if (strncmp(arg, "--", 2) == 0)
			meaning = long_option(arg);
		else if (arg[0] == '-')
			meaning = short_options(arg + 1);
	}
	free(arg);
	return meaning.is_read_only;
}
