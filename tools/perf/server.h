/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* server.h -- the target: serves several clients at once */

#ifndef PERF_SERVER_H
#define PERF_SERVER_H

#include "options.h"

/*
 * Serves until the process ends, or for one client if options->once. When clients may come, it writes the
 * port of the control connection as a line of text to ready_fd. If ready_fd is -1, it prints a sentence with
 * the port on standard output instead. Returns an exit status.
 */
int server_run(const struct options *options, int ready_fd);

#endif /* PERF_SERVER_H */
