/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * stderr_line.h -- lines of a log on standard error, and never into anything else
 *
 * Descriptor 2 is standard error only by agreement. A program that closed it may have a socket or a data file there. Lines
 * are written if 2 is what it was when the program (or this library) was loaded. They also follow a daemon that redirects it
 * later to a terminal, to a pipe, or to a file that is open for writing only or for appending. They go nowhere if 2 was
 * closed at the load, and never to another socket, an eventfd, an epoll, or a file that is open for reading and writing.
 *
 * A reader that has gone raises no SIGPIPE. A reader that does not read holds up no thread for long.
 */

#ifndef SOFTRDMA_STDERR_LINE_H
#define SOFTRDMA_STDERR_LINE_H

#include <stddef.h>

/* of a line of the log: a reader that works needs less, and the threads of the device can spare this once */
#define SOFTRDMA_STDERR_PATIENCE_MS 100

/*
 * Waits at most patience_ms for room (-1: for ever) and drops what finds none. After that, lines do not wait until one has
 * found room; it comes after a line that counts those that are missing. One line at a time is written whole if it has at
 * most PIPE_BUF bytes. Preserves no errno. Any thread, any lock, also in a child that was forked meanwhile.
 */
void softrdma_stderr_line(const char *line, size_t len, int patience_ms);

#endif /* SOFTRDMA_STDERR_LINE_H */
