/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* log.c -- one line on standard error for each event; only the main thread writes them */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "log.h"

#define LINE_MAX_SIZE 1024
#define STRANGER_LINES 10
#define STRANGER_SECONDS 10

__attribute__((format(printf, 1, 0))) static void
write_line(const char *format, va_list args)
{
	char text[LINE_MAX_SIZE], when[40] = "";
	struct timespec now;
	struct tm tm;

	vsnprintf(text, sizeof(text), format, args);
	if (getenv("JOURNAL_STREAM") == NULL && clock_gettime(CLOCK_REALTIME, &now) == 0 &&
		localtime_r(&now.tv_sec, &tm))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S%z ", &tm);
	/* one call, so that lines of the library do not come in between */
	fprintf(stderr, "%srpma-keeper: %s\n", when, text);
}

void
log_line(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	write_line(format, args);
	va_end(args);
}

void
log_stranger(const char *format, ...)
{
	static time_t since;
	static unsigned lines;
	struct timespec now = { 0 };
	va_list args;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec - since >= STRANGER_SECONDS) {
		if (lines > STRANGER_LINES)
			log_line("%u more requests were refused", lines - STRANGER_LINES);
		since = now.tv_sec;
		lines = 0;
	}
	if (++lines > STRANGER_LINES)
		return;
	va_start(args, format);
	write_line(format, args);
	va_end(args);
}
