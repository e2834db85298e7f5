/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* options.c -- command-line options of the drivers of scenarios */

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

bool
option_number(const char *text, unsigned long min, unsigned long max, unsigned long *value)
{
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*value = strtoul(text, &end, 0);
	return !errno && !*end && *value >= min && *value <= max;
}

bool
option_matches(const char *patterns, const char *name)
{
	char pattern[256];

	for (const char *p = patterns; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL) {
		snprintf(pattern, sizeof(pattern), "%.*s", (int)strcspn(p, "|"), p);
		if (!fnmatch(pattern, name, 0))
			return true;
	}
	return !patterns;
}
