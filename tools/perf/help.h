/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* help.h -- the text of --help */

#ifndef PERF_HELP_H
#define PERF_HELP_H

void help_print(void);
void help_print_version(void);

#endif /* PERF_HELP_H */
