/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * log.c -- one line on standard error for each event
 *
 * A reader that stops reading must not stop the keeper, nor a thread of the library. So a line that would have to wait is
 * dropped and counted.
 */

#include <librpma.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log.h"

/* less than PIPE_BUF: a pipe that has any room takes it as a whole */
#define LINE_MAX_SIZE 1280
#define STRANGER_LINES 10
#define CLIENT_LINES 100
#define LIMIT_SECONDS 10

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long dropped; /* lines that the reader did not take; under lock */

static bool
would_wait(void)
{
	struct pollfd fd = { .fd = STDERR_FILENO, .events = POLLOUT };

	return poll(&fd, 1, 0) != 1 || (fd.revents & (POLLOUT | POLLERR)) != POLLOUT;
}

/* under the lock: a line with the time, in one call, so that lines of other programs do not come in between */
static void
put_line(const char *text)
{
	char line[LINE_MAX_SIZE], when[40] = "";
	struct timespec now;
	struct tm tm;

	if (getenv("JOURNAL_STREAM") == NULL && clock_gettime(CLOCK_REALTIME, &now) == 0 &&
		localtime_r(&now.tv_sec, &tm))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S%z ", &tm);
	const int len = snprintf(line, sizeof(line), "%srpma-keeper: %s\n", when, text);
	const size_t size = len < (int)sizeof(line) ? (size_t)len : sizeof(line) - 1;
	line[size - 1] = '\n';
	if (would_wait() || write(STDERR_FILENO, line, size) != (ssize_t)size)
		dropped++;
}

static void
write_line(const char *text)
{
	char about[80];

	pthread_mutex_lock(&lock);
	if (dropped && !would_wait()) {
		snprintf(about, sizeof(about), "%lu lines are missing here: the log was not read", dropped);
		dropped = 0;
		put_line(about);
	}
	put_line(text);
	pthread_mutex_unlock(&lock);
}

__attribute__((format(printf, 1, 0))) static void
format_line(const char *format, va_list args)
{
	char text[LINE_MAX_SIZE];

	vsnprintf(text, sizeof(text), format, args);
	write_line(text);
}

void
log_line(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	format_line(format, args);
	va_end(args);
}

/* --- lines that others can cause --- */

struct limit {
	const unsigned lines_max; /* in LIMIT_SECONDS */
	const char *const about;
	time_t since;
	unsigned lines;
};

/* true if one more line may be written now; tells how many there were too many before */
static bool
may_write(struct limit *limit)
{
	struct timespec now = { 0 };

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec - limit->since >= LIMIT_SECONDS) {
		if (limit->lines > limit->lines_max)
			log_line("%u more lines about %s were left out", limit->lines - limit->lines_max,
				limit->about);
		limit->since = now.tv_sec;
		limit->lines = 0;
	}
	return ++limit->lines <= limit->lines_max;
}

void
log_stranger(const char *format, ...)
{
	static struct limit limit = { .lines_max = STRANGER_LINES, .about = "requests" };
	va_list args;

	if (!may_write(&limit))
		return;
	va_start(args, format);
	format_line(format, args);
	va_end(args);
}

void
log_client(const char *format, ...)
{
	static struct limit limit = { .lines_max = CLIENT_LINES, .about = "clients" };
	va_list args;

	if (!may_write(&limit))
		return;
	va_start(args, format);
	format_line(format, args);
	va_end(args);
}

/* --- the library's lines --- */

__attribute__((format(printf, 5, 6))) static void
library_line(enum rpma_log_level level, const char *file, const int number, const char *function,
	const char *format, ...)
{
	static const char *const names[] = {
		[RPMA_LOG_LEVEL_FATAL] = "fatal",
		[RPMA_LOG_LEVEL_ERROR] = "error",
		[RPMA_LOG_LEVEL_WARNING] = "warning",
		[RPMA_LOG_LEVEL_NOTICE] = "notice",
		[RPMA_LOG_LEVEL_INFO] = "info",
		[RPMA_LOG_LEVEL_DEBUG] = "debug",
	};
	char text[LINE_MAX_SIZE], line[2 * LINE_MAX_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	text[strcspn(text, "\n")] = '\0';
	snprintf(line, sizeof(line), "%s: %s: %d: %s: %s", names[level], file ? file : "librpma",
		file ? number : 0, file ? function : "", text);
	write_line(line);
}

void
log_take_library(void)
{
	(void)rpma_log_set_function(library_line);
}
