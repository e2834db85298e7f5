/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * log.h -- one line on standard error for each event
 *
 * It begins with the time, unless standard error leads to systemd's journal, which has its own. No call waits for the
 * reader of the log: lines that it does not take are counted.
 */

#ifndef KEEPER_LOG_H
#define KEEPER_LOG_H

/* starts the thread that writes the lines; before it, and if it cannot be started, each call writes its line and waits */
void log_begin(void);
/* before the program ends: waits until all lines are written, a second at most */
void log_end(void);

/* any thread */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* the same, for events that any stranger can cause: at most ten lines in ten seconds; the rest is counted. Main thread. */
void log_stranger(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* the same, for events that clients cause by asking for memory and going away: at most a hundred lines in ten seconds */
void log_client(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* the lines of the library come here too from now on */
void log_take_library(void);

#endif /* KEEPER_LOG_H */
