/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* log.h -- one line on standard error for each event */

#ifndef KEEPER_LOG_H
#define KEEPER_LOG_H

/* begins with the time, unless standard error leads to systemd's journal, which has its own */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* the same, for events that any stranger can cause: at most ten lines in ten seconds; the rest is counted */
void log_stranger(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* KEEPER_LOG_H */
