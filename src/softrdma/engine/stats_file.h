/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * stats_file.h -- the statistics of the process as a text file, for node_exporter's textfile collector
 *
 * If SOFTRDMA_STATS_FILE is set, a thread of its own writes the file every SOFTRDMA_STATS_SECONDS, and once more when it
 * is stopped. It replaces the file by rename(2), so that readers see a whole one. No thread that serves a connection
 * waits for the file system.
 */

#ifndef SOFTRDMA_STATS_FILE_H
#define SOFTRDMA_STATS_FILE_H

#include <stdio.h>

/* Starts the thread, and waits for its end. If it cannot be started, a WARNING says why, and the device works without it. */
void softrdma_stats_file_start(void);
void softrdma_stats_file_stop(void);

/* the text, in the format of Prometheus. No lock held. */
void softrdma_stats_print(FILE *out);

#endif /* SOFTRDMA_STATS_FILE_H */
