/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * log.c -- one line on standard error for each event
 *
 * A reader that stops reading must not stop the keeper, nor a thread of the library. No descriptor tells in advance whether a
 * write to it waits: a terminal takes a part of a line, and other programs may fill the same pipe. So a thread writes, and
 * what finds no room in its queue is dropped and counted.
 */

#include <librpma.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "softrdma/base/stderr_line.h"

#define LINE_MAX_SIZE 1280
#define QUEUE_SIZE 256 /* lines */
#define END_SECONDS 1
#define STRANGER_LINES 10
#define CLIENT_LINES 100
#define LIMIT_SECONDS 10

/* all under lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char queue[QUEUE_SIZE][LINE_MAX_SIZE];
static unsigned first, count; /* the lines in the queue; the first one is being written */
static unsigned long dropped; /* lines that found no room */
static bool has_thread;

/* --- the thread --- */

/* waits for the reader as long as it takes */
static void
write_all(const char *line)
{
	softrdma_stderr_line(line, strlen(line), -1);
}

static void *
write_lines(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	for (;;) {
		while (count == 0)
			pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
		write_all(queue[first]);
		pthread_mutex_lock(&lock);
		first = (first + 1) % QUEUE_SIZE;
		count--;
		pthread_cond_broadcast(&changed);
	}
	return NULL;
}

void
log_begin(void)
{
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	has_thread = pthread_create(&thread, NULL, write_lines, NULL) == 0 && pthread_detach(thread) == 0;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void
log_end(void)
{
	struct timespec end = { 0 };

	(void)clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += END_SECONDS;
	pthread_mutex_lock(&lock);
	while (has_thread && count && pthread_cond_timedwait(&changed, &lock, &end) == 0)
		;
	pthread_mutex_unlock(&lock);
}

/* --- lines --- */

/* under the lock: puts a line with the time into the queue, or writes it if there is no thread */
static void
put_line(const char *text)
{
	char alone[LINE_MAX_SIZE], when[40] = "";
	char *line = has_thread ? queue[(first + count) % QUEUE_SIZE] : alone;
	struct timespec now;
	struct tm tm;

	if (getenv("JOURNAL_STREAM") == NULL && clock_gettime(CLOCK_REALTIME, &now) == 0 &&
		localtime_r(&now.tv_sec, &tm))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S%z ", &tm);
	snprintf(line, LINE_MAX_SIZE - 1, "%srpma-keeper: %s", when, text);
	const size_t len = strlen(line);
	line[len] = '\n';
	line[len + 1] = '\0';
	if (!has_thread)
		write_all(line);
	else
		count++;
}

static void
write_line(const char *text)
{
	char about[80];

	pthread_mutex_lock(&lock);
	if (dropped && count < QUEUE_SIZE - 1) {
		/*
		 * message(keeper, lines-missing): the reader of the log did not read for a while; or there
		 * were more events than the keeper writes lines about -> Look at the status (`--status`).
		 */
		snprintf(about, sizeof(about), "%lu lines are missing here: the log was not read", dropped);
		dropped = 0;
		put_line(about);
	}
	if (count < QUEUE_SIZE)
		put_line(text);
	else
		dropped++;
	pthread_cond_broadcast(&changed);
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
		/* message(lines-missing) */
		if (limit->lines > limit->lines_max)
			log_line("%u more lines about %s were left out", limit->lines - limit->lines_max,
				limit->about);
		limit->since = now.tv_sec;
		limit->lines = 0;
	}
	return ++limit->lines <= limit->lines_max;
}

__attribute__((format(printf, 2, 0))) static void
limited_line(struct limit *limit, const char *format, va_list args)
{
	if (may_write(limit))
		format_line(format, args);
}

void
log_stranger(const char *format, ...)
{
	static struct limit limit = { .lines_max = STRANGER_LINES, .about = "requests" };
	va_list args;

	va_start(args, format);
	limited_line(&limit, format, args);
	va_end(args);
}

void
log_client(const char *format, ...)
{
	static struct limit limit = { .lines_max = CLIENT_LINES, .about = "clients" };
	va_list args;

	va_start(args, format);
	limited_line(&limit, format, args);
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
