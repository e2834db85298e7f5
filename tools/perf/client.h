/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* client.h -- the initiator: runs the steps one after the other, and reports them */

#ifndef PERF_CLIENT_H
#define PERF_CLIENT_H

#include "options.h"

#define EXIT_USAGE 2 /* a wrong command line */
#define EXIT_WRONG_DATA 3

/* measures against the server at options->addr and port, and reports; returns an exit status */
int client_run(const struct options *options, const char *port);
/* the same with a server in a process of its own, which this call starts and ends */
int client_run_local(const struct options *options);

#endif /* PERF_CLIENT_H */
