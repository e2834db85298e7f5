/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* durable_file.h -- small files that are replaced as a whole, and names that survive a power failure */

#ifndef KEEPER_DURABLE_FILE_H
#define KEEPER_DURABLE_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "perf/why.h"

/* makes the names in the directory of path durable */
bool durable_file_sync_directory(const char *path, char why[static WHY_MAX]);

/*
 * Puts text into the file at path. At each moment a reader finds the old content or the new one. The new one
 * is written to "<path>.new" first, which has the mode if it is new, and the owner of the old file if this
 * process may give it away. If durable is true, the content and the name are on the disk before the call
 * returns. After false the file may have either content, because syncing its directory may have failed.
 */
bool durable_file_replace(const char *path, const char *text, mode_t mode, bool durable,
	char why[static WHY_MAX]);

#endif /* KEEPER_DURABLE_FILE_H */
