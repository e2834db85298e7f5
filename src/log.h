/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* log.h -- log messages of the library */

#ifndef RPMAI_LOG_H
#define RPMAI_LOG_H

#include "public.h"

/*
 * Logs one finished sentence without a newline: no keys, no memory addresses, no private data. It preserves
 * errno. Any thread may call it; a message above the threshold costs one comparison.
 */
void rpmai_log(enum rpma_log_level level, const char *file, int line, const char *func, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* reads the environment and registers the fork handlers, once; logging does this too. Any thread. */
void rpmai_log_prepare(void);

#define RPMAI_LOG(level, ...) rpmai_log(RPMA_LOG_LEVEL_##level, __FILE__, __LINE__, __func__, __VA_ARGS__)

#endif /* RPMAI_LOG_H */
