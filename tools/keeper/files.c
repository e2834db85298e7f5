/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* files.c -- finds a file that is given for two purposes */

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

/* memory and identity of each name, and the status */
#define USES_MAX (2 * LENDS_MAX + 1)

struct use {
	enum { USE_MEMORY, USE_IDENTITY, USE_STATUS } kind;
	const struct lend_option *lend; /* NULL: the status */
	char path[2 * PATH_MAX];        /* without symbolic links */
};

/* a file that does not exist yet has the name that it will get; one that cannot be found stays as it is given */
static void
resolve(const char *path, char resolved[static 2 * PATH_MAX])
{
	char one[PATH_MAX], two[PATH_MAX];

	if (realpath(path, resolved))
		return;
	snprintf(one, sizeof(one), "%s", path);
	snprintf(two, sizeof(two), "%s", path);
	if (realpath(dirname(one), resolved)) {
		const size_t len = strlen(resolved);
		snprintf(resolved + len, 2 * PATH_MAX - len, "/%s", basename(two));
	} else {
		snprintf(resolved, 2 * PATH_MAX, "%s", path);
	}
}

/* -1: no memory */
static int
find_uses(const struct options *options, struct use *uses)
{
	int count = 0;

	for (int i = 0; i < options->lend_count; i++) {
		const struct lend_option *lend = &options->lends[i];
		if (lend->source.path == NULL)
			continue;
		char *identity = memory_identity_path(&lend->source);
		if (identity == NULL)
			return -1;
		uses[count].kind = USE_MEMORY;
		uses[count].lend = lend;
		resolve(lend->source.path, uses[count++].path);
		uses[count].kind = USE_IDENTITY;
		uses[count].lend = lend;
		resolve(identity, uses[count++].path);
		free(identity);
	}
	if (options->status_path) {
		uses[count].kind = USE_STATUS;
		uses[count].lend = NULL;
		resolve(options->status_path, uses[count++].path);
	}
	return count;
}

/* of two names for the same memory, which are for reading only, the identity is the same; it is not written */
static bool
may_share(const struct use *one, const struct use *two)
{
	/* a second lend of memory is refused by its lock */
	if (one->kind == USE_MEMORY && two->kind == USE_MEMORY)
		return true;
	return one->kind == USE_IDENTITY && two->kind == USE_IDENTITY && one->lend->source.read_only &&
		two->lend->source.read_only;
}

static bool
refuse(const struct use *one, const struct use *two, char why[static WHY_MAX])
{
	if (one->kind == USE_STATUS || two->kind == USE_STATUS)
		return why_say(why, "--status %s is a file of %s", one->path,
			one->lend ? one->lend->name : two->lend->name);
	if (one->kind == USE_IDENTITY && two->kind == USE_IDENTITY)
		return why_say(why, "%s and %s have the same file for their identity: %s", one->lend->name,
			two->lend->name, one->path);
	return why_say(why, "the file for the identity of %s is the memory that is lent as %s: %s",
		one->kind == USE_IDENTITY ? one->lend->name : two->lend->name,
		one->kind == USE_MEMORY ? one->lend->name : two->lend->name, one->path);
}

bool
files_are_separate(const struct options *options, char why[static WHY_MAX])
{
	struct use *uses = calloc(USES_MAX, sizeof(*uses));
	const int count = uses ? find_uses(options, uses) : -1;
	bool separate = count >= 0 || why_say(why, "out of memory");

	for (int i = 0; separate && i < count; i++)
		for (int j = i + 1; separate && j < count; j++)
			if (strcmp(uses[i].path, uses[j].path) == 0 && !may_share(&uses[i], &uses[j]))
				separate = refuse(&uses[i], &uses[j], why);
	free(uses);
	return separate;
}
