/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * log_file.h -- a log as a file: created whole or not at all, opened only if it is good
 *
 * All functions return 0, or -1 after they have told the user what went wrong.
 */

#ifndef LOG_FILE_H
#define LOG_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "log_format.h"
#include "persistent.h"

struct log_file {
	struct persistent mem;
	struct log_header header;
	struct log_scan scan; /* at the beginning of the log, or at its end if it was opened for writing */
	int fd;               /* holds the lock of a file that is open for writing */
};

/*
 * Create an empty log of that size. An existing file is never replaced, and a crash on the way leaves nothing
 * behind under that name.
 */
int log_file_create(const char *path, uint64_t size);

/*
 * Map the log and check its header. A file that is no good log is refused and stays as it is. For writing,
 * the file is locked, as one process serves it at a time, and all its records are checked as well.
 */
int log_file_open(const char *path, bool writable, struct log_file *file);

void log_file_close(struct log_file *file);

#endif /* LOG_FILE_H */
