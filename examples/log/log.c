/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* log.c -- where the messages of librpma go, and which messages; no network is used */

#include <stdarg.h>
#include <stdio.h>

#include <librpma.h>

/* several threads may call this at once; it must not call librpma */
__attribute__((format(printf, 5, 6))) static void
my_log(enum rpma_log_level level, const char *file_name, const int line_no, const char *function_name,
	const char *message_format, ...)
{
	static const char *const names[] = { "FATAL", "ERROR", "WARNING", "NOTICE", "INFO", "DEBUG" };
	char text[256];
	va_list args;

	va_start(args, message_format);
	(void)vsnprintf(text, sizeof(text), message_format, args);
	va_end(args);

	/* the text ends with a newline; without a file name, line and function mean nothing */
	const char *name = level >= 0 && level <= RPMA_LOG_LEVEL_DEBUG ? names[level] : "?";
	if (file_name)
		fprintf(stderr, "my own log: %s: %s:%d %s: %s", name, file_name, line_no, function_name,
			text);
	else
		fprintf(stderr, "my own log: %s: %s", name, text);
}

/* makes a call that fails, which librpma logs with the level ERROR */
static void
provoke_error(void)
{
	static const char too_short[] = { 1 };
	struct rpma_mr_remote *mr = NULL;

	(void)rpma_mr_remote_from_descriptor(too_short, sizeof(too_short), &mr);
}

static int
set_thresholds(enum rpma_log_level all, enum rpma_log_level on_stderr)
{
	int ret = rpma_log_set_threshold(RPMA_LOG_THRESHOLD, all);

	return ret ? ret : rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, on_stderr);
}

int
main(void)
{
	enum rpma_log_level all;
	enum rpma_log_level on_stderr;

	/* so that this text and the messages appear in order */
	setvbuf(stdout, NULL, _IOLBF, 0);

	printf("Messages go to syslog, up to the level of the first threshold, and those up to the level of the\n"
	       "second one to stderr as well.\n");
	int ret = rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &all);
	if (ret == 0)
		ret = rpma_log_get_threshold(RPMA_LOG_THRESHOLD_AUX, &on_stderr);
	if (ret)
		return 1;
	printf("The thresholds are %d and %d; %d is WARNING, %d is nothing at all.\n", all, on_stderr,
		RPMA_LOG_LEVEL_WARNING, RPMA_LOG_DISABLED);

	printf("An error to syslog and to stderr:\n");
	if (set_thresholds(RPMA_LOG_LEVEL_ERROR, RPMA_LOG_LEVEL_ERROR))
		return 1;
	provoke_error();

	printf("An error to syslog alone:\n");
	if (set_thresholds(RPMA_LOG_LEVEL_ERROR, RPMA_LOG_DISABLED))
		return 1;
	provoke_error();

	printf("An error that nobody hears of:\n");
	if (set_thresholds(RPMA_LOG_DISABLED, RPMA_LOG_DISABLED))
		return 1;
	provoke_error();

	printf("An error to a function of this program; the second threshold does not matter to it:\n");
	if (set_thresholds(RPMA_LOG_LEVEL_ERROR, RPMA_LOG_DISABLED) || rpma_log_set_function(my_log))
		return 1;
	provoke_error();

	printf("And to syslog and stderr again:\n");
	if (rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION) ||
		set_thresholds(RPMA_LOG_LEVEL_ERROR, RPMA_LOG_LEVEL_ERROR))
		return 1;
	provoke_error();

	return 0;
}
