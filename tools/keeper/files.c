/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* files.c -- finds a file that is given for two purposes */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "resolve.h"

/* memory and identity of each name, and the status; the latter two are replaced by a file with a name of its own */
#define USES_MAX (3 * LENDS_MAX + 2)

enum use_kind { USE_MEMORY, USE_IDENTITY, USE_STATUS };

struct use {
	enum use_kind kind;
	const struct lend_option *lend; /* NULL: the status */
	char path[RESOLVED_MAX];
};

/* what a purpose of a name, or of the keeper, needs: the file, and the one that replaces it */
static void
add_replaced(struct use *uses, int *count, enum use_kind kind, const struct lend_option *lend,
	const char *path)
{
	char real[RESOLVED_MAX];

	resolve(path, real);
	for (int i = 0; i < 2; i++) {
		struct use *use = &uses[(*count)++];
		use->kind = kind;
		use->lend = lend;
		snprintf(use->path, sizeof(use->path), "%.*s%s", PATH_MAX, real, i == 0 ? "" : ".new");
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
		add_replaced(uses, &count, USE_IDENTITY, lend, identity);
		free(identity);
	}
	if (options->status_path)
		add_replaced(uses, &count, USE_STATUS, NULL, options->status_path);
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
	/*
	 * message(keeper, one-file-twice): status 1: one file is given for two purposes, and one of them
	 * would replace it -> Give each its own file.
	 */
	if (one->kind == USE_STATUS || two->kind == USE_STATUS)
		return why_say(why, "--status %s is a file of %s", one->path,
			one->lend ? one->lend->name : two->lend->name);
	/* message(one-file-twice) */
	if (one->kind == USE_IDENTITY && two->kind == USE_IDENTITY)
		return why_say(why, "%s and %s have the same file for their identity: %s", one->lend->name,
			two->lend->name, one->path);
	/* message(one-file-twice) */
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
