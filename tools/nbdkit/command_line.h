/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* command_line.h -- what nbdkit was told, and does not tell its plugins in time */

#ifndef NBDKIT_RPMA_COMMAND_LINE_H
#define NBDKIT_RPMA_COMMAND_LINE_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Reads the arguments of nbdkit, each with a zero byte at its end as in /proc/self/cmdline, and returns true if
 * they have -r, or --readonly or --read-only. A plugin hears of that only when the first client has connected.
 */
bool command_line_is_read_only(FILE *args);

#endif /* NBDKIT_RPMA_COMMAND_LINE_H */
