/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* server.h -- the target's program: one client after the other */

#ifndef PERF_SERVER_H
#define PERF_SERVER_H

#include "options.h"

/*
 * Serves until the process ends, or one client if options->once. ready_fd gets the port of the control
 * connection as a line of text when clients may come; it is -1 for standard output with words around it.
 * Returns an exit status.
 */
int server_run(const struct options *options, int ready_fd);

#endif /* PERF_SERVER_H */
