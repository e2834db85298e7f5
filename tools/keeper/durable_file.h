/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* durable_file.h -- small files that are replaced as a whole, and names that survive a power failure */

#ifndef KEEPER_DURABLE_FILE_H
#define KEEPER_DURABLE_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "perf/why.h"

/* opens the directory of path, as a descriptor for fsync(2) or flock(2); -1 with *why */
int durable_file_open_directory(const char *path, char why[static WHY_MAX]);

/* makes the names in the directory of path durable */
bool durable_file_sync_directory(const char *path, char why[static WHY_MAX]);

enum durable_file_result {
	DURABLE_FILE_REPLACED,
	DURABLE_FILE_AS_BEFORE, /* the file has its old content */
	DURABLE_FILE_UNSURE,    /* it may have either, also after a power failure */
};

/*
 * Puts text into the file at path. At each moment a reader finds the old content or the new one. The new one
 * is written to "<path>.new" first, after all symbolic links; a file that has this name is removed. Anything
 * but a file is refused. It has the mode if it is new, and the owner of the old file if this process may give it away. If durable is true, the content and the name are on the
 * disk before the call returns. *why is set unless the result is DURABLE_FILE_REPLACED.
 */
enum durable_file_result durable_file_replace(const char *path, const char *text, mode_t mode, bool durable,
	char why[static WHY_MAX]);

#endif /* KEEPER_DURABLE_FILE_H */
