/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * log_file.h -- a log as a file: created as a whole or not at all, opened only if it is good
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
	struct log_scan scan; /* at the beginning of the log, or at its end if opened for writing */
	int fd;               /* holds the lock of a file opened for writing */
};

/*
 * Creates an empty log of that size. It never replaces an existing file. A crash on the way leaves no file of
 * that name.
 */
int log_file_create(const char *path, uint64_t size);

/*
 * Maps the log and checks its header. It refuses a file that is not a good log, and does not change it. For
 * writing it also locks the file, since one process serves it at a time, and checks all records.
 */
int log_file_open(const char *path, bool writable, struct log_file *file);

void log_file_close(struct log_file *file);

#endif /* LOG_FILE_H */
