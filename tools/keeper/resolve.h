/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* resolve.h -- one name for a file, however it is given */

#ifndef KEEPER_RESOLVE_H
#define KEEPER_RESOLVE_H

#include <limits.h>

#define RESOLVED_MAX (2 * PATH_MAX)

/*
 * Gives the path without symbolic links. A file that does not exist yet has the name that it will get; one that
 * cannot be found stays as it is given.
 */
void resolve(const char *path, char resolved[static RESOLVED_MAX]);

#endif /* KEEPER_RESOLVE_H */
