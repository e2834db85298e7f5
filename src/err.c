/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* err.c -- error codes as text, reporting an error, and the last error of each thread */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "err.h"
#include "log.h"

#define SENTENCE_MAX 512

#define ERRORS(X) \
	X(0, "Success") \
	X(RPMA_E_UNKNOWN, "Unknown error") \
	X(RPMA_E_NOSUPP, "Not supported") \
	X(RPMA_E_PROVIDER, "Provider error occurred") \
	X(RPMA_E_NOMEM, "Out of memory") \
	X(RPMA_E_INVAL, "Invalid argument") \
	X(RPMA_E_NO_COMPLETION, "No next completion available") \
	X(RPMA_E_NO_EVENT, "No next event available") \
	X(RPMA_E_AGAIN, "Temporary error, try again") \
	X(RPMA_E_SHARED_CHANNEL, "Completion channel is shared") \
	X(RPMA_E_NOT_SHARED_CHNL, "Completion channel is not shared")

const char *
rpma_err_2str(int ret)
{
	switch (ret) {
#define TEXT(code, text) \
	case code: \
		return text;
		ERRORS(TEXT)
#undef TEXT
	default:
		return "Unknown error";
	}
}

/* the sentence that rpma_errormsg() returns, one per thread */
static _Thread_local char last_sentence[SENTENCE_MAX] = "no call of this thread has failed";

const char *
rpma_errormsg(void)
{
	return last_sentence;
}

int
rpmai_refuse(int ret, const char *sentence)
{
	snprintf(last_sentence, sizeof(last_sentence), "%s", sentence);
	return ret;
}

int
rpmai_fail(int ret, const char *file, int line, const char *func, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(last_sentence, sizeof(last_sentence), fmt, ap);
	va_end(ap);

	rpmai_log(RPMA_LOG_LEVEL_ERROR, file, line, func, "%s", last_sentence);
	return ret;
}

int
rpmai_fail_errno(int ret, int errnum, const char *file, int line, const char *func, const char *way_out,
	const char *fmt, ...)
{
	char what[SENTENCE_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);

	errno = errnum; /* for %m: strerror() is not thread-safe */
	return rpmai_fail(ret, file, line, func, "%s failed: %m%s%s", what, way_out ? ": " : "",
		way_out ? way_out : "");
}
