/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* resolve.c -- one name for a file, however it is given */

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resolve.h"

void
resolve(const char *path, char resolved[static RESOLVED_MAX])
{
	char one[PATH_MAX], two[PATH_MAX];

	if (realpath(path, resolved))
		return;
	snprintf(one, sizeof(one), "%s", path);
	snprintf(two, sizeof(two), "%s", path);
	if (realpath(dirname(one), resolved)) {
		const size_t len = strlen(resolved);
		snprintf(resolved + len, RESOLVED_MAX - len, "/%s", basename(two));
	} else {
		snprintf(resolved, RESOLVED_MAX, "%s", path);
	}
}
