/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * output.h -- where a report goes: checked before the measurement, written as a whole after it
 *
 * A file is replaced by a new one of the same mode, so it is never empty or half written. Symbolic links are
 * followed. Devices and pipes are written to directly.
 */

#ifndef PERF_OUTPUT_H
#define PERF_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "why.h"

/* true if the file could be written now; it is left as it is */
bool output_check(const char *path, char why[static WHY_MAX]);
bool output_write(const char *path, const void *bytes, size_t len, char why[static WHY_MAX]);
/* true if standard output is open for writing; else a socket could take its number */
bool output_check_standard(char why[static WHY_MAX]);

#endif /* PERF_OUTPUT_H */
