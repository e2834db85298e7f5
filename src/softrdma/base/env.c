/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* env.c -- what the device uses from outside: clock, random numbers, log */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/env.h"
#include "softrdma/base/stderr_line.h"
#include "softrdma/bounds.h"

#define LOG_TEXT_MAX 512

static uint64_t
monotonic_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int
kernel_random(void *buf, size_t len)
{
	for (size_t have = 0; have < len;) {
		ssize_t n = getrandom((char *)buf + have, len - have, 0);
		if (n < 0 && errno != EINTR)
			return errno;
		if (n > 0)
			have += (size_t)n;
	}
	return 0;
}

/* without an embedder (libsoftrdma.so): warnings and worse go to standard error */
static void
stderr_log(enum softrdma_log_level level, const char *file, int line, const char *func, const char *text)
{
	(void)file;
	(void)line;
	(void)func;
	if (level > SOFTRDMA_LOG_WARNING)
		return;
	char out[LOG_TEXT_MAX + sizeof("softrdma: \n")];
	const int len = snprintf(out, sizeof(out), "softrdma: %s\n", text);
	softrdma_stderr_line(out, (size_t)len, SOFTRDMA_STDERR_PATIENCE_MS);
}

static struct softrdma_env env = {
	.now_ns = monotonic_ns,
	.random = kernel_random,
	.log = stderr_log,
	.refused_hint = "",
};

void
softrdma_set_env(const struct softrdma_env *new_env)
{
	if (new_env->now_ns)
		env.now_ns = new_env->now_ns;
	if (new_env->random)
		env.random = new_env->random;
	if (new_env->log)
		env.log = new_env->log;
	if (new_env->refused_hint)
		env.refused_hint = new_env->refused_hint;
	if (new_env->refused_patience_ms)
		env.refused_patience_ms = new_env->refused_patience_ms;
}

uint64_t
softrdma_now_ns(void)
{
	return env.now_ns();
}

int
softrdma_random(void *buf, size_t len)
{
	return env.random(buf, len);
}

const char *
softrdma_refused_hint(void)
{
	return env.refused_hint;
}

unsigned
softrdma_refused_patience_ms(void)
{
	return env.refused_patience_ms;
}

static void
write_line(enum softrdma_log_level level, const char *file, int line, const char *func, const char *text)
{
	SOFTRDMA_NO_CANCEL; /* the embedder has locks of its own, and writes */
	const char *base = strrchr(file, '/');
	env.log(level, base ? base + 1 : file, line, func, text);
}

void
softrdma_log_line(enum softrdma_log_level level, const char *file, int line, const char *func,
	const char *fmt, ...)
{
	char text[LOG_TEXT_MAX];
	int saved_errno = errno; /* a log line must not change what its caller is about to report */
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	write_line(level, file, line, func, text);
	errno = saved_errno;
}

/* true if another line may be written in this interval; *left_out then counts the lines dropped before it */
static bool
one_more(struct softrdma_log_limit *limit, unsigned *left_out)
{
	const unsigned most = limit->most ? limit->most : SOFTRDMA_LOG_LINES;
	uint64_t now_ns = softrdma_now_ns();
	uint64_t since_ns = atomic_load(&limit->since_ns);
	/* if several threads find the interval over, one of them begins the next */
	if (now_ns - since_ns >= (uint64_t)SOFTRDMA_LOG_INTERVAL_MS * SOFTRDMA_NS_PER_MS &&
		atomic_compare_exchange_strong(&limit->since_ns, &since_ns, now_ns))
		atomic_store(&limit->lines, 0);
	bool room = atomic_load(&limit->lines) < most && atomic_fetch_add(&limit->lines, 1) < most;
	if (room)
		*left_out = atomic_exchange(&limit->left_out, 0);
	else
		atomic_fetch_add(&limit->left_out, 1);
	return room;
}

void
softrdma_log_few(struct softrdma_log_limit *limit, enum softrdma_log_level level, const char *file, int line,
	const char *func, const char *fmt, ...)
{
	char text[LOG_TEXT_MAX];
	int saved_errno = errno;
	unsigned left_out;
	if (!one_more(limit, &left_out))
		return;
	va_list ap;
	va_start(ap, fmt);
	int len = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (left_out && (size_t)len < sizeof(text))
		snprintf(text + len, sizeof(text) - (size_t)len, " (and %u more like it)", left_out);
	write_line(level, file, line, func, text);
	errno = saved_errno;
}
