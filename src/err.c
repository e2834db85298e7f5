/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* err.c -- error codes as text, reporting an error, and the last error of each thread */

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>

#include "err.h"
#include "log.h"
#include "timeout.h"

#define SENTENCE_MAX 512
#define LIMIT_TEXT_MAX 192

/*
 * A process without a free descriptor fails at each request that comes, and strangers can send any number. So one line
 * is written in this time, in ns; rpma_errormsg() has the sentence of each failure.
 */
#define NO_DESCRIPTOR_LINE_NS UINT64_C(10000000000)

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
/*
 * message(arguments): rpma_errormsg(3) before any failure -> Ask it only after a call has failed, in the
 * same thread.
 */
static _Thread_local char last_sentence[SENTENCE_MAX] = "no call of this thread has failed";

const char *
rpma_errormsg(void)
{
	return last_sentence;
}

int
rpmai_refuse(int ret, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(last_sentence, sizeof(last_sentence), fmt, ap);
	va_end(ap);
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

/* ---- no descriptor left ---- */

static bool
is_no_descriptor(int errnum)
{
	return errnum == EMFILE || errnum == ENFILE;
}

/* writes what can be done about it, and returns the text */
static const char *
raise_the_limit(int errnum, char text[static LIMIT_TEXT_MAX])
{
	struct rlimit limit = { 0 };
	getrlimit(RLIMIT_NOFILE, &limit);
	/*
	 * message(limits, descriptors): the way out of *Too many open files*; one line in ten seconds ->
	 * Raise the limit, or close what is not needed.
	 */
	if (errnum == EMFILE)
		snprintf(text, LIMIT_TEXT_MAX,
			"this process may have %llu descriptors, and each connection takes three or more: raise "
			"the limit (ulimit -n, LimitNOFILE= of systemd)",
			(unsigned long long)limit.rlim_cur);
	else
		/* message(descriptors) */
		snprintf(text, LIMIT_TEXT_MAX,
			"this machine has reached its limit of descriptors, and each connection takes three or "
			"more: raise the limit (sysctl fs.file-max)");
	return text;
}

/* true if the log has no line about it yet, or none for a while */
static bool
is_time_to_tell(void)
{
	static _Atomic uint64_t told_ns; /* 0: never */
	const uint64_t now_ns = rpmai_timeout_now();
	uint64_t before_ns = atomic_load(&told_ns);
	if (before_ns && now_ns - before_ns < NO_DESCRIPTOR_LINE_NS)
		return false;
	return atomic_compare_exchange_strong(&told_ns, &before_ns, now_ns);
}

/* ---- failures of system calls and of the device ---- */

static void keep_sentence(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void
keep_sentence(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(last_sentence, sizeof(last_sentence), fmt, ap);
	va_end(ap);
}

int
rpmai_fail_errno(int ret, int errnum, const char *file, int line, const char *func, const char *way_out,
	const char *fmt, ...)
{
	char what[SENTENCE_MAX], limit[LIMIT_TEXT_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);

	if (way_out == NULL && is_no_descriptor(errnum))
		way_out = raise_the_limit(errnum, limit);
	errno = errnum; /* for %m: strerror() is not thread-safe */
	keep_sentence("%s failed: %m%s%s", what, way_out ? ": " : "", way_out ? way_out : "");
	if (!is_no_descriptor(errnum) || is_time_to_tell())
		rpmai_log(RPMA_LOG_LEVEL_ERROR, file, line, func, "%s", last_sentence);
	return ret;
}
