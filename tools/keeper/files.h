/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* files.h -- finds a file that is given for two purposes */

#ifndef KEEPER_FILES_H
#define KEEPER_FILES_H

#include "options.h"

/*
 * Each file of an identity and the status are replaced as a whole. So none of them may be memory that is
 * lent, or another one of them: false, with *why. Names that lead to the same file count as one. Nothing is
 * opened or changed.
 */
bool files_are_separate(const struct options *options, char why[static WHY_MAX]);

#endif /* KEEPER_FILES_H */
