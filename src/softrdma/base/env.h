/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* env.h -- what the device uses from outside: clock, random numbers, log */

#ifndef SOFTRDMA_ENV_H
#define SOFTRDMA_ENV_H

#include <stdatomic.h>
#include <stdint.h>

#include "softrdma/softrdma.h"

#define SOFTRDMA_NS_PER_MS 1000000u

/* monotonic time in nanoseconds */
uint64_t softrdma_now_ns(void);

/* 0 or an errno value */
int softrdma_random(void *buf, size_t len);

/* the embedder's hint for log lines about a refused connection; never NULL */
const char *softrdma_refused_hint(void);

/* how long a client retries a refused connection, in milliseconds; 0: it does not */
unsigned softrdma_refused_patience_ms(void);

void softrdma_log_line(enum softrdma_log_level level, const char *file, int line, const char *func,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#define SOFTRDMA_LOG(level, ...) \
	softrdma_log_line(SOFTRDMA_LOG_##level, __FILE__, __LINE__, __func__, __VA_ARGS__)

/*
 * Limits log lines that remote hosts can cause in any number. In an interval SOFTRDMA_LOG_LINES lines of one
 * kind are written. The first line of a later interval gives the number of lines left out. Each kind has a
 * static object, initialized with SOFTRDMA_LOG_LIMIT; or with SOFTRDMA_LOG_ONCE, for one line in an interval. Any
 * thread.
 */
struct softrdma_log_limit {
	/* no lock: a child forked while another thread writes a line must be able to write its own */
	_Atomic uint64_t since_ns;
	atomic_uint lines, left_out;
	unsigned most; /* lines in an interval; 0: SOFTRDMA_LOG_LINES */
};

#define SOFTRDMA_LOG_LIMIT \
	{ \
		.since_ns = 0 \
	}

#define SOFTRDMA_LOG_ONCE \
	{ \
		.most = 1 \
	}

void softrdma_log_few(struct softrdma_log_limit *limit, enum softrdma_log_level level, const char *file,
	int line, const char *func, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

#define SOFTRDMA_LOG_FEW(limit, level, ...) \
	softrdma_log_few(limit, SOFTRDMA_LOG_##level, __FILE__, __LINE__, __func__, __VA_ARGS__)

#endif /* SOFTRDMA_ENV_H */
